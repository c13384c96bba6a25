"""`attnspec lint`: what it prints of good and bad files, and the code it leaves with."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import UsageError
from attnspec.mechanisms.lint import LONGEST_SENTENCE, faults, lint_files
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.schema import spec_folder


def lint(*arguments):
    """The exit code and the lines of one run."""
    result = CliRunner().invoke(main, ["lint", *arguments])
    return result.exit_code, result.output.splitlines()


def changed(before, after, name="softmax"):
    """A copy of a shipped specification, changed, and the place of the mark § in it."""
    text = (spec_folder() / f"{name}.yaml").read_text("utf-8")
    assert before in text
    text = text.replace(before, after, 1)
    head = text.partition("§")[0]
    Path(f"{name}.yaml").write_text(text.replace("§", "", 1), "utf-8")
    return f"{name}.yaml:{head.count(chr(10)) + 1}:{len(head) - head.rfind(chr(10))}"


def test_the_shipped_specifications_have_no_faults():
    assert (0, [f"{len(library())} files, no faults"]) == lint()


def test_a_good_file_has_no_faults():
    changed("title", "title")
    assert (0, ["1 file, no faults"]) == lint("softmax.yaml")


def test_a_folder_stands_for_its_files():
    changed("title", "title")
    changed("title", "title", "causal_mask")
    Path("notes.txt").write_text("no specification", "utf-8")
    assert (0, ["2 files, no faults"]) == lint(".")


def test_a_folder_without_files_is_bad_usage():
    Path("empty").mkdir()
    assert (4, ["attnspec: there is no .yaml file in empty"]) == lint("empty")
    with pytest.raises(UsageError, match=r"there is no \.yaml file in empty"):
        lint_files([Path("empty")])


def test_a_missing_file_is_a_fault():
    assert (4, ["cannot read none.yaml: No such file or directory", "1 file, 1 fault"]) == lint("none.yaml")


def test_faults_are_printed_with_their_places_and_counted():
    place = changed("exp(shift(x))", "exp(shift(§y))")
    expected = [
        f"{place}: definition.terms: unknown name 'y'",
        "    exp(shift(y))",
        "              ^",
        "1 file, 1 fault",
    ]
    assert (4, expected) == lint("softmax.yaml")


def test_the_faults_of_several_files_are_printed_together():
    first = changed("causal: true", "causal: §ture", "causal_mask")
    second = changed("plain: rows = 3", "plain: row = §3")
    code, lines = lint("softmax.yaml", "causal_mask.yaml")
    assert (4, "2 files, 2 faults") == (code, lines[-1])
    assert f"{first}: options.causal: unknown name 'ture'; did you mean 'true'?" == lines[0]
    assert f"{second}: scenarios.plain: nothing is called 'row'; did you mean 'rows'?" == lines[-2]


LONG = "The entries of a row add up to one, " + "and so on, " * 12 + "always."
STYLE = [
    (
        "says: The entries of a row add up",
        "says: §The entries of a row should add up",
        "laws.sums_to_one.says: say what is, not what 'should' be",
    ),
    (
        "says: The entries of a row add up",
        "says: §The entries of a row MUST add up",
        "laws.sums_to_one.says: say what is, not what 'MUST' be",
    ),
    (
        "says: The entries of a row add up",
        "says: §The entries of a row have to add up",
        "laws.sums_to_one.says: say what is, not what 'have to' be",
    ),
    (
        "says: The entries of a row add up",
        "says: §the entries of a row add up",
        "laws.sums_to_one.says: a sentence starts with a capital letter",
    ),
    (
        "says: The entries of a row add up to one.",
        f"says: §{LONG}",
        f"laws.sums_to_one.says: {len(LONG)} characters are more than one sentence ({LONGEST_SENTENCE})",
    ),
    (
        "says: The maximum is not subtracted.",
        "says: §the maximum is not subtracted.",
        "mistakes.unshifted.says: a sentence starts with a capital letter",
    ),
    (
        'sources:\n  - "Bridle 1990, P',
        'sources:\n  - "§Bridle, P',
        "sources: 'Bridle, Probabilistic interpretation of ' names no year, number or address",
    ),
    (
        "  unshifted:\n    says: The maximum is not subtracted.\n    change: terms",
        "  share:\n    says: The maximum is not subtracted.\n    change: §terms",
        "mistakes.share: a law has the same name",
    ),
    (
        "given: o = permutation(n)",
        "given: o = permutation(n), idle = §2 * o",
        "laws.reordered.given: 'idle' is used nowhere",
    ),
    (
        "holds: sum(p) == 1",
        "holds: §sum(terms / total) == 1",
        "laws.sums_to_one: the claim does not ask what the subject returns",
    ),
    ("  total: sum(", "  idle: §2 * x\n  total: sum(", "definition.idle: no line and no law uses it"),
]


@pytest.mark.parametrize(("before", "after", "message"), STYLE, ids=[message[:60] for _, _, message in STYLE])
def test_what_is_badly_said_is_a_fault_at_its_place(before, after, message):
    place = changed(before, after)
    assert (4, [f"{place}: {message}", "1 file, 1 fault"]) == lint("softmax.yaml")


def test_a_reject_speaks_in_the_indicative_too():
    place = changed("says: Keys and values are equally many.", "says: §Keys and values must be as many.", "attention")
    expected = f"{place}: rejects.lengths.says: say what is, not what 'must' be"
    assert (4, [expected, "1 file, 1 fault"]) == lint("attention.yaml")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("says: The maximum is not subtracted.", "says: What must be subtracted is not."),
        ("says: The entries of a row add up", "says: 2 entries of a row add up"),
        ("says: The entries of a row add up", "says: Entries that one might call a mustard add up"),
        ("Bridle 1990, Prob", "https://example.org, Prob"),
        ("Bridle 1990, Prob", "arXiv, Prob"),
    ],
)
def test_what_is_well_said_is_no_fault(before, after):
    changed(before, after)
    assert (0, ["1 file, no faults"]) == lint("softmax.yaml")


def test_a_given_counts_as_used_where_a_used_one_reads_it():
    place = changed("given: o = permutation(n)", "given: a = n, o = permutation(a), b = a, c = §b")
    assert (4, [f"{place}: laws.reordered.given: 'c' is used nowhere", "1 file, 1 fault"]) == lint("softmax.yaml")


def test_a_line_that_a_further_mechanism_takes_over_is_not_its_fault():
    assert [] == [str(fault) for mechanism in library().values() for fault in faults(mechanism)]


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("whole numbers", "integer"),
        ("is immaterial", "does not matter"),
        ("has no say", "does not matter"),
        ("is in vain", "without effect"),
        ("the so-manieth", "n-th"),
        ("Stands", "is, occurs or represents"),
        ("truths", "boolean"),
        ("once more", "again"),
        ("is taken for", "treated as"),
        ("are told", "is reported or recognised"),
        ("told apart", "distinguished"),
        ("in place of", "instead of"),
        ("comes along", "is included"),
    ],
)
def test_prose_has_the_plainer_word(said, instead):
    place = changed("says: The entries of a row", f"says: §Here {said} the entries of a row")
    code, (line, _) = lint("softmax.yaml")
    assert 4 == code
    assert line.startswith(f"{place}: laws.sums_to_one.says: for ")
    assert line.endswith(f"there is a plainer word: {instead}")


def test_the_title_and_the_summary_are_prose_too():
    changed("title: Softmax", "title: Softmax of whole numbers")
    told = "softmax.yaml:1:1: title: for 'whole numbers' there is a plainer word: integer"
    assert (4, [told, "1 file, 1 fault"]) == lint("softmax.yaml")
