"""Floating-point formats, and correct rounding from float64 to each of them.

NumPy has no bfloat16, and the packages that add it round float64 twice (through float32), so rounding is done here:
once, to nearest, ties to even, by scaling with powers of two, which is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import did_you_mean
from .truths import every, some


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: `digits` of significand (the leading one included), normal numbers from 2 ** `least` on."""

    name: str
    digits: int
    least: int
    largest: float

    @property
    def unit(self) -> float:
        """The unit roundoff: the largest relative error of rounding a normal number to nearest."""
        return 2.0**-self.digits

    @property
    def tiny(self) -> float:
        """Half the spacing of subnormal numbers."""
        return 2.0 ** (self.least - self.digits)

    @property
    def entry_bytes(self) -> int:
        """How many bytes a number takes: its significand without the leading bit, its exponent, and its sign."""
        return (self.digits + (2 * (2 - self.least)).bit_length() - 1) // 8


FLOAT64 = Format("float64", 53, -1022, 1.7976931348623157e308)
FLOAT32 = Format("float32", 24, -126, (2 - 2.0**-23) * 2.0**127)
BFLOAT16 = Format("bfloat16", 8, -126, (2 - 2.0**-7) * 2.0**127)
FLOAT16 = Format("float16", 11, -14, 65504.0)
TENSOR_FLOAT32 = Format("tensorfloat32", 10, -126, FLOAT32.largest)
"""The format of factors of float32 on tensor cores: 11 bits, the last of which may be wrong where the rest is cut off.

https://docs.nvidia.com/cuda/parallel-thread-execution/#alternate-floating-point-data-formats (.tf32)
"""
FORMATS = {fmt.name: fmt for fmt in (FLOAT64, FLOAT32, BFLOAT16, FLOAT16)}
_OTHER_NAMES = {
    "float64": ("fp64", "f64", "double"),
    "float32": ("fp32", "f32", "float", "single", "tf32"),
    "bfloat16": ("bf16", "bfloat", "brain"),
    "float16": ("fp16", "f16", "half"),
}


def unknown_dtype(name: str) -> str:
    """What is said of a name that is not a dtype, with the one that is meant, also by a name that it has elsewhere."""
    plain = name.lower().rpartition(".")[2]  # as in torch.float32
    others = {other: dtype for dtype, names in _OTHER_NAMES.items() for other in (dtype, *names)}
    hint = f"; did you mean {others[plain]!r}?" if plain in others else did_you_mean(plain, FORMATS)
    return f"unknown dtype {name!r}{hint} (dtypes: {', '.join(FORMATS)})"


CHUNK = 1 << 15
"""Entries that are looked at together: so few that they lie in the cache."""
_EXPONENT = np.int64(0x7FF << 52)
"""The bits of a float64 that hold its exponent."""


def _spacing(x: NDArray[np.float64] | float, fmt: Format, share: float = 1.0) -> NDArray[np.float64]:
    """A share, a power of two, of the distance of neighbouring numbers in the binade of `x`.

    Below the normal numbers, it is that of the least of them.
    """
    size = np.maximum(np.abs(x), 2.0**fmt.least)
    if size.dtype != np.float64 or not every(np.isfinite(size)):
        return np.ldexp(share, np.frexp(size)[1] - fmt.digits)
    binade = (size.view(np.int64) & _EXPONENT).view(np.float64)  # which is much quicker than frexp and ldexp
    return binade * (share * 2.0 ** (1 - fmt.digits))


def rounded(x: NDArray[np.float64], fmt: Format) -> NDArray[np.float64]:
    """`x` rounded once to `fmt`, to nearest with ties to even; beyond the largest number, infinity."""
    if fmt is FLOAT64:
        return x
    if fmt.name in _ONCE and type(x) is np.ndarray and x.dtype == np.float64 and x.flags.c_contiguous:
        dtype, most = _ONCE[fmt.name]
        if x.size <= most:
            with np.errstate(all="ignore"):
                return x.astype(dtype).astype(np.float64)
    return _rounded_by_spacing(x, fmt)


_ONCE = {"float32": (np.float32, 1 << 40), "float16": (np.float16, 1 << 12)}
"""The formats to which NumPy rounds a float64 once, each with the most entries of which it does so quickly.

To bfloat16 the way leads through float32, and rounds twice.
"""


def _rounded_by_spacing(x: NDArray[np.float64], fmt: Format) -> NDArray[np.float64]:
    """`x` rounded as by `rounded` to any format, in any memory layout."""
    spacing = _spacing(x, fmt)
    return limited(np.asarray(np.rint(x / spacing) * spacing), fmt)


def all_held(x: NDArray[Any], fmt: Format) -> bool:
    """Whether `fmt` has every finite entry itself."""
    if fmt is FLOAT64:
        return True
    if x.dtype == np.float64 and x.size:
        entries = x.ravel(order="K")
        if all(_plainly_held(entries[at : at + CHUNK], fmt) for at in range(0, entries.size, CHUNK)):
            return True
    return every((rounded(x, fmt) == x) | ~np.isfinite(x))


def _plainly_held(x: NDArray[np.float64], fmt: Format) -> bool:
    """Whether the bits that a format has not are nowhere set in normal numbers: much quicker to tell than to round."""
    beyond = np.int64((1 << (FLOAT64.digits - fmt.digits)) - 1)
    size = np.abs(x)
    normal = np.count_nonzero(size < 2.0**fmt.least) == np.count_nonzero(size == 0)
    return bool(
        normal and np.max(size) <= fmt.largest and not np.bitwise_or.reduce(x.view(np.int64), axis=None) & beyond
    )


def rounded_singles(x: NDArray[np.float32], fmt: Format) -> NDArray[Any]:
    """Finite normal numbers of single precision rounded to `fmt` as by `rounded`, by the quickest way there is."""
    if fmt in (FLOAT64, FLOAT32):
        return x
    if fmt is FLOAT16:
        return x.astype(np.float16)
    if fmt is BFLOAT16:
        bits = x.view(np.uint32)
        return ((bits + (((bits >> 16) & 1) + 0x7FFF)) & 0xFFFF0000).view(np.float32)
    return rounded(x.astype(np.float64), fmt)


def limited(x: NDArray[np.float64], fmt: Format) -> NDArray[np.float64]:
    """`x` with infinity for what is beyond the largest number of `fmt`."""
    beyond = np.abs(x) > fmt.largest
    return np.where(beyond, np.copysign(np.inf, x), x) if some(beyond) else x


def half_unit(x: NDArray[np.float64], fmt: Format) -> NDArray[np.float64]:
    """Half the distance of neighbouring numbers of `fmt` in the binade of `x`: the most that rounding moves."""
    return _spacing(x, fmt, 0.5)


def holds(x: float, fmt: Format) -> bool:
    """Whether `fmt` has the number `x` itself."""
    if fmt is FLOAT64 or not math.isfinite(x):
        return True
    significand, exponent = math.frexp(x)
    digits = fmt.digits - max(0, fmt.least + 1 - exponent)
    return abs(x) <= fmt.largest and math.ldexp(significand, digits).is_integer()


KINDS = ("integer", "boolean")
"""What an input or output may be instead of a number with a fraction: any dtype of that kind."""
NUMBER = "number"
"""The dtype of an output that may be of any: it is computed with in the one under test."""


def dtype_under(dtype: str, own: str | None) -> str:
    """The dtype of what has an `own` one (or none) when `dtype` is under test: its own, or the wider format."""
    return dtype if own in (None, NUMBER) or (dtype == "float64" and own in FORMATS) else own
