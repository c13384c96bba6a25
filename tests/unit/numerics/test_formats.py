"""Rounding from float64 is correct: held against exact rationals, and against NumPy where it has the format."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnspec.numerics.formats import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FORMATS,
    Format,
    all_held,
    half_unit,
    holds,
    rounded,
    rounded_singles,
    unknown_dtype,
)

NARROW = (FLOAT32, BFLOAT16, FLOAT16)
TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}

narrow = pytest.mark.parametrize("fmt", NARROW, ids=lambda fmt: fmt.name)
anything = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def near_the_grid(draw: st.DrawFn) -> float:
    """Numbers on, between and just beside the neighbours of a format, in every binade, the subnormal ones included."""
    fmt = draw(st.sampled_from(NARROW))
    exponent = draw(st.integers(fmt.least - fmt.digits - 2, 129))
    eighths = draw(st.integers(0, 8 * 2**fmt.digits))
    x = math.ldexp(eighths / 8, max(exponent - fmt.digits, -1000))
    return draw(st.sampled_from([1, -1])) * draw(
        st.sampled_from([x, math.nextafter(x, math.inf), math.nextafter(x, 0.0)])
    )


def spacing(x: Fraction, fmt: Format) -> Fraction:
    """The distance of neighbouring numbers in the binade of `x`, found by doubling."""
    step = Fraction(2) ** (fmt.least - fmt.digits + 1)
    while abs(x) >= step * 2**fmt.digits:
        step *= 2
    return step


def nearest(x: float, fmt: Format) -> float:
    """The number of a format nearest to `x`, by exact arithmetic: Python rounds fractions to even."""
    exact = Fraction(x)
    step = spacing(exact, fmt)
    result = round(exact / step) * step
    limit = Fraction(fmt.largest)
    return math.copysign(math.inf, x) if abs(result) > limit else math.copysign(float(result), x)


def rounded_one(x: float, fmt: Format) -> float:
    with np.errstate(over="ignore"):
        return float(rounded(np.asarray(x), fmt))


def all_numbers(fmt: Format) -> NDArray[np.float64]:
    """Every finite number of a format of sixteen bits, ascending."""
    with np.errstate(invalid="ignore"):
        numbers = np.arange(2**16, dtype=np.uint16).view(TYPES[fmt.name]).astype(float)
    return np.unique(numbers[np.isfinite(numbers)])


@narrow
@given(x=anything | near_the_grid())
def test_rounding_is_the_nearest_number_with_ties_to_even(fmt: Format, x: float) -> None:
    expected, actual = nearest(x, fmt), rounded_one(x, fmt)
    assert (expected, math.copysign(1, expected)) == (actual, math.copysign(1, actual))


@narrow
@given(x=anything | near_the_grid())
def test_rounding_moves_by_half_a_unit_of_the_binade_at_most(fmt: Format, x: float) -> None:
    y = rounded_one(x, fmt)
    exact = Fraction(float(half_unit(np.asarray(x), fmt)))
    assert spacing(Fraction(x), fmt) / 2 == exact
    assert math.isinf(y) or abs(Fraction(x) - Fraction(y)) <= exact


@narrow
@given(x=anything | near_the_grid())
@example(0.0)
@example(5e-324)
def test_a_format_holds_what_rounding_leaves_alone(fmt: Format, x: float) -> None:
    assert (nearest(x, fmt) == x) == holds(x, fmt)
    assert holds(rounded_one(x, fmt), fmt)


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
def test_every_number_of_sixteen_bits_stays_as_it_is(fmt: Format) -> None:
    numbers = all_numbers(fmt)
    np.testing.assert_array_equal(numbers, rounded(numbers, fmt))


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
def test_a_middle_goes_to_the_neighbour_whose_last_digit_is_even(fmt: Format) -> None:
    numbers = all_numbers(fmt)
    low, high = numbers[:-1], numbers[1:]
    middles = low / 2 + high / 2
    even = np.where((low / (high - low)) % 2 == 0, low, high)
    np.testing.assert_array_equal(even, rounded(middles, fmt))
    np.testing.assert_array_equal(high, rounded(np.nextafter(middles, np.inf), fmt))
    np.testing.assert_array_equal(low, rounded(np.nextafter(middles, -np.inf), fmt))


@pytest.mark.parametrize("fmt", [FLOAT32, FLOAT16], ids=lambda fmt: fmt.name)
@given(x=anything | near_the_grid())
def test_numpy_rounds_to_its_formats_alike(fmt: Format, x: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        assert float(TYPES[fmt.name](x)) == rounded_one(x, fmt)


@pytest.mark.parametrize("fmt", NARROW, ids=str)
def test_few_entries_are_rounded_as_many_are_and_in_any_layout(fmt: Format) -> None:
    ends = [0.0, -0.0, math.inf, -math.inf, math.nan, fmt.tiny, -fmt.tiny / 2, fmt.largest, 2 * fmt.largest]
    scales = 2.0 ** np.arange(fmt.least - 30, fmt.least + 30)
    x = np.concatenate([ends, np.outer(scales, np.linspace(-2, 2, 400)).ravel()])
    few = np.concatenate([rounded(part, fmt) for part in np.array_split(x, 20)])
    assert few.tobytes() == rounded(x, fmt).tobytes() == rounded(np.repeat(x, 2)[::2], fmt).tobytes()


def test_bfloat16_is_rounded_once_where_a_detour_over_float32_rounds_twice() -> None:
    x = 1 + 2.0**-8 + 2.0**-30
    assert 1.0 == float(ml_dtypes.bfloat16(np.float32(x)))
    assert 1 + 2.0**-7 == rounded_one(x, BFLOAT16)


@narrow
def test_beyond_the_largest_number_is_infinity_from_the_middle_to_the_next_power_on(fmt: Format) -> None:
    middle = fmt.largest * (1 + fmt.unit / (2 - 2 * fmt.unit))
    assert fmt.largest == float(np.finfo(np.float32).max if fmt is FLOAT32 else ml_dtypes.finfo(TYPES[fmt.name]).max)
    assert fmt.largest == rounded_one(math.nextafter(middle, 0.0), fmt)
    assert (math.inf, -math.inf) == (rounded_one(middle, fmt), rounded_one(-middle, fmt))
    assert math.inf == rounded_one(1.7e308, fmt)


@narrow
def test_subnormal_numbers_are_kept_down_to_the_least_one(fmt: Format) -> None:
    least = 2 * fmt.tiny
    assert least == float(ml_dtypes.finfo(TYPES[fmt.name]).smallest_subnormal)
    assert [0.0, least, least, 2 * least] == [rounded_one(k * fmt.tiny, fmt) for k in (1, 1.5, 2, 3)]


@narrow
def test_what_is_no_number_and_the_sign_of_zero_survive(fmt: Format) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, -1e-300])
    expected = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, -0.0])
    np.testing.assert_array_equal(expected, rounded(x, fmt))
    assert np.signbit(expected).tolist() == np.signbit(rounded(x, fmt)).tolist()


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_units_are_those_of_the_format(fmt: Format) -> None:
    info = ml_dtypes.finfo(TYPES.get(fmt.name, np.float64))
    assert float(info.eps) / 2 == fmt.unit
    assert float(info.smallest_normal) == 2.0**fmt.least


def test_float64_is_left_alone() -> None:
    x = np.array([0.1, -np.inf, 5e-324])
    np.testing.assert_array_equal(x, rounded(x, FLOAT64))
    assert holds(0.1, FLOAT64)


@pytest.mark.parametrize("x", [math.inf, -math.inf, math.nan])
def test_every_format_holds_what_is_not_finite(x: float) -> None:
    assert holds(x, FLOAT16)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(
            ("float32", other)
            for other in ("fp32", "f32", "FP32", "float", "single", "torch.fp32", "flot32", "Float32")
        ),
        *(("float16", other) for other in ("fp16", "f16", "half", "torch.half")),
        *(("bfloat16", other) for other in ("bf16", "BF16", "bfloat", "torch.bfloat16")),
        *(("float64", other) for other in ("fp64", "f64", "double")),
    ],
)
def test_a_dtype_by_another_name_gets_a_hint(name, dtype):
    told = f"unknown dtype {dtype!r}; did you mean {name!r}? (dtypes: float64, float32, bfloat16, float16)"
    assert told == unknown_dtype(dtype)


def test_a_name_that_is_near_no_dtype_gets_none():
    assert "unknown dtype 'int4' (dtypes: float64, float32, bfloat16, float16)" == unknown_dtype("int4")


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_rounding_goes_by_the_exponent_whatever_the_number(fmt):
    powers = np.ldexp(1.0, np.arange(-1074, 1024, 13))
    numbers = np.concatenate([powers, np.nextafter(powers, 0), -1.37 * powers[:-3], [0.0, -0.0]])
    for x in (
        numbers,
        numbers[: len(numbers) // 2 * 2].reshape(2, -1).T,
        numbers[5],
        float(numbers[7]),
        np.append(numbers, np.inf),
    ):
        exponent = np.frexp(np.maximum(np.abs(x), 2.0**fmt.least))[1] - fmt.digits
        np.testing.assert_array_equal(np.ldexp(0.5, exponent), half_unit(x, fmt))
        nearest = np.rint(x / np.ldexp(1.0, exponent)) * np.ldexp(1.0, exponent) if fmt is not FLOAT64 else x
        expected = np.where(np.abs(nearest) > fmt.largest, np.copysign(np.inf, x), nearest)
        np.testing.assert_array_equal(expected, rounded(np.asarray(x), fmt))


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_single_precision_is_rounded_as_everything_is(name):
    x = np.arange(-4 * 2**15, 4 * 2**15, dtype=np.float32) * np.float32(2.0**-15)
    assert np.array_equal(rounded(x.astype(float), FORMATS[name]), rounded_singles(x, FORMATS[name]).astype(float))


@narrow
@given(st.lists(anything | st.sampled_from([0.0, -0.0, math.inf, math.nan, 1.5, 2.0**-140, 2.0**-127]), max_size=6))
def test_a_format_holds_an_array_if_it_holds_every_entry(fmt, entries):
    with np.errstate(all="ignore"):
        for x in (np.array(entries, float), np.array([rounded(np.array(e), fmt) for e in entries], float)):
            assert all(holds(e, fmt) for e in x.tolist()) == all_held(x, fmt)
