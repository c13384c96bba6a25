"""Every function of the language means what it says: on a small example, on plain arrays and on numbers alike."""

import inspect
import math
from typing import Any

import numpy as np
import pytest

from attnspec.errors import SpecError
from attnspec.language.expressions import Expression
from attnspec.language.functions import FUNCTIONS
from attnspec.language.registry import dimensions, whole
from attnspec.language.scopes import Scope, Values
from attnspec.numerics.budget import metered
from attnspec.numerics.grades import BF16, FP32, Grade
from attnspec.numerics.numbers import Number, value
from attnspec.numerics.streams import Stream
from attnspec.numerics.truths import Truth

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinities are as in a run

X = np.array([[1.0, -2.0, 0.5], [4.0, 0.25, -1.0]])
LOW = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
M = np.array([[True, False, True], [False, False, False]])
W = np.array([[1.0, 3.0], [0.0, 0.0]])
UNDECIDED = Truth(np.array([True, True, False]), np.array([True, False, False]))
NAMES = {"x": X, "low": LOW, "m": M, "w": W, "n": 2, "t": UNDECIDED}

MEANING: dict[str, list[tuple[str, Any]]] = {
    "abs": [("abs(x)", np.abs(X)), ("abs(-n)", 2)],
    "exp": [("exp(x)", np.exp(X)), ("exp(-infinity)", 0)],
    "log": [("log(x ** 2)", np.log(X**2)), ("log(0)", -np.inf)],
    "sqrt": [("sqrt(abs(x))", np.sqrt(np.abs(X)))],
    "sin": [("sin(x)", np.sin(X))],
    "cos": [("cos(x)", np.cos(X))],
    "tanh": [("tanh(x)", np.tanh(X))],
    "erf": [("erf(x)", np.vectorize(math.erf)(X))],
    "sigmoid": [("sigmoid(x)", 1 / (1 + np.exp(-X))), ("sigmoid(-infinity)", 0), ("sigmoid(infinity)", 1)],
    "significant": [
        ("significant(x, 1, 0.5)", [[1, -2, 0.5], [4, 0, -1]]),
        ("significant(1.7 * x, 2, 0.125)", [[1.5, -3, 0.75], [6, 0.375, -1.5]]),
        ("significant(19, 3, 1)", 20),
    ],
    "round": [("round(x)", [[1, -2, 0], [4, 0, -1]]), ("round(2.5)", 2), ("round(m) * 100000", 100000 * M)],
    "finite": [("finite(low)", [[False, False], [True, False]]), ("finite(nan)", False), ("finite(n)", True)],
    "where": [
        ("where(m, x, 7)", [[1, 7, 0.5], [7, 7, 7]]),
        ("where(n == 2, x, 7)", X),
        ("where(n == 3, w, x[:, :2])", X[:, :2]),
        ("where(m[:1], n, x[:, :1])", [[2, 1, 2], [2, 4, 2]]),
    ],
    "stored": [("stored(x)", X)],
    "sum": [("sum(x)", [-0.5, 3.25]), ("sum(x, none, true)", [[-0.5], [3.25]]), ("sum(m)", [2, 0])],
    "sum_like": [
        ("sum_like(x, x[0])", X.sum(0)), ("sum_like(x, x[:, :1])", X.sum(1, keepdims=True)), ("sum_like(x, x)", X),
        ("sum_like(x, n)", X.sum()), ("sum_like(m, m[:1])", [[1, 0, 1]]),
    ],
    "mean": [("mean(w)", [2, 0]), ("mean(w, 0, keep = true)", [[0.5, 1.5]]), ("mean(m, -1, false)", [2 / 3, 0])],
    "max": [
        ("max(x)", [1, 4]), ("max(x, keep = true)", [[1], [4]]), ("max(x, 0)", np.maximum(X, 0)), ("max(m)", [1, 0]),
    ],
    "min": [
        ("min(x, axis = 0)", [1, -2, -1]), ("min(x, w[:, :1])", np.minimum(X, W[:, :1])),
        ("min(low[:, :0])", [np.inf] * 2),
    ],
    "all": [("all(x < 5)", True), ("all(m)", False), ("all(m, -1)", [False, False]), ("all(m[:0])", True)],
    "any": [("any(m)", True), ("any(m, -1)", [True, False]), ("any(m, 0)", [True, False, True]), ("any(m[:0])", False)],
    "scan": [
        ("scan([[[2.0]], [[3.0]], [[0.5]]], [[[1.0]], [[0.0]], [[4.0]]], [[5.0]])", [[[11]], [[33]], [[20.5]]]),
        ("scan(full([[0, 1], [1, 0]][none], 2, 2, 2), full(0.0, 2, 2, 1), [[1.0], [2.0]])", [[[2], [1]], [[1], [2]]]),
        ("scan(full(1.0, 1, 1, 1), x[:, none, none, :], full(0.0, 1, 3))", X[:, None, None, :]),
        ("scan(full(1.0, 0, 1, 1), full(1.0, 0, 1, 3), full(0.0, 1, 3))", np.empty((0, 1, 3))),
        ("scan(full(0.5, 2, 1, 1), full(1.0, 2, 1, 1), [[4.0]], 1)", [[[3]], [[2.5]]]),
    ],
    "cumsum": [
        ("cumsum(x)", np.cumsum(X, -1)), ("cumsum(x, 0)", np.cumsum(X, 0)), ("cumsum(m)", [[1, 1, 2], [0, 0, 0]]),
    ],
    "shift": [("shift(x)", [[0, -3, -0.5], [0, -3.75, -5]]), ("shift(low)", LOW), ("shift(x, 0)", X - X.max(0))],
    "logsumexp": [
        ("logsumexp(x)", np.log(np.exp(X).sum(-1))),
        ("logsumexp(low)", [-np.inf, 0]),
        ("logsumexp(1000 + x, 0, keep = true)", 1000 + np.log(np.exp(X).sum(0, keepdims=True))),
    ],
    "average": [("average(w, x)", [[3.25, -0.3125, -0.625], [0, 0, 0]]), ("average(w, x[:, :2], 1)", [-1.25, 0])],
    "largest": [
        ("largest(x, 2)", [[True, False, True], [True, True, False]]), ("largest(x, 1, 0)", X >= X.max(0)),
        ("largest(m, 1)", [[True, False, False]] * 2),
    ],
    "above": [("above(x)", [[0, 1.5, 1], [0, 4, 4.25]]), ("above(x[0], 0)", [0, 1.5, 1])],
    "sum_ahead": [
        ("sum_ahead(1, x)", [[0, 2, 1], [0, 1, 2]]), ("sum_ahead(x, x)", [[0, 1.5, 1], [0, 4, 4.25]]),
        ("sum_ahead(1, m)", [[0, 2, 0], [0, 0, 0]]), ("sum_ahead(x, m, -range(3))", [[0, 1.5, 1], [0, 4, 4.25]]),
        ("sum_ahead(1, x[0], alike = x[0])", [0, 2, 1]),
    ],
    "argsort": [
        ("argsort(x)", [[0, 2, 1], [0, 1, 2]]), ("argsort(m)", [[0, 2, 1], [0, 1, 2]]),
        ("argsort(x, 0)", [[1, 1, 0], [0, 0, 1]]),
    ],
    "size": [("size(x)", 3), ("size(x, 0)", 2), ("size(n)", 1), ("size(true, -2)", 1)],
    "ndim": [("ndim(x)", 2), ("ndim(x[0])", 1), ("ndim(n)", 0), ("ndim(true)", 0)],
    "single": [("single(n)", True), ("single(true)", True), ("single(x)", False), ("single(x[0, 0])", True)],
    "transpose": [("transpose(x)", X.T), ("transpose(x[none])", X.T[None]), ("transpose(n)", 2)],
    "permute": [("permute(x[none], 2, 0, 1)", np.transpose(X[None], (2, 0, 1))), ("permute(true, 1, 0)", True)],
    "reshape": [("reshape(x, 3, 2)", X.reshape(3, 2)), ("reshape(n, 5)", 2)],
    "repeat": [
        ("repeat(x, n, 0)", np.repeat(X, 2, 0)), ("repeat(m, 2)", np.repeat(M, 2, -1)), ("repeat(n, 3)", 2),
        ("size(repeat(x, 0))", 0),
    ],
    "tile": [("tile(x, n, 0)", np.tile(X, (2, 1))), ("tile(x, 3)", np.tile(X, 3)), ("tile(true, 3)", True)],
    "concat": [("concat(x, w)", np.concatenate([X, W], -1)), ("concat(x, 0 * x, 0)", np.concatenate([X, 0 * X], 0))],
    "gather": [
        ("gather(x, [2, 0])", X[:, [2, 0]]), ("gather(x, -1, 0)", X[-1]), ("gather(true, [2, 0])", True),
        ("gather(x, [[0], [1]], 0)", X[[[0], [1]]]),
    ],
    "range": [("range(3)", [0, 1, 2]), ("range(2, 5)", [2, 3, 4]), ("range(2, 2)", []), ("range(-2)", [])],
    "full": [("full(1.5, 2, n)", [[1.5, 1.5]] * 2), ("full(true, 1, 2)", [[True, True]]), ("full(-infinity, 0)", [])],
    "eye": [("eye(n)", [[1, 0], [0, 1]]), ("eye(0)", np.zeros((0, 0)))],
    "noise": [("noise(7, 2, 3)", Stream("noise", 7).uniform((2, 3)))],
    "identical": [
        ("identical(x, x)", True), ("identical(x, x + 1e-15)", False), ("identical(nan, nan)", True),
        ("identical(0 * x, -0 * x)", True), ("identical(x, x[:1])", False),
    ],
    "within": [("within(x, x + 0.01, 0.02)", [[True] * 3] * 2), ("within([1, 2], [1.5, 2], 0.4)", [False, True])],
    "counts": [
        ("counts([0, 2, 2, 5], 4)", [1, 0, 2, 0]), ("counts([[0, 1], [1, 1]], 2, 0)", [[1, 1], [0, 2]]),
    ],
    "either": [("either(x, 0 * x)", X), ("either(3, 4)", 3)],
    "unclaimed": [("unclaimed([1.0, 2.0])", [1.0, 2.0])],
    "likely": [
        ("likely([52, 48], [0.5, 0.5])", [True, True]),
        ("likely([[90, 10], [10, 0]], [0.5, 0.5])", [[False] * 2, [True] * 2]),
        ("likely([1, 99], [0, 1])", [False, False]), ("likely([0, 0], [0.1, 0.9])", [True, True]),
    ],
}  # fmt: skip
EXAMPLES = [(text, expected) for examples in MEANING.values() for text, expected in examples]


class World(Values):
    false_alarm = 1e-9


def evaluated(text: str, grade: Grade | None = None, names: dict[str, Any] = NAMES) -> Any:
    world = World(names, "bfloat16")
    world.grade = grade
    return Expression(text, Scope(frozenset(names)))(world)


def test_every_function_has_an_example() -> None:
    assert set(FUNCTIONS) == set(MEANING)
    assert [name for name in FUNCTIONS if not any(f"{name}(" in text for text, _ in MEANING[name])] == []


@pytest.mark.parametrize(("text", "expected"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_a_function_means_what_its_example_says(text: str, expected: Any) -> None:
    actual = evaluated(text)
    np.testing.assert_allclose(np.asarray(actual, float), np.asarray(expected, float), rtol=1e-14)
    assert np.shape(expected) == np.shape(actual)


@pytest.mark.parametrize(("text", "expected"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
@pytest.mark.parametrize("grade", [FP32, BF16], ids=str)
def test_a_function_means_the_same_of_numbers_that_carry_an_error(text: str, expected: Any, grade: Grade) -> None:
    names = {n: Number(x, grade=grade) if n in "x low w" else x for n, x in NAMES.items()}
    actual = evaluated(text, grade, names)
    plain = actual.can if isinstance(actual, Truth) else value(actual)
    np.testing.assert_allclose(np.asarray(plain, float), np.asarray(expected, float), rtol=1e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_is_for_and_how_it_is_called(name: str) -> None:
    function = FUNCTIONS[name]
    assert function.says.endswith(".")
    assert function.usage.startswith(f"{name}({next(iter(function.signature.parameters))}")
    assert list(function.signature.parameters)[: function.required] == [
        p.name for p in function.signature.parameters.values() if p.default is inspect.Parameter.empty
    ]


# Undecided booleans and errors on the way


@pytest.mark.parametrize(
    ("text", "can", "must"),
    [
        ("all(t)", False, False),
        ("all(t[:2])", True, False),
        ("any(t)", True, True),
        ("any(t[1:])", True, False),
        ("transpose(t[none])", [[True], [True], [False]], [[True], [False], [False]]),
        ("repeat(t[:2], 2)", [True] * 4, [True, True, False, False]),
        ("tile(t[:2], 2)", [True] * 4, [True, False, True, False]),
        ("concat(t[:2], [0] == 1)", [True, True, False], [True, False, False]),
        ("gather(t, [1, 0])", [True, True], [False, True]),
        ("full(t[1], 2)", [True, True], [False, False]),
        ("reshape(t, 3, 1)[1]", [True], [False]),
        ("t == (t == t)", [True, True, False], [True, False, False]),
    ],
)
def test_rearranging_keeps_what_is_undecided(text: str, can: Any, must: Any) -> None:
    actual = evaluated(text)
    assert (can, must) == (np.asarray(actual.can).tolist(), np.asarray(actual.must).tolist())


@pytest.mark.parametrize(
    ("text", "values", "worst"),
    [
        ("transpose(e[none])", [[1], [2]], [[0.1], [0.2]]),
        ("concat(e, [5])", [1, 2, 5], [0.1, 0.2, 0.0]),
        ("concat([5], e)", [5, 1, 2], [0.0, 0.1, 0.2]),
        ("gather(e, [1, 1])", [2, 2], [0.2, 0.2]),
        ("full(e[1], 3)", [2, 2, 2], [0.2, 0.2, 0.2]),
        ("where([1, 0] == 1, e, 7)", [1, 7], [0.1, 0.0]),
        ("max(e, 0)", [1, 2], [0.1, 0.2]),
        ("max(e)", 2, 0.2),
        ("sum(t)", 1, 1.0),
        ("-t", [-1, 0, 0], [0.0, 1.0, 0.0]),
    ],
)
def test_rearranging_keeps_errors_with_their_entries(text: str, values: Any, worst: Any) -> None:
    names = {**NAMES, "e": Number.within([1.0, 2.0], np.array([0.1, 0.2]))}
    actual = evaluated(text, names=names)
    assert values == actual.value.tolist()
    np.testing.assert_allclose(worst, actual.full(actual.worst), atol=1e-12)


def test_what_is_computed_in_either_of_two_ways_has_the_larger_error_of_both() -> None:
    names = {"e": Number.within([1.0, 2.0], np.array([0.1, 0.2])), "f": Number.within([1.0, 2.5], np.array([0.3, 0.1]))}
    actual = evaluated("either(e, f)", FP32, names)
    assert [1.0, 2.0] == actual.value.tolist()
    np.testing.assert_allclose([0.3, 0.2 + 0.5], actual.full(actual.worst))


@pytest.mark.parametrize("text", ["sum(repeat(e, 400))", "sum(tile(e, 400))", "sum(full(e[0], 400))"])
def test_copies_of_a_number_err_alike(text: str) -> None:
    names = {"e": Number(np.ones(1), np.ones(1), np.full(1, 0.01))}
    assert evaluated(text, names=names).radius >= 400 * 0.1


def test_storing_rounds_to_the_dtype_under_test() -> None:
    assert pytest.approx(2.0**-8) == evaluated("stored(1.0)", BF16).worst.item()


@pytest.mark.parametrize("gap", [0, 1])
def test_closeness_within_a_tolerance_is_decided_whatever_the_errors(gap: int) -> None:
    names = {"e": Number.within([1.0], np.array([9.0]))}
    assert [gap == 0] == evaluated(f"within(e, {1 + gap}, 0.5)", names=names).tolist()


# Likelihood


def test_a_fair_sample_is_likely_and_a_skewed_one_is_not() -> None:
    n = 100_000
    fair = np.bincount(Stream("dice").below(6, (n,)), minlength=6)
    names = {"c": fair, "p": np.full(6, 1 / 6)}
    assert [True] * 6 == evaluated("likely(c, p)", names=names).tolist()
    assert [False, False] == evaluated("likely(c, p)", names=names | {"c": fair + 3000 * np.arange(6)})[[0, 5]].tolist()


def test_undecided_booleans_count_as_either() -> None:
    doubtful = Truth(np.arange(10) < 8, np.arange(10) < 3)
    counted = evaluated("counts(t, 2)", names={"t": doubtful})
    assert ([4.5, 5.5], [2.5, 2.5]) == (counted.value.tolist(), counted.radius.tolist())
    assert [7, 3] == evaluated("counts(t, 2)", names={"t": Truth(np.arange(10) < 3, np.arange(10) < 3)}).tolist()


def test_counts_with_bounds_are_unlikely_only_throughout_them() -> None:
    for undecided, expected in ((0, False), (40, False), (110, True), (250, True)):
        c = Number.within(np.array([700.0, 300.0]), np.full(2, float(undecided)))
        assert [expected] * 2 == evaluated("likely(c, p)", names={"c": c, "p": np.full(2, 0.5)}).tolist()


def test_the_improbable_is_measured_against_the_false_alarms_that_are_allowed() -> None:
    n, chances = 200, np.array([0.5, 0.5])
    tail = 2 * chances.size * math.exp(-n * (math.log(2) - (0.7 * math.log(1 / 0.7) + 0.3 * math.log(1 / 0.3))))
    names = {"c": np.array([140, 60]), "p": chances}
    for allowed, expected in ((tail * 1.01, False), (tail * 0.99, True)):
        world = World(names, "float32")
        world.false_alarm = allowed
        assert [expected] * 2 == Expression("likely(c, p)", Scope(frozenset(names)))(world).tolist()


# Arguments


@pytest.mark.parametrize(("n", "expected"), [(3, 3), (-2, -2), (2.0, 2), (np.int64(5), 5), (Number([4.0])[0], 4)])
def test_a_whole_number_may_come_in_any_form(n: Any, expected: int) -> None:
    assert (expected, int) == (whole(n), type(whole(n)))


@pytest.mark.parametrize("n", [True, "word", None, 0.5, math.inf, math.nan, 10**6 + 1, np.arange(2), UNDECIDED])
def test_nothing_else_is_a_whole_number(n: Any) -> None:
    with pytest.raises(SpecError, match="is not an integer"):
        whole(n)


def test_a_negative_length_is_none() -> None:
    assert (0, 3) == dimensions((-2, 3))


def test_two_rows_of_a_vocabulary_are_within_what_sums_ahead_may_cost():
    rows = np.random.default_rng(0).normal(size=(2, 50257))
    x = Number(rows, 1e-6 * np.abs(rows), (1e-7 * rows) ** 2, 0.0, grade=FP32)
    ahead = Expression("sum_ahead(1, x)", Scope(frozenset({"x"})))
    with metered():
        for _ in range(8):
            found = ahead(Values({"x": x}, "float32"))
    assert rows.shape == found.value.shape
