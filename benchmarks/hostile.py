"""Specifications that wish harm, by the thousand: `python benchmarks/hostile.py [CASES [PROCESSES [FIRST]]]`.

A shipped file is damaged, or an expression is made up, and it is read, drawn from and evaluated as any other.
It may be refused with an error of the family of `attnspec.errors`, or it may work; anything else is told, with the
number that makes the case again: another exception, more processor time or memory than a case may take, and anything
that is done outside (a file opened for writing, a process, a connection, code run, the environment, a word printed).
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import io
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnspec.cases.samples import Case, Sample, Unfit
from attnspec.errors import Error, SpecErrors
from attnspec.language.draws import DRAWS
from attnspec.language.expressions import Expression
from attnspec.language.functions import FUNCTIONS
from attnspec.language.scopes import CONSTANTS, Scope, Takes, Values
from attnspec.language.syntax import assignments
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.lint import faults
from attnspec.mechanisms.loader import library, load
from attnspec.mechanisms.mechanism import Mechanism
from attnspec.mechanisms.schema import schema_errors, spec_folder
from attnspec.numerics import budget
from attnspec.numerics.grades import BF16, FP32, Grade
from attnspec.numerics.streams import Stream

SECONDS = 20.0
"""Processor time of one case: several times what the largest allowance of work takes."""
MEGABYTES = 3000
"""By how much one case may raise the memory that its process has ever held."""
ALLOWANCES = {"document": (1 << 16, 10**6), "expression": (1 << 16, 10**6), "costly": (1 << 22, 10**7)}
"""Entries of one array, and work, for each kind of case."""

# Files


def damaged(rng: random.Random) -> tuple[str, str]:
    """The name of a shipped file, and its text after a few accidents."""
    path = rng.choice(shipped_files())
    lines = path.read_text("utf-8").splitlines()
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        rng.choice(ACCIDENTS)(rng, lines)
    text = "\n".join(lines) + "\n"
    if rng.random() < 0.1:
        text = text[: rng.randrange(len(text) + 1)]
    return path.stem, text


@functools.cache
def shipped_files() -> list[Path]:
    return sorted(spec_folder().glob("*.yaml"))


def _at(rng: random.Random, lines: list[str]) -> int:
    return rng.randrange(len(lines)) if lines else 0


def delete(rng: random.Random, lines: list[str]) -> None:
    first = _at(rng, lines)
    del lines[first : first + rng.choice((1, 1, 1, 5))]


def duplicate(rng: random.Random, lines: list[str]) -> None:
    first = _at(rng, lines)
    lines[first:first] = lines[first : first + rng.choice((1, 2, 20))] * rng.choice((1, 1, 1, 300))


def swap(rng: random.Random, lines: list[str]) -> None:
    if lines:
        one, other = _at(rng, lines), _at(rng, lines)
        lines[one], lines[other] = lines[other], lines[one]


def indent(rng: random.Random, lines: list[str]) -> None:
    if lines:
        line = _at(rng, lines)
        lines[line] = rng.choice(("", " ", "  ", "    ", "\t", " " * 70_000)) + lines[line].lstrip()


def insert_text(rng: random.Random, lines: list[str]) -> None:
    if lines:
        line = _at(rng, lines)
        column = rng.randrange(len(lines[line]) + 1)
        lines[line] = lines[line][:column] + rng.choice(ODD)() + lines[line][column:]


def insert_line(rng: random.Random, lines: list[str]) -> None:
    lines.insert(_at(rng, lines), " " * rng.choice((0, 2, 4, 6)) + rng.choice(ODD_LINES)())


def replace_value(rng: random.Random, lines: list[str]) -> None:
    """Another value after a key: an expression, or anything."""
    line = _at(rng, lines)
    key, colon, _ = lines[line].partition(": ") if lines else ("", "", "")
    if colon:
        text = expression(rng) if rng.random() < 0.7 else rng.choice(ODD)()
        lines[line] = f"{key}: {rng.choice(('{}', '{}', repr('{}')[0] + '{}' + repr('{}')[0], '|', '>-'))}".format(text)


def replace_word(rng: random.Random, lines: list[str]) -> None:
    """Another word in the place of one, often out of the same file."""
    line = _at(rng, lines)
    words = list(re.finditer(r"\w+", lines[line])) if lines else []
    if words:
        word = rng.choice(words)
        others = re.findall(r"\w+", lines[_at(rng, lines)]) + list(FUNCTIONS) + ["0", "-1", "1e6", "none", "nan", "[]"]
        lines[line] = lines[line][: word.start()] + rng.choice(others) + lines[line][word.end() :]


ACCIDENTS: list[Callable[[random.Random, list[str]], None]] = [
    delete,
    duplicate,
    swap,
    indent,
    insert_text,
    insert_line,
    replace_value,
    replace_value,
    replace_word,
    replace_word,
    replace_word,
]
ODD: list[Callable[[], str]] = [
    (lambda text=text: text)
    for text in (
        *"\t\x00\x07\x1b\x7f\x85\u2028\ufeff\ufffe\U0001f600\u0430\u212a\u00aa{}[]()&*!|>%@`'\"#?:,-",
        "&a ",
        "*a",
        "!!python/object/apply:os.system [id] ",
        "!<tag:yaml.org,2002:binary> ",
        ": ",
        " #",
        "- ",
        "---\n",
        "...\n",
        '"\\x',
        '"\\uD800"',
        "9" * 5000,
        "1e999",
        "-0",
        ".nan",
        "0x" + "f" * 300,
        "x" * 100_000,
        "[" * 5000,
        "{a: " * 2000,
        "[" * 40 + "]" * 40,
        "(" * 150 + "1" + ")" * 150,
        "\\",
        "\n",
        "\r",
        "<<",
        "~",
        "{0}{x.__class__}%s",
    )
]
ODD_LINES: list[Callable[[], str]] = [
    (lambda text=text: text)
    for text in (
        "<<: *base",
        "<<: {version: 2}",
        "base: &base {a: 1}",
        "a: *a",
        "a: &a [*a, *a]",
        "version: 1",
        "version: 99999999999999999999",
        "? [a, b]",
        "? |\n  block",
        "%YAML 1.1",
        "%TAG ! tag:yaml.org,2002:",
        "--- !!python/object/new:os.system [id]",
        "operator: attention",
        "operator: softmax",
        "operator: nothing",
        "definition: reference",
        "outputs: []",
        "random: [out]",
        "scenarios: {a: 'layout = mixed', b: 'layout = 3'}",
        "examples: {e: {given: 'n = 1', gives: 'out = []'}}",
        "follows: {a: b}",
        "dtypes: {q: boolean, out: integer}",
        "words: {a: {b: c}}",
        "conventions: {causal_alignment: {top_left: A., other: B.}}",
        "options: {o: choice(), p: maybe(1, otherwise = 2)}",
        "laws: {l: {says: A., given: 'a = b, b = a', holds: a}}",
        "mistakes: {m: {says: A., change: 'out = out[0]'}}",
        "requires: {r: none, s: '1', t: '[1, 2] == [1, 2]'}",
        "definition: {" + ", ".join(f"l{i}: l{i + 1}" for i in range(199)) + ", l199: 1}",
        "inputs: {" + ", ".join(f"i{i}: normal(1)" for i in range(199)) + "}",
        "outputs: [" + ", ".join(f"o{i}" for i in range(150)) + "]",
        "summary: >\n" + "    word word.\n" * 2000,
        "title: " + "x" * 200_000,
    )
]

# Expressions

VALUES: dict[str, Any] = {
    "n": 3,
    "half": 0.5,
    "x": np.linspace(-2.0, 2.0, 12).reshape(3, 4),
    "m": np.eye(4),
    "row": np.arange(4),
    "empty": np.zeros((0, 3)),
    "wide": np.array([np.inf, -np.inf, np.nan, 1e308]),
    "yes": np.array([True, False, True, True]),
    "nothing": None,
    "flag": True,
    "word": "left",
}
SCOPE = Scope(
    frozenset(VALUES),
    words={"left": "side", "right": "side"},
    outputs=frozenset({"out"}),
    replaceable=frozenset({"x", "n"}),
    operators={"again": Takes(("x",), frozenset({"x", "n"}))},
    draws=True,
)
LEAVES = [
    *VALUES,
    *CONSTANTS,
    "unspecified",
    "left",
    "out",
    "0",
    "1",
    "-1",
    "2",
    "7",
    "0.1",
    "1e-300",
    "1000000",
    "...",
]
FOREIGN = [
    "x.__class__.__mro__",
    "x.tofile(n)",
    "lambda: 1",
    "[i for i in x]",
    "(i for i in x)",
    "{1: 2}",
    "f'{n!r:>{n}}'",
    "'a' * 10**9",
    "b'a'",
    "(y := 3)",
    "__import__('os').system('id')",
    "open('written', 'w')",
    "eval('1')",
    "exec",
    "print(1)",
    "breakpoint()",
    "globals()",
    "getattr(x, n)",
    "9**9**9",
    "9" * 500,
    "0x" + "f" * 500,
    "1_000_000_000",
    "1e400",
    "1j",
    "1if n else 2",
    "0or n",
    "'\\d'",
    "~n",
    "1 << 1000000",
    "x is none",
    "n in x",
    "await n",
    "yield n",
    "*x",
    "**x",
    "exp(*x)",
    "exp(**x)",
    "exp(x, x, x)",
    "exp(z = 1)",
    "exp",
    "exp()",
    "maybe(1)",
    "maybe(otherwise = 1, x = 2)",
    "choice()",
    "between(b = 1, a = 2)",
    "x[::0]",
    "x[nan]",
    "x[[0, 1]]",
    "x[..., ...]",
    "x[1e300:]",
    "x[" + "none, " * 60 + "0]",
    "[[1], [1, 2]]",
    "[1e999]",
    "[" + "9" * 400 + ", 1.0]",
    "[]",
    "[[]]",
    "[" * 90 + "1" + "]" * 90,
    "(" * 190 + "1" + ")" * 190,
    "-" * 590 + "1",
    "not " * 140 + "true",
    "\u0435xp(x)",
    "e\u212ap(x)",
    "n\u200b",
    "n # comment",
    "n\n+ 1",
    "n;",
    "import os",
    "a = 1",
    "",
    " ",
    ")",
    "f(1) + f(2",
]
BINARY = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "@",
    "and",
    "or",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "<< ",
    "&",
    "in",
    ",",
]
COSTLY = [
    "full(1.5, {n}, {n})",
    "eye({n})",
    "range({n})[:, none] * range({n})",
    "noise(1, {n}, {n})",
    "normal({n}, {n})",
    "partition({n})",
    "permutation({n} * {n})",
    "indices({n}, {n}, {n})",
    "counts(range({n}), {n})",
    "tile(row, {n} * {n})",
    "repeat(m, {n} * {n}, 0)",
    "gather(x, range({n} * {n}) % 3, 0)",
]
ROUNDS = [
    "exp({0})",
    "sigmoid({0})",
    "argsort({0})",
    "above({0})",
    "shift({0})",
    "largest({0}, 3)",
    "cumsum({0})",
    "stored({0})",
    "({0}) @ ({0})",
    "average({0}, {0})",
    "concat({0}, {0})",
    "repeat({0}, 2)",
    "tile({0}, 2, 0)",
    "({0}) ** ({0})",
    "({0}) == ({0})",
    "where({0} == 0, {0}, 1)",
    "logsumexp({0})",
    "transpose({0})",
    "reshape({0}, -1)",
    "({0})[:, none]",
    "counts({0}, 1000000)",
    "likely({0}, {0})",
    "normal(1000, 1000, spread = {0})",
]


def expression(rng: random.Random, depth: int = 0) -> str:
    """A text that is an expression of the language, nearly one, or one of Python's."""
    if depth > 5 or rng.random() < 0.2:
        return rng.choice(FOREIGN) if rng.random() < 0.06 else rng.choice(LEAVES)
    part = functools.partial(expression, rng, depth + 1)
    match rng.randrange(8):
        case 0 | 1:
            return f"({part()} {rng.choice(BINARY)} {part()})"
        case 2:
            return f"{rng.choice(('-', 'not ', '+', '~'))}{part()}"
        case 3:
            return f"({part()} if {part()} else {part()})"
        case 4:
            places = ", ".join(rng.choice(("none", ":", "...", "::-1", "0", part(), f"{part()}:")) for _ in range(2))
            return f"{part()}[{places}]"
        case 5 | 6:
            return _call(rng, FUNCTIONS[rng.choice(list(FUNCTIONS))], part)
    return _call(rng, DRAWS[rng.choice(list(DRAWS))], part) if rng.random() < 0.5 else f"again({part()}, n = {part()})"


def _call(rng: random.Random, function: Any, part: Callable[[], str]) -> str:
    """A call, mostly with as many arguments as the function takes."""
    count = max(function.required, 1) + rng.choice((0, 0, 0, 0, 1, -1))
    given = [part() for _ in range(count)]
    if rng.random() < 0.3:
        given.append(f"{rng.choice(('axis', 'keep', 'spread', 'x', 'nothing'))} = {part()}")
    return f"{function.name}({', '.join(given)})"


def costly(rng: random.Random) -> str:
    """A well-formed expression that asks for much."""
    text = rng.choice(COSTLY).format(n=rng.choice((100, 1000, 2000, 10_000, 1_000_000)))
    for _ in range(rng.randrange(6)):
        around = rng.choice(ROUNDS).format(text)
        text = around if len(around) <= budget.TEXT_LENGTH else text
    return text


class Surroundings(Values):
    """Plain values, draws from one stream, and outputs and operators that return what they are given."""

    false_alarm = 1e-9

    def __init__(self, grade: Grade | None) -> None:
        super().__init__(VALUES, "float32")
        self.grade = grade

    def source(self, ordinal: int) -> Any:
        return Picking(ordinal)

    def word(self, convention: str) -> str:
        return "left"

    def output(self, name: str, site: Any) -> Any:
        return site(self).get("x", VALUES["x"]) if site else VALUES["x"]

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        return arguments.get("x", 0.0)


class Picking(Stream):
    """A stream that also decides draws of one number."""

    def pick(self, count: int) -> int:
        return int(self.below(count, (1,))[0])


# What a case runs


def a_document(rng: random.Random, folder: Path) -> Callable[[], None]:
    """A damaged file is read beside the others and checked for style; what is loaded is drawn and evaluated."""
    name, text = damaged(rng)
    path = folder / str(os.getpid()) / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8", newline="")

    def run() -> None:
        mechanism = load([path], library())[name]
        list(faults(mechanism))
        _tried(mechanism)

    return run


def _tried(mechanism: Mechanism) -> None:
    """Draw a case of each of a few scenarios and evaluate the definition, exactly and under a grade."""
    for scenario in ("", *list(mechanism.scenarios)[:2]):
        with contextlib.suppress(Unfit):
            sample = Sample(mechanism, Case(mechanism.name, "case", 1, scenario=scenario), "float32")
            for grade in (None, FP32):
                Frame(mechanism, sample.values, grade=grade, dtype="float32").outputs()


def an_expression(rng: random.Random, folder: Path) -> Callable[[], None]:
    return functools.partial(_evaluated, expression(rng), rng.choice((None, FP32, BF16)), rng.random() < 0.3)


def a_costly_expression(rng: random.Random, folder: Path) -> Callable[[], None]:
    return functools.partial(_evaluated, costly(rng), rng.choice((None, BF16)), False)


def _evaluated(text: str, grade: Grade | None, claim: bool) -> None:
    with contextlib.suppress(Error):
        assignments(f"a = {text}, b = {text}")
    compiled = Expression(text, SCOPE, claim=claim)
    with np.errstate(all="ignore"):
        compiled(Surroundings(grade))


KINDS = {"document": a_document, "expression": an_expression, "costly": a_costly_expression}
WEIGHTS = (4, 95, 1)


# One case


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case; `wrong` is empty where all is well."""

    number: int
    kind: str
    result: str
    seconds: float
    wrong: str = ""


class TooLong(BaseException):
    """A case that takes more than its time; not an `Exception`, so that nothing takes it for a fault of the case."""


def case(number: int, folder: Path, weights: tuple[int, ...] = WEIGHTS) -> Outcome:
    """Make the n-th case, with its file in a folder, and see what becomes of it."""
    rng = random.Random(number)
    kind, make = rng.choices(list(KINDS.items()), weights)[0]
    return outcome(number, kind, make(rng, folder))


def outcome(number: int, kind: str, run: Callable[[], None], seconds: float = SECONDS) -> Outcome:
    """What becomes of a run that may take so much processor time."""
    said, result, wrong = io.StringIO(), "works", ""
    before, started = _held(), time.process_time()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), watched() as deeds:
        try:
            with limited(seconds), budget.metered(*ALLOWANCES[kind]):
                run()
        except Unfit:
            result = "unfit"
        except Error as error:
            result = "refused"
            wrong = _misplaced(error)
        except (Exception, SystemExit, TooLong) as error:
            result, wrong = "another exception", f"{type(error).__name__}: {str(error)[:200]}"
    taken = time.process_time() - started
    if deeds or said.getvalue():
        wrong = f"done outside: {[*deeds, said.getvalue()[:200]]}"
    if _held() - before > MEGABYTES:
        wrong = f"{_held() - before:.0f} MB"
    return Outcome(number, kind, result, taken, wrong)


def _misplaced(error: Error) -> str:
    """Every fault of a file says where it is."""
    several = error.errors if isinstance(error, SpecErrors) else ()
    return "".join(f"no place: {e}"[:200] for e in several if e.place is None and ".yaml: " not in str(e))


def _held() -> float:
    """The most memory that this process has held so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A body that is ended by `TooLong` after so much processor time."""

    def end(*_: Any) -> None:
        raise TooLong(f"more than {seconds} s")

    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


# What is done outside

OUTSIDE = re.compile(r"exec|subprocess\.|os\.|shutil\.|socket\.|ctypes\.|pty\.|webbrowser|ftplib|urllib|marshal|pickle")
HARMLESS = {"os.listdir", "os.scandir"}
_deeds: list[str] = []
_watching = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event == "open":
        mode = arguments[1]
        if isinstance(mode, str) and set(mode) & set("wax+"):
            _deeds.append(f"open {arguments[0]}")
    elif OUTSIDE.match(event) and event not in HARMLESS:
        _deeds.append(event)


@functools.cache
def _hooked() -> None:
    """A hook cannot be taken away, so there is one for each process; what is imported late is imported before."""
    importlib.import_module("attnspec.reference")
    Stream(0)
    list(schema_errors({}))
    sys.addaudithook(_hook)


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """What is done outside in a body, its changes of the environment among it."""
    global _watching
    _hooked()
    _deeds.clear()
    environment, folder = dict(os.environ), Path.cwd()
    _watching = True
    try:
        yield _deeds
    finally:
        _watching = False
        if environment != dict(os.environ) or folder != Path.cwd():
            _deeds.append("the environment")


def main() -> None:
    count, processes, first = (int(x) for x in (sys.argv[1:] + ["100000", "2", "0"][len(sys.argv) - 1 :]))
    started, seen, slowest = time.time(), collections.Counter[str](), Outcome(0, "", "", 0.0)
    library()
    _hooked()
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("fork").Pool(processes) as pool:
        made = functools.partial(case, folder=Path(folder))
        for outcome in pool.imap_unordered(made, range(first, first + count), chunksize=50):
            seen[f"{outcome.kind}: {outcome.result}"] += 1
            slowest = max(slowest, outcome, key=lambda o: o.seconds)
            if outcome.wrong:
                seen["wrong"] += 1
                print(f"case {outcome.number} ({outcome.kind}): {outcome.wrong}", flush=True)
        held = max(pool.map(_most, range(4 * processes), chunksize=1))
    for kind, cases in sorted(seen.items()):
        print(f"{cases:8,}  {kind}")
    print(
        f"{count:,} cases in {time.time() - started:.0f} s, the slowest {slowest.number} with {slowest.seconds:.1f} s,"
    )
    print(f"at most {held:,.0f} MB in a process; {seen['wrong']} are wrong")
    raise SystemExit(bool(seen["wrong"]))


def _most(_: int) -> float:
    return _held()


if __name__ == "__main__":
    main()
