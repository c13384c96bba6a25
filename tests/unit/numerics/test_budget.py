"""Every evaluation is bounded: what asks for too much is refused before it costs time or memory."""

import tracemalloc
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from attnspec.errors import SpecError
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope, Values
from attnspec.numerics import budget
from attnspec.numerics.averages import multiplicity
from attnspec.numerics.budget import OPERATION, OverspentError, charge, joined_shape, metered
from attnspec.numerics.grades import BF16, FP32, Grade
from attnspec.numerics.streams import Stream

LIMIT = 10_000
SQUARE = np.ones((100, 100))
ROW = np.arange(100)


class Drawing(Values):
    """Plain values, and draws from one stream."""

    false_alarm = 1e-9

    def __init__(self, values: Mapping[str, Any], grade: Grade | None = None) -> None:
        super().__init__(values, "float32")
        self.grade = grade

    def source(self, ordinal: int) -> Any:
        return Stream(ordinal)


def evaluated(text: str, grade: Grade | None = None, work: int = 100 * LIMIT, array: int = LIMIT) -> Any:
    values = {"square": SQUARE, "row": ROW, "yes": SQUARE > 0}
    scope = Scope(frozenset(values), draws=True)
    with np.errstate(all="ignore"), metered(array, work):
        return Expression(text, scope)(Drawing(values, grade))


@pytest.fixture
def memory() -> Any:
    """A function that tells the most bytes that were taken since it was made."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


LARGE = [
    "full(0.0, 1000000, 1000000)",
    "full(0.0, 1000000, 0, 1000000) + full(0.0, 1000000, 1000000)",
    "range(1000000)",
    "range(-1000000, 1000000)",
    "eye(1000000)",
    "noise(1, 1000000, 1000000)",
    "row[:, none, none] + square",
    "row[:, none, none] < square",
    "row[:, none, none] == square",
    "row[:, none, none] < 1 and yes",
    "row[:, none, none] < 1 or yes",
    "implies(row[:, none, none] < 1, yes)",
    "0 < row[:, none, none] < square",
    "where(yes, row[:, none, none], 1)",
    "max(square, row[:, none, none])",
    "identical(square, row[:, none, none])",
    "within(square, square, row[:, none, none])",
    "likely(square, row[:, none, none])",
    "average(square[:, :, none], square, 1)",
    "average(square, tile(square, 2))",
    "repeat(square, 1000000)",
    "tile(square, 1000000, 0)",
    "concat(square, square)",
    "gather(square, row + 0 * square)",
    "gather(square, range(101), 0)",
    "square[range(101) % 100]",
    "square[:, range(101) % 100]",
    "square[..., none, range(101) % 100]",
    "square[row[:, none], row[none] + 0 * range(2)[:, none, none]]",
    "square[yes][:, none] + row",
    "square[row[:, none] + 0 * row]",
    "(square[:, :1] + 0 * range(101)[:, none, none]) @ square[:1]",
    "row[:, none] @ row[none, :] + full(0.0, 2, 1, 1)",
    "above(square)",
    "sum_ahead(square, row[:, none, none])",
    "logsumexp(full(0.0, 101, 100))",
    "normal(1000000, 1000000)",
    "normal(100, 1, 100, spread = row[:, none])",
    "flags(1000000, 1000000)",
    "flags(100, 1, 100, chance = row[:, none])",
    "indices(2, 1000000, 1000000)",
    "permutation(1000000)",
    "partition(1000000)",
]


def test_values_that_wait_for_an_operation_are_counted(monkeypatch: Any) -> None:
    monkeypatch.setattr(budget, "MEMORY", 5 * SQUARE.nbytes)
    monkeypatch.setattr(budget, "NOTICED", 1)
    deep = "square * 2 + (" * 6 + "square" + ")" * 6
    assert SQUARE.shape == evaluated("square * 2 + " * 6 + "square").shape
    for text in (deep, " < ".join(["square * 2"] * 8)):
        with pytest.raises(OverspentError, match="the values of one evaluation take more than 0 MB together"):
            evaluated(text)


def test_what_waited_waits_no_longer(monkeypatch: Any) -> None:
    monkeypatch.setattr(budget, "MEMORY", 100)
    with metered(), pytest.raises(OverspentError), budget.waiting(60), budget.waiting(60):
        pass
    with metered(), budget.waiting(60), metered(), pytest.raises(OverspentError):
        budget.hold(60)
    budget.hold(100)


@pytest.mark.parametrize("grade", [None, BF16], ids=str)
@pytest.mark.parametrize("text", LARGE)
def test_no_array_over_the_limit_is_made(text: str, grade: Grade | None, memory: Any) -> None:
    with pytest.raises(
        OverspentError,
        match=r"an array of [\d,]+ entries is over the limit of (10,000|4,000 for one that carries errors)",
    ):
        evaluated(text, grade)
    assert memory() < 100 * LIMIT * 8


@pytest.mark.parametrize("grade", [None, BF16], ids=str)
@pytest.mark.parametrize(
    "text",
    [
        "square @ square + " * 10 + "0",
        "exp(" * 28 + "square" + ")" * 28,
        " + ".join(["sum(tanh(exp(square)))"] * 10),
        " and ".join(["any(largest(argsort(square), 5))"] * 10),
        "sum(square[row], 0) + " * 12 + "0",
        "sum(gather(square, row), 0) + " * 12 + "0",
        "sum(square * 1) + " * 12 + "0",
    ],
)
def test_all_work_is_counted(text: str, grade: Grade | None) -> None:
    with pytest.raises(OverspentError, match="the work limit of one law on one case is exceeded"):
        evaluated(text, grade, work=20 * LIMIT, array=3 * LIMIT)


@pytest.mark.parametrize("grade", [None, FP32], ids=str)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9 ** 9 ** 9 ** 9", np.inf),
        ("2.0 ** 1000000", np.inf),
        ("1000000 * 1000000 * 1000000", 1e18),
        ("(1000000 // 1) * 1000000 * 1000000 * 1000000", 1e24),
        ("sum(range(10)) * 1000000 * 1000000 * 1000000 * 1000000", 45e24),
        ("(range(1, 2) * 1000000 * 1000000 * 1000000 * 1000000)[0]", 1e24),
    ],
)
def test_large_whole_numbers_become_fractions_and_do_not_wrap_around(
    text: str, expected: float, grade: Grade | None
) -> None:
    actual = evaluated(text, grade)
    assert expected == float(getattr(actual, "value", actual))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" * 601, "an expression of 601 characters is over the limit of 600"),
        ("(" * 290 + "1" + ")" * 290, "not an expression: too many nested parentheses"),
        ("[" * 150 + "1" + "]" * 150, "nested too deeply|a list holds numbers"),
        ("-" * 500 + "1", "nested too deeply"),
        ("not " * 140 + "true", "nested too deeply"),
        ("1" + "+1" * 290, "nested too deeply"),
        ("1" + "**1" * 190, "nested too deeply"),
        ("exp(" * 31 + "1" + ")" * 31, "nested too deeply"),
        ("1 if true else " * 35 + "1", "nested too deeply"),
        ("row[" * 40 + "0" + "]" * 40, "nested too deeply"),
        ("9" * 500, "the constant 99999999999999999999 is over the limit of 1,000,000"),
        ("1e999", "the constant inf is over the limit of 1,000,000"),
        ("1000001", "the constant 1000001 is over the limit of 1,000,000"),
        ("[1000001]", "a number of the list is over the limit of 1,000,000"),
        ("[1e999]", "a number of the list is over the limit of 1,000,000"),
    ],
)
def test_no_text_is_too_long_or_nested_too_deeply_to_be_read(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        evaluated(text)


@pytest.mark.parametrize("text", ["range(10 ** 7)", "full(1, 2 ** 60)", "range(infinity)", "range(0.5)", "eye(nan)"])
def test_a_size_is_a_whole_number_within_the_limit(text: str) -> None:
    with pytest.raises(SpecError, match="is not an integer of at most 1,000,000"):
        evaluated(text)


def test_counting_ties_takes_memory_in_proportion_to_the_weights(memory: Any) -> None:
    weights = np.ones((2000, 200))
    assert 200.0 == multiplicity(weights, 0.1).max()
    assert memory() < 20 * weights.nbytes


# The meter


def test_an_array_of_the_limit_is_allowed_and_one_more_entry_is_not() -> None:
    with metered(array=10):
        charge(10)
        with pytest.raises(OverspentError, match="an array of 11 entries is over the limit of 10"):
            charge(11)


def test_work_adds_up() -> None:
    with metered(array=10, work=25 + 2 * OPERATION):
        charge(10)
        charge(10)
        with pytest.raises(OverspentError, match="the work limit"):
            charge(10)


def test_an_operation_on_nothing_is_work() -> None:
    with metered(work=2 * OPERATION):
        charge(0)
        charge(0)
        with pytest.raises(OverspentError, match="the work limit"):
            charge(0)


def test_every_evaluation_has_an_allowance_of_its_own() -> None:
    with metered(array=10, work=10 + OPERATION):
        charge(10)
        with metered(array=100, work=50 + OPERATION):
            charge(50)
        with pytest.raises(OverspentError, match="the work limit"):
            charge(1)
    assert (5_000_000, 10**8) == (budget.Meter().array, budget.Meter().work)


def test_a_process_that_lives_long_uses_nothing_up_outside_of_evaluations() -> None:
    for _ in range(40):
        charge(5_000_000)
    with pytest.raises(OverspentError, match="an array of 5,000,001 entries"):
        charge(5_000_001)


@pytest.mark.parametrize(
    ("shapes", "joined"),
    [
        ([(2, 3)], (2, 3)),
        ([(2, 3), ()], (2, 3)),
        ([(), (2, 3)], (2, 3)),
        ([(2, 1), (3,)], (2, 3)),
        ([(), (4,), (2, 1)], (2, 4)),
        ([(0,), (1,)], (0,)),
    ],
)
def test_shapes_broadcast_and_are_charged(shapes: list[tuple[int, ...]], joined: tuple[int, ...]) -> None:
    with metered(work=int(np.prod(joined)) + OPERATION):
        assert joined == joined_shape(*shapes)
        with pytest.raises(OverspentError):
            charge(1)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(SpecError, match=r"shapes \(2, 3\) and \(4,\) do not fit"):
        joined_shape((2, 3), (4,))
