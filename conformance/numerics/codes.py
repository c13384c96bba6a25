"""Formats of at most eight bits: the value of every code, rounding to codes, and codes that share a byte.

A format is data: how many bits hold the exponent and the fraction, the bias, and which codes are not numbers.
There are few codes, so all of them are listed, and a number is rounded by looking between which two it lies.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .formats import FORMATS, rounded

Specials = Literal["none", "ieee", "last", "negative_zero"]
"""Which codes are not numbers.

* `none`: every code is a number.
* `ieee`: those with the greatest exponent are infinity, where the fraction is zero, and else NaN.
* `last`: the greatest code of either sign is NaN.
* `negative_zero`: the code that would be minus zero is NaN.
"""
Beyond = Literal["saturates", "lost"]
"""What becomes of a number beyond the largest one: the largest one, or infinity where there is one, and else NaN."""


@dataclass(frozen=True, slots=True)
class CodeFormat:
    """A format of `bits` bits: integers where it has no exponent, in two's complement where they are signed."""

    name: str
    bits: int
    exponent: int = 0
    """Bits of the exponent."""
    bias: int = 0
    """What an exponent of zero stands for is 1 - bias; without a fraction, -bias."""
    specials: Specials = "none"
    signed: bool = True

    @property
    def fraction(self) -> int:
        """Bits of the fraction, behind the leading one that is not stored."""
        return self.bits - self.exponent - self.signed

    @property
    def whole(self) -> bool:
        """Whether the codes are integers."""
        return self.exponent == 0

    @property
    def largest(self) -> float:
        """The largest number."""
        values = values_of(self)
        return float(values[np.isfinite(values)].max())

    @property
    def least(self) -> float:
        """The least number above zero."""
        return float(_ladder(self)[0 if self.fraction == 0 else 1])

    @property
    def digits(self) -> int:
        """The significant digits in base two of a normal number, the leading one included."""
        return self.bits - self.signed if self.whole else self.fraction + 1


E4M3FN = CodeFormat("float8_e4m3fn", 8, 4, 7, "last")
E4M3FNUZ = CodeFormat("float8_e4m3fnuz", 8, 4, 8, "negative_zero")
E5M2 = CodeFormat("float8_e5m2", 8, 5, 15, "ieee")
E5M2FNUZ = CodeFormat("float8_e5m2fnuz", 8, 5, 16, "negative_zero")
E8M0 = CodeFormat("float8_e8m0fnu", 8, 8, 127, "last", signed=False)
E2M3 = CodeFormat("float6_e2m3fn", 6, 2, 1)
E3M2 = CodeFormat("float6_e3m2fn", 6, 3, 3)
E2M1 = CodeFormat("float4_e2m1fn", 4, 2, 1)
INT8 = CodeFormat("int8", 8)
UINT8 = CodeFormat("uint8", 8, signed=False)
INT4 = CodeFormat("int4", 4)
UINT4 = CodeFormat("uint4", 4, signed=False)
CODES = {fmt.name: fmt for fmt in (E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0, E2M3, E3M2, E2M1, INT8, UINT8, INT4, UINT4)}
"""The formats by their names, which are those of ml_dtypes and torch."""


@functools.cache
def values_of(fmt: CodeFormat) -> NDArray[np.float64]:
    """What each code means, [2 ** bits], NaN and infinities among them; it is not to be written to."""
    code = np.arange(2**fmt.bits)
    negative = fmt.signed & (code >= 2 ** (fmt.bits - 1))
    if fmt.whole:
        values = np.where(negative, code - 2**fmt.bits, code).astype(np.float64)
    else:
        sizes = _sizes(fmt, (code >> fmt.fraction) % 2**fmt.exponent, code % 2**fmt.fraction)
        values = np.where(negative, -sizes, sizes)
        if fmt.specials == "negative_zero":
            values[negative & (sizes == 0)] = np.nan
    values.flags.writeable = False
    return values


def _sizes(fmt: CodeFormat, exponent: NDArray[np.int64], fraction: NDArray[np.int64]) -> NDArray[np.float64]:
    normal = (exponent > 0) | (fmt.fraction == 0)  # without a fraction there is neither zero nor a subnormal number
    sizes = np.ldexp(normal + fraction / 2.0**fmt.fraction, np.where(normal, exponent, 1) - fmt.bias)
    greatest = exponent == 2**fmt.exponent - 1
    if fmt.specials == "ieee":
        sizes[greatest] = np.where(fraction[greatest] == 0, np.inf, np.nan)
    elif fmt.specials == "last":
        sizes[greatest & (fraction == 2**fmt.fraction - 1)] = np.nan
    return sizes


@functools.cache
def _ladder(fmt: CodeFormat) -> NDArray[np.float64]:
    """The numbers that are not negative, by their codes, in rising order."""
    sizes = values_of(fmt)[: 2 ** (fmt.bits - fmt.signed)]
    return sizes[np.isfinite(sizes)]


def decoded(codes: NDArray[Any], fmt: CodeFormat) -> NDArray[np.float64]:
    """What codes mean; each is an integer from 0 to below 2 ** bits."""
    return values_of(fmt)[codes]


def encoded(x: NDArray[np.float64], fmt: CodeFormat, *, beyond: Beyond = "saturates") -> NDArray[np.uint8]:
    """The codes of the numbers next to `x`, of two that are equally near the even one.

    What is beyond the largest number is so after rounding, as in a format that goes on.
    Formats without infinity and NaN saturate in any case, and a NaN is a `ValueError` for them.
    A format without a sign takes what is not positive for its least number, or loses it.
    """
    x = np.asarray(x, np.float64)
    missing = np.isnan(x)
    if fmt.whole:
        low, high = values_of(fmt).min(), values_of(fmt).max()
        codes = np.clip(np.rint(np.where(missing, 0, x)), low, high).astype(np.int64) % 2**fmt.bits
    else:
        sizes = np.where(missing, 0, x)
        codes = _nearest(np.abs(sizes) if fmt.signed else np.maximum(sizes, 0), fmt, beyond)
        if fmt.signed:
            codes = np.where(np.signbit(x) & ~missing, _negated(codes, fmt), codes)
        elif beyond == "lost":
            codes = np.where(x <= 0, _code_of_nan(fmt), codes)
    if missing.any():
        codes = np.where(missing, _code_of_nan(fmt), codes)
    return codes.astype(np.uint8)


def _nearest(sizes: NDArray[np.float64], fmt: CodeFormat, beyond: Beyond) -> NDArray[np.int64]:
    ladder = _ladder(fmt)
    above = np.clip(np.searchsorted(ladder, sizes), 1, len(ladder) - 1)
    up, down = ladder[above] - sizes, sizes - ladder[above - 1]
    even = above % 2 == 0 if fmt.fraction else True  # in powers of two the greater one has the even significand
    codes = np.where((up < down) | ((up == down) & even), above, above - 1)
    if beyond == "saturates" or fmt.specials == "none":
        return codes
    last = len(ladder) - 1
    half = ladder[last] / 2 if fmt.fraction == 0 else (ladder[last] - ladder[last - 1]) / 2
    over = sizes - ladder[last]
    lost = (over > half) | ((over == half) & (last % 2 == 1 or fmt.fraction == 0))
    return np.where(lost, last + 1 if fmt.specials == "ieee" else _code_of_nan(fmt), codes)


def _negated(codes: NDArray[np.int64], fmt: CodeFormat) -> NDArray[np.int64]:
    sign = 2 ** (fmt.bits - 1)
    if fmt.specials == "negative_zero":
        return np.where((codes == 0) | (codes == sign), codes, codes | sign)
    return codes | sign


def _code_of_nan(fmt: CodeFormat) -> int:
    found = np.flatnonzero(np.isnan(values_of(fmt)))
    if not found.size:
        raise ValueError(f"{fmt.name} has no NaN")
    return int(found[0])


def coded(x: NDArray[np.float64], fmt: CodeFormat, *, beyond: Beyond = "saturates") -> NDArray[np.float64]:
    """`x` rounded to the numbers of a format; NaN stays what it is, whether or not there is a code of it."""
    x = np.asarray(x, np.float64)
    missing = np.isnan(x)
    near = decoded(encoded(np.where(missing, 0, x), fmt, beyond=beyond), fmt)
    return np.where(missing, np.nan, near) if missing.any() else near


def stored_as(x: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """`x` rounded once to the dtype of that name; beyond its largest number codes saturate, and others overflow."""
    return coded(x, CODES[dtype]) if dtype in CODES else rounded(x, FORMATS[dtype])


# Codes of four bits in bytes


def unpacked(data: NDArray[np.uint8], *, low_first: bool = True) -> NDArray[np.uint8]:
    """The codes in bytes of two each, [..., 2 n] of [..., n]: that in the low bits first, or the other."""
    low, high = data & 15, data >> 4
    pairs = np.stack((low, high) if low_first else (high, low), -1).astype(np.uint8)
    return pairs.reshape(*data.shape[:-1], 2 * data.shape[-1])


def packed(codes: NDArray[np.uint8], *, low_first: bool = True) -> NDArray[np.uint8]:
    """Bytes of two codes each, [..., n] of [..., 2 n]; the other way around of `unpacked`."""
    first, second = codes[..., ::2], codes[..., 1::2]
    return (first | second << 4 if low_first else second | first << 4).astype(np.uint8)
