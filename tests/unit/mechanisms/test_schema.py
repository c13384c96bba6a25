"""What the schema has against a document: in the words of its author, and with the place of each fault."""

import json

import pytest

from attnspec.mechanisms.documents import parse
from attnspec.mechanisms.schema import place_of, schema_errors, spec_folder

HEAD = "mechanism: softmax\ntitle: Softmax\nversion: 1\nsources: [Bridle 1990]\nsummary: Shares.\n"


def faults(text):
    return [str(error) for error in schema_errors(parse(text, "s.yaml"))]


@pytest.mark.parametrize("path", sorted(spec_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_the_schema_has_nothing_against_a_shipped_specification(path):
    assert [] == faults(path.read_text("utf-8"))


def test_the_head_alone_is_a_valid_document():
    assert [] == faults(HEAD)


@pytest.mark.parametrize("key", ["mechanism", "title", "version", "sources", "summary"])
def test_a_missing_key_is_named(key):
    text = "".join(line for line in HEAD.splitlines(keepends=True) if not line.startswith(key))
    assert [f"s.yaml:1:1: the key '{key}' is missing"] == faults(text)


def test_every_missing_key_is_named_once():
    expected = [f"s.yaml:1:1: the key '{key}' is missing" for key in ("title", "version", "sources", "summary")]
    assert expected == faults("mechanism: softmax\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lawz: 1\n", "s.yaml:6:1: unknown key 'lawz'; did you mean 'laws'?"),
        ("zzz: 1\n", "s.yaml:6:1: unknown key 'zzz'"),
        (
            "laws:\n  one:\n    says: X.\n    holds: 1\n    hold: 2\n",
            "s.yaml:10:5: laws.one: unknown key 'hold'; did you mean 'holds'?",
        ),
        (
            "mistakes:\n  one:\n    says: X.\n    change: a = 1\n    sein: x\n",
            "s.yaml:10:5: mistakes.one: unknown key 'sein'; did you mean 'seen'?",
        ),
        (
            "rejects:\n  one:\n    says: X.\n    call: a = 1\n    holds: x\n",
            "s.yaml:10:5: rejects.one: unknown key 'holds'",
        ),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(text, message):
    assert [message] == faults(HEAD + text)


@pytest.mark.parametrize(
    ("seen", "valid"),
    [
        ("owner/repository#12", True),
        ("owner/re.po_si-tory#12, package 1.2.3, other/thread#1", True),
        ("two-words 5.23.0", True),
        ("somewhere", False),
        ("package", False),
        ("owner/repository", False),
        ("owner/repository#0", False),
        ("owner/repository#12 and others", False),
        ("owner/repository#12,other/thread#1", False),
    ],
)
def test_where_a_mistake_was_seen_are_threads_and_releases(seen, valid):
    says = "is not a list of threads (owner/repository#12) and releases (package 1.2.3)"
    text = f"mistakes:\n  one:\n    says: X.\n    change: a = 1\n    seen: {seen}\n"
    expected = [] if valid else [f"s.yaml:10:11: mistakes.one.seen: {seen!r} {says}"]
    assert expected == faults(HEAD + text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("laws:\n  one:\n    says: X.\n", "s.yaml:7:3: laws.one: the key 'holds' is missing"),
        ("mistakes:\n  one:\n    says: X.\n", "s.yaml:7:3: mistakes.one: the key 'change' is missing"),
        ("rejects:\n  one:\n    call: a = 1\n", "s.yaml:7:3: rejects.one: the key 'says' is missing"),
        ("examples:\n  one:\n    given: a = 1\n", "s.yaml:7:3: examples.one: the key 'gives' is missing"),
    ],
)
def test_a_missing_key_of_an_entry_is_named_at_the_entry(text, message):
    assert [message] == faults(HEAD + text)


@pytest.mark.parametrize("name", ["N", "9a", "_a", "a-b", "a b", "''"])
@pytest.mark.parametrize("section", ["sizes", "laws", "definition", "conventions", "scenarios"])
def test_a_name_is_snake_case(section, name):
    expected = f"{section}: '{name.strip(chr(39))}' is not a name (small letters, digits and underscores)"
    own = [fault for fault in faults(f"{HEAD}{section}:\n  {name}: x\n") if "is not a name" in fault]
    assert [expected] == [fault.partition(": ")[2] for fault in own]
    assert own[0].startswith("s.yaml:7:")


def test_a_long_name_is_refused():
    name = "a" * 41
    assert [f"s.yaml:7:3: sizes: '{name}' is longer than 40 characters"] == faults(f"{HEAD}sizes:\n  {name}: 1\n")
    assert [] == faults(f"{HEAD}sizes:\n  {name[1:]}: 1\n")


@pytest.mark.parametrize("version", ["0", "-1", "one", "1.0", "''"])
def test_a_version_is_a_whole_number(version):
    shown = version.strip("'")
    place = "3:11" if version == "''" else "3:10"
    expected = f"s.yaml:{place}: version: '{shown}' is not an integer from one on"
    assert [expected] == faults(HEAD.replace("version: 1", f"version: {version}"))


def test_a_version_is_a_number_that_people_count_to():
    (found,) = faults(HEAD.replace("version: 1", f"version: {'9' * 5000}"))
    assert f"s.yaml:3:10: version: '{'9' * 79}... is longer than 9 characters" == found


@pytest.mark.parametrize("section", ["laws", "mistakes", "rejects", "examples", "conventions", "words", "scenarios"])
def test_a_section_has_at_most_two_hundred_entries(section):
    text = f"{HEAD}{section}:\n" + "".join(f"  a{i}: x\n" for i in range(201))
    assert f"s.yaml:6:1: {section}: there are more than 200 of these" == faults(text)[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("outputs: [" + ", ".join(f"a{i}" for i in range(201)) + "]\n", "outputs: there are more than 200 of these"),
        ("sizes: [a]\n", "s.yaml:6:1: sizes: ['a'] is not a mapping of names"),
        ("sizes:\n", "s.yaml:6:7: sizes: '' is not a mapping of names"),
        ("inputs:\n  x: [1]\n", "s.yaml:7:3: inputs.x: ['1'] is not a text"),
        ("inputs:\n  x:\n", "s.yaml:7:5: inputs.x: nothing is said"),
        ("outputs: a\n", "s.yaml:6:10: outputs: 'a' is not a list"),
        ("outputs: [a, a]\n", "s.yaml:6:1: outputs: something is given twice in ['a', 'a']"),
        ("definition: code\n", "s.yaml:6:13: definition: 'code' is neither a mapping of names nor 'reference'"),
        ("conventions:\n  one:\n    word: Only.\n", "s.yaml:7:3: conventions.one: there are at least 2 of these"),
        (
            "sizes:\n" + "".join(f"  a{i}: 1\n" for i in range(201)),
            "s.yaml:6:1: sizes: there are more than 200 of these",
        ),
        (
            "laws:\n  one: {says: X., holds: 1, level: may}\n",
            "'may' is not one of ['must', 'should', 'unless_refused']",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_where_it_stands(text, message):
    (found,) = faults(HEAD + text)
    assert found.endswith(message)


@pytest.mark.parametrize(
    ("says", "message"),
    [("No stop", "a sentence ends with a full stop"), ("''", "nothing is said")],
)
@pytest.mark.parametrize(
    "entry",
    [
        "laws:\n  one:\n    says: {}\n    holds: 1\n",
        "laws:\n  one:\n    says: X.\n    holds: 1\n    contract: {}\n",
        "mistakes:\n  one:\n    says: {}\n    change: a = 1\n",
        "rejects:\n  one:\n    says: {}\n    call: a = 1\n",
        "conventions:\n  one:\n    a: {}\n    b: X.\n",
    ],
)
def test_a_sentence_says_something_and_ends_with_a_full_stop(entry, says, message):
    (found,) = faults(HEAD + entry.format(says))
    assert message == found.rpartition(": ")[2]


def test_sources_name_at_least_one():
    assert ["s.yaml:4:1: sources: nothing is said"] == faults(HEAD.replace("[Bridle 1990]", "[]"))


def test_the_definition_may_be_the_reference():
    assert [] == faults(HEAD + "definition: reference\n")


def test_all_faults_are_found_at_once():
    text = HEAD.replace("title", "titel") + "sizes:\n  N: 1\n"
    expected = {
        "s.yaml:2:1: unknown key 'titel'; did you mean 'title'?",
        "s.yaml:1:1: the key 'title' is missing",
        "s.yaml:7:3: sizes: 'N' is not a name (small letters, digits and underscores)",
    }
    assert expected == set(faults(text))


@pytest.mark.parametrize("other", ["[1]", "{a: b}"])
def test_what_may_be_a_number_or_a_text_and_is_neither_is_told(other):
    (fault,) = faults(HEAD.replace("version: 1", f"version: {other}"))
    assert ("s.yaml:3", "is not an integer") == (fault[:8], fault[-17:])


def test_the_schema_describes_each_of_its_keys():
    schema = json.loads((spec_folder() / "schema.json").read_text("utf-8"))
    assert [] == [k for k, v in schema["properties"].items() if not v.get("description")]
    assert False is schema["additionalProperties"]


def test_plain_text_has_no_place():
    assert None is place_of("text")


@pytest.mark.parametrize("share", ["0.75", "0", "1", "1.0", ".5", "0.999"])
def test_the_share_that_is_answered_is_a_share(share):
    assert [] == faults(f"{HEAD}answered: {share}\n")


@pytest.mark.parametrize("share", ["1.1", "-0.5", "most", "90", "1e-1", "nan"])
def test_a_share_that_is_none_is_refused(share):
    assert [f"s.yaml:6:11: answered: '{share}' is not a share from 0 to 1"] == faults(f"{HEAD}answered: {share}\n")
