"""Written attacks on the reader of specifications: a file of any content is read or refused in bounded work and memory.

Each is a text of at most the allowed size that is wide, deep, long or faulty in one way.
"""

import json
import os
import re
import resource
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import Exit, did_you_mean
from attnspec.mechanisms.lint import lint_files
from attnspec.mechanisms.schema import schema_errors
from attnspec.numerics import budget
from attnspec.runs import waivers

HOSTILE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "hostile.py"))
SECONDS = 6.0
"""Processor time of one attack: three times what is promised, for a machine that is busy with other things."""
MEGABYTES = 500
WAIVERS = Path(waivers.__file__).with_name("waivers.json")
CEILING = json.loads(WAIVERS.read_text("utf-8"))["$defs"]["waiver"]["properties"]["ceiling"]["pattern"]

HEAD = "mechanism: attack\ntitle: Any\nversion: 1\nsources: [Someone 2020]\nsummary: What it is.\n"
BODY = HEAD + "sizes: {n: 3}\ninputs: {x: normal(n)}\noutputs: [y]\ndefinition: {y: 2 * x}\n"
ROOM = budget.FILE_BYTES - len(BODY) - 1000


def many(line, width=None, room=ROOM):
    """As many lines as a file has room for, each with its number."""
    size = width or len(line.format(i=10_000))
    return "".join(line.format(i=i) for i in range(room // size))


def names(count, length=40):
    """Distinct names of a length, near to one another."""
    return [f"{'abcdefghij' * 4}"[: length - 6] + f"_{i:05d}" for i in range(count)]


def section(key, entries, head=BODY):
    return f"{head}{key}:\n" + "".join(f"  {name}: {text}\n" for name, text in entries.items())


def entangled(count):
    """As many names, each of which uses the thirteen before it."""
    known = names(count)
    return {x: " + ".join(known[max(0, i - 13) : i] or ["1"]) for i, x in enumerate(known)}


def cut(text):
    return text[: budget.FILE_BYTES - 1]


LINES = {name: " + ".join(names(200)[:13]) for name in names(200)}
SECTIONS = ("sizes", "inputs", "options", "requires", "definition", "scenarios")
ATTACKS = {
    # wide
    "distinct outputs": lambda: HEAD + "outputs: [" + many("o{i}, ") + "]\n",
    "distinct lists under outputs": lambda: HEAD + "outputs: [" + many("[{i}], ") + "]\n",
    "mixed items under outputs": lambda: HEAD + "outputs: [" + many("[{i}], a{i}, {{b: {i}}}, ", 30) + "]\n",
    "a thousand mixed items under outputs": lambda: (
        HEAD + "outputs: [" + "".join(f"[{i}], a{i}, {{b: {i}}}, " for i in range(333)) + "]\n"
    ),
    "nine lists of a thousand items": lambda: (
        HEAD + "".join(f"{key}: [{'a, ' * 990}]\n" for key in ("outputs", "random", *names(7)))
    ),
    "a thousand laws with bad keys": lambda: (
        BODY + "laws:\n" + "".join(f"  l{i}: {{a: 1, b: 2, c: 3, d: {{}}}}\n" for i in range(990))
    ),
    "nine sections of a thousand lists": lambda: (
        HEAD
        + "".join(
            f"{key}:\n" + "".join(f"  k{i}: []\n" for i in range(540))
            for key in (*SECTIONS, "laws", "mistakes", "rejects")
        )
    ),
    "faults with long texts": lambda: (
        BODY + "laws:\n" + "".join(f"  l{i}: {{says: {'a' * 9000}, holds: [], c: 3}}\n" for i in range(26))
    ),
    "distinct sources": lambda: BODY.replace("[Someone 2020]", "[" + many("a{i}, ") + "]"),
    "distinct random": lambda: BODY + "random: [" + many("a{i}, ") + "]\n",
    "one key twice at the end": lambda: cut(BODY + many("k{i}: a\n", room=ROOM - 100) + "title: b\n"),
    "many unknown keys": lambda: BODY + many("k{i}: a\n"),
    "many unknown keys near a known one": lambda: BODY + many("mechanis{i}: a\n"),
    "many unknown keys in a law": lambda: BODY + "laws:\n  l:\n" + many("    hold{i}: a\n"),
    "many bad laws": lambda: BODY + "laws:\n" + many("  l{i}: a\n"),
    "many laws without a claim": lambda: BODY + "laws:\n" + many("  l{i}: {{}}\n"),
    "many laws with bad keys": lambda: BODY + "laws:\n" + many("  l{i}: {{a: 1, b: 2, c: 3}}\n"),
    "many mistakes": lambda: BODY + "mistakes:\n" + many("  m{i}: {{says: A., change: y = x, seen: a-a-a-a}}\n"),
    "many sizes": lambda: HEAD + "sizes:\n" + many("  s{i}: 1\n"),
    "many sizes that are lists": lambda: HEAD + "sizes:\n" + many("  s{i}: [1]\n"),
    "many lines that are lists": lambda: HEAD + "definition:\n" + many("  s{i}: [1]\n"),
    "many words": lambda: BODY + "conventions:\n  c:\n" + many("    w{i}: a\n"),
    "many words of an option": lambda: BODY + "words:\n  c:\n" + many("    w{i}: a\n"),
    "many follows": lambda: BODY + "follows:\n" + many("  w{i}: a\n"),
    "many dtypes": lambda: BODY + "dtypes:\n" + many("  w{i}: float128\n"),
    "many examples": lambda: BODY + "examples:\n" + many("  e{i}: {{given: x = 1, gives: y = 2, more: 1}}\n"),
    "many empty items": lambda: BODY + "outputs: [" + "," * ROOM + "]\n",
    "many empty lists": lambda: BODY + "outputs: [" + "[]," * (ROOM // 3) + "]\n",
    "many documents": lambda: BODY + "---\na: 1\n" * (ROOM // 9),
    # deep
    "deep lists": lambda: HEAD + "outputs: " + "[" * ROOM,
    "deep mappings": lambda: HEAD + "outputs: " + "{a: " * (ROOM // 4),
    "deep blocks": lambda: HEAD + "".join(f"{' ' * i}a:\n" for i in range(700)),
    "deep sequences": lambda: HEAD + "outputs:\n  " + "- " * (ROOM // 2) + "a\n",
    "complex keys": lambda: HEAD + "? " * (ROOM // 2) + "a\n",
    # long
    "a long title": lambda: BODY.replace("Any", "a" * ROOM),
    "a long key": lambda: BODY + "a" * ROOM + ": 1\n",
    "a long name of a law": lambda: BODY + "laws:\n  " + "a" * 1000 + ": {says: A., holds: y}\n",
    "a long sentence": lambda: BODY + "laws: {a: {says: '" + "must " * (ROOM // 5) + ".', holds: y}}\n",
    "a long version": lambda: BODY.replace("version: 1", "version: " + "1" * ROOM),
    "a long integer": lambda: BODY.replace("n: 3", "n: " + "9" * ROOM),
    "a long comment": lambda: BODY + "#" + "a" * ROOM,
    "a long row of blanks": lambda: BODY + " " * ROOM,
    "many blank lines": lambda: BODY + "\n" * ROOM,
    "many comments and a fault": lambda: BODY + "#\n" * (ROOM // 2) + "'",
    "many escapes": lambda: BODY + 'formula: "' + "\\x41" * (ROOM // 4) + '"\n',
    "an escape that is none at the end": lambda: BODY + 'formula: "' + "\\x41" * (ROOM // 4 - 2) + '\\xzz"\n',
    "a quote that does not end": lambda: BODY + "formula: '" + "a\n  " * (ROOM // 4),
    "a block that does not end": lambda: BODY + "formula: |\n" + "  a\n" * (ROOM // 4),
    "a fault in the last character": lambda: BODY + "laws:\n" + many("  l{i}: a\n", room=ROOM - 10) + "'",
    "no YAML from the first character on": lambda: "@" * ROOM,
    "no text": lambda: BODY + "\x00" * ROOM,
    "wide characters": lambda: BODY + "\U0001f600" * (ROOM // 4),
    # patterns
    "seen: almost a place": lambda: section("mistakes", {"m": f"{{says: A., change: y = x, seen: {'a-' * 4900}}}"}),
    "seen: almost many places": lambda: section(
        "mistakes", {"m": f"{{says: A., change: y = x, seen: '{'a/b#1, ' * 1400}!'}}"}
    ),
    "seen: almost a release": lambda: section(
        "mistakes", {"m": f"{{says: A., change: y = x, seen: 'a {'1.' * 4900}'}}"}
    ),
    # references
    "all lines use all": lambda: section("definition", LINES, BODY.replace("definition: {y: 2 * x}\n", "")),
    "many scenarios over many sizes": lambda: (
        section("sizes", entangled(200), HEAD)
        + "outputs: [y]\ninputs: {x: normal(3)}\ndefinition: {y: x}\n"
        + section("scenarios", {f"s{i}": f"{x} = 1 + {x} + {names(200)[0]}" for i, x in enumerate(names(200))}, "")
    ),
    "many mistakes over many lines": lambda: (
        section("definition", {**entangled(199), "y": names(199)[-1]}, HEAD + "inputs: {x: normal(3)}\noutputs: [y]\n")
        + section("mistakes", {f"m{i}": f"{{says: A., change: '{x} = y'}}" for i, x in enumerate(names(199))}, "")
    ),
    "a long chain of lines": lambda: section(
        "definition", {f"l{i}": f"l{i + 1}" for i in range(199)}, BODY.replace("definition: {y: 2 * x}\n", "")
    ),
    "many cycles": lambda: section(
        "laws", {f"l{i}": "{says: A., given: 'a = b, b = a', holds: y}" for i in range(200)}
    ),
    # expressions
    "unknown names": lambda: section(
        "requires",
        {f"r{i}": names(200)[i][:-3] for i in range(200)},
        section("options", dict.fromkeys(names(200), "1")),
    ),
    "unknown long names": lambda: section("requires", {f"r{i}": "ab" * 299 for i in range(200)}),
    "long expressions": lambda: section("requires", {f"r{i}": "abs(" + "abs(1) + " * 28 + "1)" for i in range(200)}),
    "long flat calls": lambda: (
        "".join(
            section(key, {f"{key[:2]}{i}": f"choice({'abs(1), ' * 70}1)" for i in range(140)}, "")
            for key in ("sizes", "options")
        )
        + HEAD
    ),
    "long assignments": lambda: section(
        "laws",
        {
            f"l{i}": "{says: A., given: '" + ", ".join(f"a{j} = abs(1)" for j in range(45)) + "', holds: y}"
            for i in range(200)
        },
    ),
    "deep expressions": lambda: section("requires", {f"r{i}": "(" * 190 + "1" + ")" * 190 for i in range(200)}),
    "expressions that are none": lambda: section("requires", {f"r{i}": "1 +" + " " * 590 + "+" for i in range(200)}),
    "long lists of numbers": lambda: section("requires", {f"r{i}": "[" + "1, " * 190 + "1]" for i in range(200)}),
    "long printed numbers": lambda: section(
        "examples", {f"e{i}": f"{{given: x = 1, gives: 'y = [{'1.5, ' * 110}1]'}}" for i in range(200)}
    ),
    "long numbers": lambda: section("requires", {f"r{i}": "9" * 599 for i in range(200)}),
    "many draws": lambda: section("sizes", {f"s{i}": f"choice({'1, ' * 190}1)" for i in range(200)}, HEAD),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_file_of_any_content_is_read_or_refused_in_bounded_work(name):
    text = ATTACKS[name]()
    Path("attack.yaml").write_text(text, "utf-8")
    assert len(text.encode()) <= budget.FILE_BYTES
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = HOSTILE["outcome"](0, "document", lambda: lint_files([Path("attack.yaml")]), SECONDS)
    held = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert ("", True) == (found.wrong, held < MEGABYTES)


def lint(*paths):
    """The exit code and the output of one run."""
    result = CliRunner().invoke(main, ["lint", *paths])
    return result.exit_code, result.output


def test_a_waiver_of_many_digits_is_refused_in_bounded_work():
    entry = dict.fromkeys(("law", "target", "case", "reason", "issue", "owner"), "a")
    entry |= {"added": "2026-01-01", "expires": "2026-01-02", "ceiling": "1" * 9999 + "x"}
    document = {"version": "1", "waivers": [entry]}
    found = list(schema_errors({}, WAIVERS))[:0]  # what is imported late is imported before
    outcome = HOSTILE["outcome"](0, "document", lambda: found.extend(schema_errors(document, WAIVERS)), SECONDS)
    assert ("", 1) == (outcome.wrong, len(found))


@pytest.mark.parametrize("ceiling", ["1", "0.5", ".5", "10.25e-3", "3e8"])
def test_a_ceiling_is_a_number_above_zero(ceiling):
    assert re.search(CEILING, ceiling)


@pytest.mark.parametrize("ceiling", ["0", "0.0", "1.", "", "e5", "1.5.1", "x1"])
def test_anything_else_is_no_ceiling(ceiling):
    assert not re.search(CEILING, ceiling)


def test_so_many_faults_are_told_and_the_others_are_counted():
    Path("attack.yaml").write_text(BODY + "laws:\n" + "".join(f"  l{i}: {{}}\n" for i in range(60)), "utf-8")
    code, output = lint("attack.yaml")
    lines = output.splitlines()
    assert (Exit.USAGE, budget.FAULTS + 2) == (code, len(lines))
    assert "attack.yaml:41:3: and 70 more faults in this file, which are not shown; fix these first" == lines[-2]


def test_faults_of_style_are_counted_as_well():
    laws = "".join(f"  l{i}: {{says: it must be., holds: y == y}}\n" for i in range(60))
    Path("attack.yaml").write_text(BODY + "laws:\n" + laws, "utf-8")
    assert "and 70 more faults in this file, which are not shown; fix these first" in lint("attack.yaml")[1]


SECRET = "password: hunter2\nkeys: [&a 1, *a]\n"


@pytest.mark.parametrize(
    "text", [SECRET, "password: hunter2\n", "hunter2", "'hunter2", "hunter2: [", "- hunter2\n", ""]
)
def test_nothing_of_a_file_is_quoted_that_is_no_specification(text):
    Path("attack.yaml").write_text(text, "utf-8")
    Path("link.yaml").symlink_to("attack.yaml")
    for name in ("attack.yaml", "link.yaml"):
        told = "not a specification: no line starts with `mechanism: `; its contents are not shown"
        assert (Exit.USAGE, f"{name}:1:1: {told}\n1 file, 1 fault\n") == lint(name)


def test_what_is_not_called_a_specification_is_not_read():
    Path("secret.txt").write_text(BODY + SECRET, "utf-8")
    Path("link.yaml").symlink_to("secret.txt")
    Path("good.yaml").write_text(BODY.replace("attack", "good"), "utf-8")
    Path("good.txt").symlink_to("good.yaml")
    for name in ("secret.txt", "link.yaml", "good.txt"):
        expected = f"cannot read {name}: the name of a specification ends in .yaml\n1 file, 1 fault\n"
        assert (Exit.USAGE, expected) == lint(name)


def test_a_link_is_called_by_its_own_name():
    Path("inner").mkdir()
    Path("inner/attack.yaml").write_text(BODY.replace("2 * x", "2 * z"), "utf-8")
    Path("attack.yaml").symlink_to("inner/attack.yaml")
    assert "attack.yaml:9:21: definition.y: unknown name 'z'" == lint("attack.yaml")[1].splitlines()[0]


def test_a_link_to_itself_cannot_be_read():
    Path("attack.yaml").symlink_to("attack.yaml")
    assert "cannot read attack.yaml: Too many levels of symbolic links" == lint("attack.yaml")[1].splitlines()[0]


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/tty"])
def test_a_device_is_not_opened(target):
    Path("attack.yaml").symlink_to(target)
    assert "cannot read attack.yaml: " in lint("attack.yaml")[1]


def test_a_pipe_is_not_opened():
    os.mkfifo("attack.yaml")
    expected = "cannot read attack.yaml: not a file, but a pipe, a socket or a device"
    assert expected == lint("attack.yaml")[1].splitlines()[0]


def test_what_is_not_utf8_is_told_with_its_line():
    Path("attack.yaml").write_bytes(BODY.encode() + b"formula: caf\xe9\n")
    expected = "attack.yaml:10:13: not UTF-8: the byte 0xe9; save the file as UTF-8"
    assert expected == lint("attack.yaml")[1].splitlines()[0]


def test_a_name_with_control_characters_is_shown_escaped():
    Path("a\x1b[31m.yaml").write_text("x", "utf-8")
    assert r"a\x1b[31m.yaml:1:1: not a spec" in lint("a\x1b[31m.yaml")[1]


def test_of_many_known_names_those_of_nearly_the_same_length_are_looked_at():
    known = [*("x" * 50 + str(i) for i in range(10_000)), "causal"]
    assert "; did you mean 'causal'?" == did_you_mean("casual", known)
    assert "" == did_you_mean("casual" * 50, ["casual" * 50])
