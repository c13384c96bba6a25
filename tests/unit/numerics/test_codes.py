"""Codes of at most eight bits, held against ml_dtypes and torch code by code, and against every number of 16 bits."""

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from attnspec.numerics.codes import (
    CODES,
    E2M1,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    E8M0,
    INT4,
    INT8,
    UINT8,
    CodeFormat,
    coded,
    decoded,
    encoded,
    packed,
    stored_as,
    unpacked,
    values_of,
)

FLOATS = [fmt for fmt in CODES.values() if not fmt.whole]
EIGHT = [fmt for fmt in FLOATS if fmt.bits == 8]


def every_number() -> NDArray[np.float64]:
    """Every number of float16 and of bfloat16: ties of all formats, subnormal and huge ones among them."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
    brains = (np.arange(2**16, dtype=np.uint32) << 16).view(np.float32)
    return np.concatenate([halves[~np.isnan(halves)], brains[~np.isnan(brains)].astype(np.float64)])


def cast(x: NDArray[np.float64], fmt: CodeFormat) -> NDArray[np.uint8]:
    """The codes as ml_dtypes has them."""
    with np.errstate(all="ignore"):
        return x.astype(np.float32).astype(getattr(ml_dtypes, fmt.name)).view(np.uint8)


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda fmt: fmt.name)
def test_every_code_means_what_it_means_to_ml_dtypes(fmt: CodeFormat):
    codes = np.arange(2**fmt.bits, dtype=np.uint8).view(getattr(ml_dtypes, fmt.name))
    np.testing.assert_array_equal(codes.astype(np.float64), values_of(fmt))


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda fmt: fmt.name)
def test_every_number_of_sixteen_bits_is_rounded_as_by_ml_dtypes(fmt: CodeFormat):
    x = every_number()
    if fmt is E8M0:
        x = x[np.abs(x) >= 2.0**-126]  # below, ml_dtypes 0.6.0 goes up whatever is nearer
    np.testing.assert_array_equal(cast(x, fmt), encoded(x, fmt, beyond="lost"))


@pytest.mark.parametrize("fmt", EIGHT, ids=lambda fmt: fmt.name)
def test_every_code_means_what_it_means_to_torch(fmt: CodeFormat):
    torch = pytest.importorskip("torch")
    codes = torch.arange(256, dtype=torch.uint8).view(getattr(torch, fmt.name))
    np.testing.assert_array_equal(codes.to(torch.float64).numpy(), values_of(fmt))


@pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ], ids=lambda fmt: fmt.name)
def test_every_number_in_range_is_rounded_as_by_torch(fmt: CodeFormat):
    torch = pytest.importorskip("torch")
    x = every_number()
    x = x[np.abs(x) <= fmt.largest]
    with np.errstate(under="ignore"):
        theirs = torch.from_numpy(x.astype(np.float32)).to(getattr(torch, fmt.name)).view(torch.uint8)
    np.testing.assert_array_equal(theirs.numpy(), encoded(x, fmt))


@pytest.mark.parametrize("fmt", CODES.values(), ids=lambda fmt: fmt.name)
def test_a_code_is_the_code_of_its_number(fmt: CodeFormat):
    values = values_of(fmt)
    kept = np.flatnonzero(np.isfinite(values))
    np.testing.assert_array_equal(kept, encoded(values[kept], fmt))


@pytest.mark.parametrize(
    ("fmt", "largest", "least", "digits"),
    [
        (E4M3FN, 448.0, 2.0**-9, 4),
        (E4M3FNUZ, 240.0, 2.0**-10, 4),
        (E5M2, 57344.0, 2.0**-16, 3),
        (E8M0, 2.0**127, 2.0**-127, 1),
        (E2M1, 6.0, 0.5, 2),
        (INT8, 127.0, 1.0, 7),
        (UINT8, 255.0, 1.0, 8),
        (INT4, 7.0, 1.0, 3),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_a_format_knows_its_range(fmt: CodeFormat, largest: float, least: float, digits: int):
    assert (largest, least, digits) == (fmt.largest, fmt.least, fmt.digits)


def test_what_is_beyond_the_largest_number_saturates_or_is_lost():
    x = np.array([464.0, 464.1, -1e9, np.inf])
    np.testing.assert_array_equal([448, 448, -448, 448], coded(x, E4M3FN))
    np.testing.assert_array_equal([448, np.nan, np.nan, np.nan], coded(x, E4M3FN, beyond="lost"))
    np.testing.assert_array_equal([57344, np.inf, -np.inf], coded(np.array([61439, 61440, -1e9]), E5M2, beyond="lost"))
    np.testing.assert_array_equal([6, -6], coded(np.array([100, -np.inf]), E2M1, beyond="lost"))


def test_integers_saturate_in_twos_complement():
    np.testing.assert_array_equal([127, -128, 2, -2, 0], coded(np.array([300, -300, 2.5, -1.5, 0.5]), INT8))
    np.testing.assert_array_equal([255, 0], coded(np.array([300, -3]), UINT8))
    np.testing.assert_array_equal([8, 15], encoded(np.array([-9, -1]), INT4))


def test_one_code_is_another_number_in_a_neighbouring_format():
    codes = np.arange(1, 127)
    np.testing.assert_array_equal(decoded(codes, E4M3FN), 2 * decoded(codes, E4M3FNUZ))
    np.testing.assert_array_equal(decoded(codes[:123], E5M2), 2 * decoded(codes[:123], E5M2FNUZ))


def test_a_number_that_is_missing_stays_missing_and_has_no_code_where_the_format_has_none():
    np.testing.assert_array_equal([np.nan, 1], coded(np.array([np.nan, 1.1]), E2M1))
    with pytest.raises(ValueError, match="float4_e2m1fn has no NaN"):
        encoded(np.array([np.nan]), E2M1)


def test_two_codes_share_a_byte_either_first():
    data = np.array([[0x21, 0xF3]], np.uint8)
    np.testing.assert_array_equal([[1, 2, 3, 15]], unpacked(data))
    np.testing.assert_array_equal([[2, 1, 15, 3]], unpacked(data, low_first=False))


@pytest.mark.parametrize("low_first", [True, False])
def test_packing_is_the_other_way_around(low_first: bool):
    data = np.arange(256, dtype=np.uint8).reshape(4, 64)
    np.testing.assert_array_equal(data, packed(unpacked(data, low_first=low_first), low_first=low_first))


def test_numbers_are_stored_in_formats_of_either_kind():
    x = np.array([1000.0, 1.06, 2.5])
    np.testing.assert_array_equal([448, 1, 2.5], stored_as(x, "float8_e4m3fn"))
    np.testing.assert_array_equal([127, 1, 2], stored_as(x, "int8"))
    np.testing.assert_array_equal(x.astype(np.float32), stored_as(x, "float32"))
    assert np.inf == stored_as(np.array(1e6), "float16")
