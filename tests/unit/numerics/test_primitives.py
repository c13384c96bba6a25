"""Primitives: on plain arrays they are NumPy's, and on numbers their bounds hold what narrow kernels do."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnspec.numerics import primitives as p
from attnspec.numerics.codes import E2M1, E2M3, E4M3FN, E5M2, CodeFormat, coded, values_of
from attnspec.numerics.formats import FLOAT32, half_unit, rounded
from attnspec.numerics.grades import BF16, BF16_NAIVE, FP16, FP32, Grade
from attnspec.numerics.numbers import Number
from attnspec.numerics.parts import K
from attnspec.numerics.products import quickly
from attnspec.numerics.streams import Stream
from attnspec.numerics.truths import Truth
from attnspec.numerics.workspace import Workspace

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinities and zeros are as in a run

CURVES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (p.exp, np.exp),
    "log": (p.log, np.log),
    "sqrt": (p.sqrt, np.sqrt),
    "sin": (p.sin, np.sin),
    "cos": (p.cos, np.cos),
    "tanh": (p.tanh, np.tanh),
    "erf": (p.erf, np.vectorize(math.erf)),
    "sigmoid": (p.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
}
curves = pytest.mark.parametrize(("curve", "plain"), CURVES.values(), ids=CURVES.keys())
grades = pytest.mark.parametrize("grade", [FP32, BF16, FP16, BF16_NAIVE], ids=str)
positive = st.floats(2.0**-10, 50, width=32)


def exceeded(actual: Any, bounded: Number, bound: Any) -> float:
    """The largest error in units of a bound."""
    error = np.where(actual == bounded.value, 0.0, np.abs(actual - bounded.value))
    return float(np.max(error / np.maximum(bounded.full(bound), 1e-300), initial=0.0))


def doubtful(*can_must: tuple[bool, bool]) -> Truth:
    can, must = np.array(can_must).T
    return Truth(can, must)


# Entry by entry


@curves
@given(x=positive)
def test_the_bound_of_a_curve_holds_single_precision(
    curve: Callable[[Any], Any], plain: Callable[[Any], Any], x: float
) -> None:
    bounded = curve(Number([x], grade=FP32))
    assert [plain(np.float64(x))] == bounded.value.tolist() == curve([x]).tolist()
    assert 1 >= exceeded(plain(np.float32(x)), bounded, bounded.radius)
    assert 100 * FLOAT32.unit * max(1, bounded.value.item()) > bounded.worst.item()


@curves
@given(x=positive, share=st.floats(-1, 1))
def test_the_bound_of_a_curve_holds_what_its_argument_may_err(
    curve: Callable[[Any], Any], plain: Callable[[Any], Any], x: float, share: float
) -> None:
    error = 1e-6 * x
    bounded = curve(Number.within([x], np.asarray(error)))
    assert 1.001 >= exceeded(plain(x + share * error), bounded, bounded.worst)  # a slope is of first order


@given(x=st.floats(-80, 80), error=st.floats(0, 8), share=st.floats(-1, 1))
def test_the_bound_of_exp_holds_errors_that_are_too_large_for_a_slope(x: float, error: float, share: float) -> None:
    bounded = p.exp(Number.within([x], np.asarray(error), grade=FP32))
    assert 1 >= exceeded(np.exp(x + share * error), bounded, bounded.radius)


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
@given(x=st.floats(-80, 80), error=st.floats(0, 100), share=st.floats(-1, 1))
def test_the_bound_of_a_curve_that_flattens_out_holds_errors_that_reach_where_it_is_steep(
    name: str, x: float, error: float, share: float
) -> None:
    curve, plain = CURVES[name]
    bounded = curve(Number.within([x], np.asarray(error)))
    assert 1 + 1e-9 >= exceeded(plain(x + share * error), bounded, bounded.worst)


@given(x=positive, part=st.floats(0, 0.7), share=st.floats(-1, 1))
def test_the_bound_of_a_logarithm_holds_errors_that_reach_near_zero(x: float, part: float, share: float) -> None:
    bounded = p.log(Number.within([x], np.asarray(part * x)))
    assert 1 + 1e-9 >= exceeded(np.log(x * (1 + share * part)), bounded, bounded.worst)


def test_the_bound_of_exp_holds_a_polynomial_kernel_and_a_flush_to_zero() -> None:
    x = np.linspace(-100, 5, 200)
    bounded = p.exp(Number(x, grade=FP32))
    assert 1 >= exceeded(np.exp(x) * (1 + 20 * FLOAT32.unit), bounded, bounded.radius)
    assert 1 >= exceeded(np.where(np.exp(x) < 2.0**-126, 0.0, np.exp(x)), bounded, bounded.radius)
    assert np.isinf(p.exp(Number.within([0.0], np.asarray(np.inf))).worst)


@pytest.mark.parametrize("x", [0.0, 1e-5, 4e-4])
def test_the_bound_of_a_root_holds_what_may_be_zero(x: float) -> None:
    bounded = p.sqrt(Number.within([x], np.asarray(4e-4)))
    assert 1 >= exceeded(np.sqrt(np.linspace(max(x - 4e-4, 0), x + 4e-4, 9)), bounded, bounded.worst)


@pytest.mark.parametrize(("x", "nearest", "radius"), [(0.5, 0, 1), (1.5, 2, 1), (0.45, 0, 1), (0.3, 0, 0), (2.9, 3, 0)])
def test_rounding_is_in_doubt_by_one_where_a_half_may_be_crossed(x: float, nearest: float, radius: float) -> None:
    bounded = p.rint(Number.within([x], np.asarray(0.1)))
    assert ([nearest], [radius]) == (bounded.value.tolist(), bounded.worst.tolist())


def test_an_undecided_choice_carries_the_distance_of_its_branches() -> None:
    condition = doubtful((True, True), (False, False), (True, False))
    chosen = p.where(condition, Number.within([1.0, 1.0, 1.0], np.asarray(0.1)), 3.0)
    assert ([1.0, 3.0, 3.0], [0.1, 0.0, 2.1]) == (chosen.value.tolist(), chosen.worst.tolist())
    plain = p.where(condition, np.array([1.0, 1.0, 1.0]), 3.0)
    assert [0.0, 0.0, 2.0] == plain.radius.tolist()


def test_a_decided_choice_of_plain_branches_is_plain() -> None:
    assert [1.0, 3.0] == p.where(doubtful((True, True), (False, False)), np.array([1.0, 1.0]), 3.0).tolist()


def test_a_branch_that_is_broadcast_errs_alike() -> None:
    one = Number(np.ones((1,)), np.full(1, 1.0), np.full(1, 0.01))
    assert [0.1] * 3 == p.where(np.ones(3, bool), one, 0.0).shared.tolist()


@pytest.mark.parametrize("fmt", [E4M3FN, E5M2, E2M3, E2M1], ids=lambda fmt: fmt.name)
def test_significant_numbers_are_the_codes_of_a_format(fmt: CodeFormat) -> None:
    ladder = values_of(fmt)[: 2 ** (fmt.bits - 1)]
    ladder = ladder[np.isfinite(ladder)]
    ends = np.concatenate([ladder, (ladder[1:] + ladder[:-1]) / 2])
    x = np.concatenate([ends, np.nextafter(ends, 0), -ends])
    assert coded(x, fmt).tolist() == p.significant(x, fmt.digits, fmt.least).tolist()


@pytest.mark.parametrize(
    ("x", "radius"), [(17.4, 0.0), (17.1, 2.0), (16.9, 2.0), (15.6, 1.0), (0.0, 0.25), (0.0625, 0.25)]
)
def test_significant_numbers_are_in_doubt_by_the_codes_that_an_error_reaches(x: float, radius: float) -> None:
    bounded = p.significant(Number.within([x], np.asarray(0.2)), 4, 2.0**-2)
    assert radius == bounded.radius[0]


def test_storing_rounds_once_more() -> None:
    x = rounded(Stream("stored").normal((50,)), FLOAT32)
    bounded = p.stored(Number(x, grade=BF16), "bfloat16", BF16)
    assert BF16.operand
    assert 0.5 < exceeded(rounded(x, BF16.operand), bounded, bounded.worst) <= 1
    assert pytest.approx(2.0**-25) == p.stored(0.75, "float32", FP32).worst.item()


@pytest.mark.parametrize("n", [0, 1, 9, 500])
def test_what_rounds_to_the_same_significand_errs_alike(n: int) -> None:
    x = np.rint(Stream("alike").normal((1, n)) * 2) / 4
    alike = [sum(abs(math.frexp(other)[0]) == abs(math.frexp(one)[0]) for other in x[0]) for one in x[0]]
    step = half_unit(np.abs(x), FLOAT32)
    assert (alike * step**2 / 3).tolist() == p.stored(Number(x, grade=FP32), "float32", FP32).variance.tolist()


# Along an axis


@grades
@pytest.mark.parametrize("n", [1, 7, 200])
@pytest.mark.parametrize("f", ["sum", "mean", "cumsum", "logsumexp", "max"])
def test_the_bound_of_a_reduction_holds_narrow_arithmetic(grade: Grade, n: int, f: str) -> None:
    x = rounded(3 * Stream(f, n).normal((30, n)), FLOAT32)
    x[0] = x[0, 0]
    narrow = {
        "sum": lambda t: np.cumsum(t, -1)[..., -1],
        "mean": lambda t: np.cumsum(t, -1)[..., -1] / np.float32(n),
        "cumsum": lambda t: np.cumsum(t, -1),
        "logsumexp": lambda t: np.log(np.cumsum(np.exp(t), -1)[..., -1]),
        "max": lambda t: np.max(t, -1),
    }[f]
    number = Number(x, grade=grade)
    result = {"sum": p.total, "mean": p.mean, "cumsum": p.cumulated, "logsumexp": p.logsumexp}.get(
        f, lambda t: p.extreme(np.max, t)
    )
    actual = np.float64(narrow(np.float32(x)))
    if grade.stored:
        actual = rounded(actual, grade.stored)
        if f == "max":  # moves entries; nothing is computed that would have to be stored
            return
    bounded = result(number)
    np.testing.assert_allclose(result(x), bounded.value, rtol=1e-14)
    assert 1 >= exceeded(actual, bounded, bounded.radius)


@given(seed=st.integers(0, 10**6))
def test_the_extreme_errs_as_its_entries_may(seed: int) -> None:
    x, error = Stream(seed, 0).normal((5, 6)), Stream(seed, 1).uniform((5, 6))
    moved = x + error * (2 * Stream(seed, 2).uniform((5, 6)) - 1)
    bounded = p.extreme(np.max, Number.within(x, error))
    assert 1 >= exceeded(np.max(moved, -1), bounded, bounded.radius)


@pytest.mark.parametrize(("f", "empty"), [(np.max, -np.inf), (np.min, np.inf)])
def test_the_extreme_of_nothing_is_the_infinity_on_the_other_side(f: Any, empty: float) -> None:
    assert (
        [empty] * 2 == p.extreme(f, np.zeros((2, 0))).tolist() == p.extreme(f, Number(np.zeros((2, 0)))).value.tolist()
    )


def test_a_sum_keeps_its_axis_and_reduces_any() -> None:
    x = Number(np.arange(6.0).reshape(2, 3), np.ones((2, 1)))
    assert (2, 1) == p.total(x, keep=True).shape
    assert ([3.0, 5.0, 7.0], pytest.approx([2, 2, 2])) == (p.total(x, 0).value.tolist(), p.total(x, 0).worst.tolist())


def test_a_shift_is_free_of_the_error_of_the_maximum() -> None:
    x = np.array([[0.0, -3.0, 100.0]])
    shifted = p.shift(Number(x, np.array([[0.01, 0.01, 50.0]]), grade=FP32))
    assert [[-100.0, -103.0, 0.0]] == shifted.value.tolist() == p.shift(x).tolist()
    assert pytest.approx([0.01, 0.01, 50.0], abs=1e-4) == shifted.worst[0].tolist()


def test_a_shift_may_round_at_the_size_of_its_entries() -> None:
    x = np.float64(np.float32(1000 + Stream("far").normal((20, 16))))
    in_base_two = np.float32(x) * np.float32(np.log2(np.e))
    actual = np.float64(in_base_two - in_base_two.max(-1, keepdims=True)) * np.log(2)
    bounded = p.shift(Number(x, grade=FP32))
    assert 0.1 < exceeded(actual, bounded, bounded.worst) <= 1


def test_a_shift_of_minus_infinities_stays() -> None:
    x = np.array([[-np.inf, -np.inf], [-np.inf, 2.0]])
    assert [[-np.inf, -np.inf], [-np.inf, 0.0]] == p.shift(x).tolist() == p.shift(Number(x)).value.tolist()


def test_logsumexp_of_no_entries_is_minus_infinity() -> None:
    assert [-np.inf] == p.logsumexp(np.full((1, 3), -np.inf)).tolist()
    bounded = p.logsumexp(Number(np.array([[0.0, -np.inf]]), np.array([[0.5, 0.5]])))
    assert ([0.0], pytest.approx([0.5])) == (bounded.value.tolist(), bounded.worst.tolist())


@given(seed=st.integers(0, 10**6), size=st.sampled_from([0.01, 1.0, 30.0, 500.0]))
def test_a_logsumexp_errs_as_its_entries_may(seed: int, size: float) -> None:
    x, error = 3 * Stream(seed, 0).normal((5, 6)), size * Stream(seed, 1).uniform((5, 6))
    bounded = p.logsumexp(Number.within(x, error, grade=FP32))
    for moved in (x + error, x - error, x + error * (2 * Stream(seed, 2).uniform((5, 6)) - 1)):
        assert 1 >= exceeded(p.logsumexp(moved), bounded, bounded.radius)


def test_a_logsumexp_rises_further_than_its_slope_says() -> None:
    bounded = p.logsumexp(Number.within(np.array([[2.0, 3.0]]), np.array([[0.0, 0.01]])))
    risen = p.logsumexp(np.array([2.0, 3.01])) - bounded.value
    slope = 0.01 / (1 + np.exp(-1))
    assert slope + 9e-6 < risen == pytest.approx(bounded.worst, abs=1e-9) == bounded.radius < slope + 1e-5


def test_a_logsumexp_may_rise_as_far_as_an_entry_may() -> None:
    bounded = p.logsumexp(Number(np.array([[0.0, -690.0]]), np.array([[0.0, 800.0]])))
    assert 110 <= bounded.worst <= 800


# Selection


def test_nothing_is_claimed_of_the_unspecified() -> None:
    for claim in (p.unspecified(FP32) == 1.0, p.unspecified(FP32) < 1.0, p.unspecified(FP32) * 0.0 > 1.0):
        assert (True, False) == (bool(claim.can), bool(claim.must))
    assert 6.0 == K


def test_single_precision_stays_single_and_all_else_becomes_double():
    for function in (p.exp, p.log, p.sqrt, p.tanh, p.erf, p.sigmoid, p.sin, p.rint):
        assert [np.float32, np.float64] == [function(np.ones(2, dtype)).dtype for dtype in (np.float32, np.int64)]


def test_an_error_that_outgrows_a_small_exponential_counts():
    grown = p.exp(Number.within(np.array([-100.0]), np.array([150.0]), grade=FP32))
    assert grown.worst[0] >= np.exp(49.0)
    assert 0.0 == p.exp(Number.within(np.array([-np.inf]), np.array([150.0]), grade=FP32)).value[0]


# In a workspace


def test_a_choice_with_few_other_entries_is_that_of_all_places():
    noise = np.random.default_rng(0)
    x = noise.normal(size=(2, 3, 40, 700)).astype(np.float32)
    for condition in (
        np.tri(40, 700, 500, dtype=bool),
        noise.random((2, 1, 40, 700)) < 0.99,
        np.ones((40, 700), bool),
        np.zeros((1, 700), bool),
        np.ones((40, 1), bool),
        True,
    ):
        with quickly(workspace=Workspace()):
            found = p.where(condition, x, -np.inf)
        np.testing.assert_array_equal(found, np.where(condition, x, np.float32(-np.inf)))
        assert found.dtype == np.float32


def test_exponentials_and_shifts_in_a_workspace_are_those_of_single_precision():
    x = np.random.default_rng(0).normal(size=(200, 700)).astype(np.float32) * 20
    x[3, 5:] = -np.inf
    with quickly(workspace=(work := Workspace())):
        shifted = p.shift(x)
        np.testing.assert_array_equal(shifted, x - x.max(-1, keepdims=True))
        np.testing.assert_allclose(p.exp(shifted), np.exp(shifted.astype(float)), rtol=2e-5, atol=1e-37)
        assert work.nbytes >= 2 * x.nbytes
