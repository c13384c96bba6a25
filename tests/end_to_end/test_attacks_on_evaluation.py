"""Written attacks on the evaluation of specifications: what asks for too much is refused, at its place, in time.

Each is a small file. What can be seen in the file is refused when it is read; what only drawing and evaluating show is
refused there.
"""

import ast
import re
import resource
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnspec.cases.samples import Case, Sample
from attnspec.errors import Error, SpecError, SpecErrors
from attnspec.mechanisms.amounts import CASES, JUDGED
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.lint import lint_files
from attnspec.mechanisms.loader import library, load
from attnspec.mechanisms.references import reference_of, work_of
from attnspec.numerics import budget
from attnspec.numerics.budget import OverspentError, budgeted, charge, metered
from attnspec.numerics.grades import BF16
from attnspec.numerics.operations import BINARY

HOSTILE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "hostile.py"))
HEAD = "mechanism: {name}\ntitle: Any\nversion: 1\nsources: [Someone 2020]\nsummary: What it is.\n"
SECONDS = 40.0
"""Processor time of one attack; the allowance of work is spent in a tenth of that on a machine with nothing to do."""
MEGABYTES = 500
"""What one attack may take beside the process that it is made in."""
SPENT = "is exceeded|take more than 192 MB together|over the limit of 2,000,000 for one that carries errors"
AT_LARGE = {
    "as many arrays as names",
    "averages of whole rows",
    "comparisons in a row",
    "exponentials",
    "lines that are kept",
    "products as factors",
    "sums in sums",
}
"""What is tried with the whole allowance; the others have a fifth of it, which takes a fifth of the time."""


@pytest.fixture(autouse=True)
def allowance(request, monkeypatch):
    name = request.node.callspec.params.get("name") if hasattr(request.node, "callspec") else None
    if name not in AT_LARGE:
        monkeypatch.setattr(budget, "Meter", lambda array, work, held: METER(array, min(work, METER().work // 5), held))


METER = budget.Meter


def file(name, **sections):
    """A specification with some sections; what is left out is a plain one's."""
    plain = {"sizes": "{n: 3}", "inputs": "{x: normal(n)}", "outputs": "[y]", "definition": "{y: 2 * x}"}
    text = "".join(f"{key}: {value}\n" for key, value in {**plain, **sections}.items())
    Path(f"{name}.yaml").write_text(HEAD.format(name=name) + text, "utf-8")
    return Path(f"{name}.yaml")


def entries(**texts):
    return "\n" + "".join(f"  {name}: {text}\n" for name, text in texts.items())


def seen_in(path, message):
    """A fault that is told when the file is read, with its place."""
    found = [e for e in lint_files([path])[0] if isinstance(e, SpecError)]
    assert [] == [e for e in found if e.place is None]
    assert message in "\n".join(map(str, found))


def tried(*paths, scenario="", grade=None):
    """A case of the last of some files is drawn, and its definition evaluated."""
    mechanism = load(paths)[paths[-1].stem]
    sample = Sample(mechanism, Case(mechanism.name, "case", 1, scenario=scenario), "float32")
    frame = Frame(mechanism, sample.values, grade=grade, dtype="float32")
    frame.check_domain()
    return frame.outputs()


def most_held(anew=False):
    """The most megabytes that this process has held, from now on if Linux starts anew."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if anew:
        reset.write_text("5")
    return int(re.search(r"VmHWM:\s*(\d+) kB", status.read_text())[1]) / 1024


def refused(run):
    """What a run is refused with; it takes neither long nor much, and says where the fault is."""
    errors: list[Error] = []

    def kept():
        try:
            run()
        except Error as error:
            errors.append(error)
            raise

    before = most_held(anew=True)
    with HOSTILE["limited"](SECONDS), pytest.raises(SpecError):
        kept()
    assert errors[0].place is not None
    assert most_held() - before < MEGABYTES
    return str(errors[0])


# What is seen in the file


@pytest.mark.parametrize(
    "drawn",
    [
        "n = every(1, 1000000), m = every(1, 1000000)",
        "n = every(1, 1000000)",
        "n = every(0, 1e300)",
        "n = every(1, 32), m = every(1, 32)",
        ", ".join(f"m{i} = every(0, 1)" for i in range(10)),
    ],
)
def test_a_scenario_of_too_many_cases_is_refused(drawn):
    sizes = "{n: 3, m: 3, " + ", ".join(f"m{i}: 1" for i in range(10)) + "}"
    path = file("many", sizes=sizes, scenarios=entries(all=drawn))
    seen_in(path, f"scenarios.all: it represents more than {CASES:,} cases")


def test_as_many_cases_as_are_allowed_are_read():
    path = file("many", scenarios=entries(all=f"n = every(1, {CASES})"))
    assert CASES == len(range(1, CASES + 1)) == load([path])["many"].scenarios["all"].assigned["n"].draws[0].count


def test_sizes_with_too_many_pairs_of_choices_are_refused():
    drawn = entries(**{f"s{i}": " + ".join(["between(1, 12)"] * 5) for i in range(190)})
    seen_in(file("pairs", sizes=drawn, inputs="{x: normal(s0)}"), "64,911,600 pairs of choices, more than 50,000")


def test_scenarios_times_laws_are_bounded():
    laws = entries(**{f"l{i}": "{says: A sentence., holds: y == y}" for i in range(150)})
    path = file("wide", laws=laws, scenarios=entries(**{f"s{i}": f"n = {i}" for i in range(150)}))
    seen_in(path, f"scenarios: 150 cases times 151 laws are more than {JUDGED:,}")


def test_a_definition_by_a_reference_that_is_not_there_is_refused():
    seen_in(file("unheard", definition="reference"), "the operator 'unheard' has no function in attnspec.reference")


@pytest.mark.parametrize("name", ["np", "annotations", "math", "__all__"])
def test_only_an_operator_has_a_reference(name):
    with pytest.raises(SpecError, match="has no function in attnspec"):
        reference_of(replace(library()["softmax"], operator=name))


def test_a_reference_that_is_called_otherwise_is_told():
    path = file("softmax", inputs="{x: normal(n), z: normal(n)}", definition="reference", outputs="[p]")
    seen_in(path, "definition: the reference of 'softmax' has another signature: too many positional arguments")


# What drawing shows

LARGE = "1000000, 4"
DRAWN = {
    "as many arrays as names": {"inputs": entries(x=f"normal({LARGE})", **{f"k{i}": "like(x)" for i in range(100)})},
    "arrays like an array": {"inputs": entries(x="normal(1000, 1000)", k="like(like(like(x)))", l="normal(n)")},
    "noise over noise": {"inputs": "{x: '" + " + ".join(["normal(2000, 2000)"] * 28) + "'}"},
    "permutations": {"inputs": "{x: '" + " + ".join(["permutation(1000000)"] * 24) + "'}"},
    "partitions": {
        "inputs": entries(**{f"x{i or ''}": " + ".join(["sum(partition(1000000))"] * 22) for i in range(6)})
    },
    "a product of integers": {"inputs": "{x: 'eye(2000) @ (range(2000)[:, none] + range(2000)) @ eye(2000)'}"},
    "integers times integers": {
        "inputs": entries(a="indices(7, 2000, 2000)", b=" @ ".join(["a"] * 25), x=" @ ".join(["b"] * 25))
    },
    "tiles of nothing": {"inputs": "{x: '" + " + ".join(["tile(range(0), 1000000)"] * 20) + "'}"},
    "tiles of tiles": {"inputs": "{x: 'tile(tile(range(1), 1000), 1000)'}"},
    "a domain": {"requires": "{r: sum(normal_ish) > 0}".replace("normal_ish", "range(1000000) ** 0.3")},
    "a size out of large arrays": {"sizes": "{n: '" + " + ".join(["sum(argsort(range(1000000)))"] * 19) + "'}"},
}
HARMLESS = {"arrays like an array", "tiles of tiles", "a domain"}


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_is_bounded(name):
    path = file("drawn", **DRAWN[name])
    if name in HARMLESS:
        with HOSTILE["limited"](SECONDS):
            tried(path)
    else:
        assert re.search(SPENT, refused(lambda: tried(path)))


# What evaluating shows


def often(text, times=125):
    """A definition that evaluates a text so often, in lines of which it adds up all."""
    lines = {f"l{i}": text for i in range(times)}
    sums = {f"s{i}": " + ".join(list(lines)[25 * i : 25 * i + 25]) for i in range(times // 25)}
    return entries(**lines, **sums, y=" + ".join(sums))


SQUARE = {"sizes": "{n: 2000}", "inputs": "{x: 'normal(n, n)'}"}
EVALUATED = {
    "products": {**SQUARE, "definition": often("x @ x")},
    "chains of products": {**SQUARE, "definition": often(" @ ".join(["x"] * 25))},
    "products of booleans": {**SQUARE, "definition": often("(x > 0) @ (x > 0)")},
    "products of integers": {
        "inputs": "{x: 'indices(7, 2000, 2000)'}",
        "definition": often("x @ x"),
    },
    "thin products": {"inputs": "{x: 'normal(1000000, 1)'}", "definition": often("transpose(x) @ x")},
    "many small products": {"inputs": "{x: 'normal(400000, 3, 3)'}", "definition": often("x @ x")},
    "averages": {"inputs": "{x: 'normal(1000, 256)'}", "definition": often("average(x, x[:256])")},
    "averages of whole rows": {**SQUARE, "definition": often("average(x, x)")},
    "averages along an axis": {**SQUARE, "definition": often("average(x, x, 0)")},
    "orders": {**SQUARE, "definition": often("argsort(x)")},
    "selections": {**SQUARE, "definition": often("where(largest(x, 7), 1, 0)")},
    "running sums": {"inputs": "{x: 'normal(2000)'}", "definition": often("above(x)")},
    "roundings": {**SQUARE, "definition": often("stored(stored(x))")},
    "exponentials": {**SQUARE, "definition": often("exp(exp(x))")},
    "powers": {**SQUARE, "definition": often("x ** 0.3")},
    "sums over many axes": {
        "inputs": "{x: 'normal(1000000)[" + "none, " * 55 + "...]'}",
        "definition": often("sum_like(x, 1)"),
    },
    "histograms": {"inputs": "{x: 'range(2000)'}", "definition": often("counts(x, 2000)")},
    "lines that are kept": {
        **SQUARE,
        "definition": entries(l0="x", **{f"l{i}": f"l{i - 1} + 1" for i in range(1, 100)}, y="l99"),
    },
    "sums in sums": {**SQUARE, "definition": often("x + 1 + (" * 27 + "x" + ")" * 27)},
    "comparisons in a row": {**SQUARE, "definition": often(" < ".join(["x + 1"] * 60))},
    "products as factors": {
        "inputs": "{x: 'normal(1400, 1400)'}",
        "definition": often("x * x * (" * 25 + "x" + ")" * 25),
    },
    "signs": {**SQUARE, "definition": often("-" * 25 + "x")},
    "denials": {**SQUARE, "definition": often("not " * 25 + "x > 0")},
    "picked entries": {**SQUARE, "definition": often("x[range(2000)]")},
    "tiles of nothing": {**SQUARE, "definition": often("sum(tile(range(0), 1000000))")},
}


@pytest.mark.parametrize("grade", [None, BF16], ids=str)
@pytest.mark.parametrize("name", EVALUATED)
def test_what_is_evaluated_is_bounded(name, grade):
    path = file("evaluated", **EVALUATED[name])
    assert re.search(SPENT, refused(lambda: tried(path, grade=grade)))


# Operators that call one another


def calling(depth, text):
    """Files in which each operator calls the one before it, several times."""
    paths = [file("f0", definition="{y: x}")]
    for i in range(1, depth):
        paths.append(file(f"f{i}", definition="{y: '" + text.replace("f(", f"f{i - 1}(") + "'}"))
    return paths


@pytest.mark.parametrize(
    "text",
    [
        "x if " + " or ".join(["f(x) == none"] * 12) + " else x",
        "x if not (" + " and ".join(["f(x) != none"] * 12) + ") else x",
        "f(" * 12 + "x" + ")" * 12,
        " + ".join(["f(x)"] * 12),
        "x[..., " + ", ".join([":size(f(x))"] * 1) + "] + f(x) + f(x) + f(x)",
    ],
)
def test_calls_of_operators_are_counted_wherever_they_stand(text):
    assert "is exceeded" in refused(lambda: tried(*calling(14, text)))


def test_calls_of_operators_with_nothing_to_compute_are_counted():
    paths = calling(14, "x if " + " and ".join(["single(f(x)) or true"] * 12) + " else x")
    assert "is exceeded" in refused(lambda: tried(*paths))


def test_an_expression_of_names_alone_is_work():
    expression = load([file("plain")])["plain"].definition["y"]
    with metered(work=10 * len(expression.text) - 1), pytest.raises(OverspentError):
        expression(None)


# Definitions by the reference

BEAM = {
    "outputs": "[tokens, scores]",
    "definition": "reference",
    "options": "{start: choice(0), width: choice(2), length: choice(3)}",
}


@pytest.mark.parametrize(
    "scenario",
    [
        "width = 1000000, length = 20",
        "width = 10000, length = 8",
        "length = 1000000",
        "vocab = 999, length = 9, width = 999",
    ],
)
def test_a_beam_search_that_keeps_too_much_is_refused(scenario):
    path = file(
        "beam_search",
        sizes="{vocab: 8}",
        inputs="{log_probs: 'normal(vocab, vocab)'}",
        **BEAM,
        scenarios=entries(wide=scenario),
    )
    assert "is exceeded" in refused(lambda: tried(path, scenario="wide"))
    assert (2, 3) == tried(path)["tokens"].shape


def test_an_einsum_of_a_thousand_squared_is_refused():
    path = file(
        "einsum",
        sizes="{i: 4}",
        inputs="{a: 'normal(i, i)', b: 'normal(i, i)'}",
        options="{equation: choice(product)}",
        words="{equation: {product: 'ij,jk->ik'}}",
        outputs="[out]",
        definition="reference",
        scenarios=entries(large="i = 1000"),
    )
    assert "is exceeded" in refused(lambda: tried(path, scenario="large"))
    assert (4, 4) == tried(path)["out"].shape


def test_the_work_of_a_reference_grows_with_its_axes_and_options():
    path = file("softmax", inputs="{x: 'normal(n, 7)'}", definition="reference", outputs="[p]")
    mechanism = load([path])["softmax"]
    assert 3 * 7 * budget.OPERATION == work_of(mechanism, {"x": np.zeros((3, 7))})


# The budget of a file


def test_all_laws_of_a_file_share_a_budget():
    with budgeted(1000):
        for _ in range(5):
            with metered(work=500):
                charge(100)
        told = "the work limit of one specification in one run is exceeded"
        with pytest.raises(OverspentError, match=told), metered(work=500):
            pass
    with metered(work=500):
        charge(100)


def test_whole_numbers_are_multiplied_like_fractions():
    x = np.arange(6).reshape(2, 3)
    matmul = BINARY[ast.MatMult]
    exact = matmul(x, x.T, None)
    assert (np.int64, (x @ x.T).tolist()) == (exact.dtype, exact.tolist())
    large = matmul(x * 10**9, x.T * 10**9, None)
    assert (np.float64, float(5 * 10**18)) == (large.dtype, large[0, 0])


def test_errors_of_the_family_are_told_together():
    with pytest.raises(SpecErrors):
        load([file("unheard", definition="reference")])
