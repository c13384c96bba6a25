"""Attention that makes codes of what it multiplies, and reads one of them with a scale that is off by little."""

from __future__ import annotations

from typing import Any

from ..controls.attention import CONVENTIONS
from ..controls.codings import TILE, attended, eighth, in_127_steps, in_float8, in_int8, smoothed
from .whole import Whole

DTYPES = ("bfloat16", "float16")


def queries(q: Any) -> Any:
    """What is left of the queries."""
    return in_float8(q, (2, 3))


def keys(k: Any) -> Any:
    """What is left of the keys."""
    return in_float8(k, (2, 3))


def centred_keys(k: Any) -> Any:
    """What is left of keys less their mean in int8."""
    return in_int8(smoothed(k), TILE)


def values(v: Any) -> Any:
    """What is left of the values."""
    return in_float8(v, (2, 3))


def result(out: Any) -> Any:
    """The averages as they are returned."""
    return out


def in_float8_throughout(part: Any) -> Any:
    def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
        out, _ = attended(part.queries(q), part.keys(k), part.values(v), scale, causal, eighth)
        return part.result(out).to(q.dtype)

    return attention


def scores_in_int8(part: Any) -> Any:
    def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
        out, _ = attended(in_int8(q, 32), part.centred_keys(k), part.values(v), scale, causal, eighth)
        return out.to(q.dtype)

    return attention


def whole_values(v: Any) -> Any:
    """What is left of the values in int8."""
    return in_int8(v, max(v.shape[2], 1))


def cast(weights: Any) -> Any:
    """What is left of weights in int8."""
    return in_127_steps(weights)


def in_int8_throughout(part: Any) -> Any:
    def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
        left = in_int8(q, 1), in_int8(k, 1)
        return attended(*left, part.whole_values(v), scale, causal, part.cast)[0].to(q.dtype)

    return attention


FLOAT8 = Whole("attention", in_float8_throughout, (queries, keys, values, result), CONVENTIONS, grade="fp8")
INT8 = Whole("attention", scores_in_int8, (centred_keys, values), CONVENTIONS, grade="int8_fp8")

INTEGERS = Whole("attention", in_int8_throughout, (whole_values, cast), CONVENTIONS, grade="int8")


@FLOAT8.instead_of(queries, dtypes=DTYPES)
def coded_queries_a_64th_too_large(q: Any) -> Any:
    """Queries in float8 are read with a scale that is too large by one part in 64."""
    return queries(q) * (65 / 64)


@FLOAT8.instead_of(keys, dtypes=DTYPES)
def coded_keys_a_64th_too_small(k: Any) -> Any:
    """Keys in float8 are read with a scale that is too small by one part in 64."""
    return keys(k) * (63 / 64)


@FLOAT8.instead_of(values, dtypes=DTYPES)
def coded_values_a_64th_too_large(v: Any) -> Any:
    """Values in float8 are read with a scale that is too large by one part in 64."""
    return values(v) * (65 / 64)


@FLOAT8.instead_of(result, dtypes=DTYPES)
def averages_of_codes_a_64th_too_small(out: Any) -> Any:
    """What is averaged in float8 is scaled back by one part in 64 too little."""
    return out * (63 / 64)


@INT8.instead_of(centred_keys, dtypes=DTYPES)
def centred_keys_a_64th_too_large(k: Any) -> Any:
    """Keys in int8 are read with a scale that is too large by one part in 64, beside values in float8."""
    return centred_keys(k) * (65 / 64)


@INT8.instead_of(values, dtypes=DTYPES)
def values_beside_int8_a_64th_too_small(v: Any) -> Any:
    """Values in float8 are read with a scale that is too small by one part in 64, beside keys in int8."""
    return values(v) * (63 / 64)


@INTEGERS.instead_of(whole_values, dtypes=DTYPES)
def values_beside_int8_weights_a_64th_too_large(v: Any) -> Any:
    """Values in int8 are read with a scale that is too large by one part in 64, beside weights in int8."""
    return whole_values(v) * (65 / 64)


@INTEGERS.instead_of(cast, dtypes=DTYPES)
def weights_in_128_steps_read_as_127(weights: Any) -> Any:
    """Weights become integers of up to 128, which wrap around, and are read in steps of one part in 127."""
    codes = (weights * 128).round()
    return codes.where(codes < 128, -128.0) / 127


@INTEGERS.instead_of(cast, dtypes=DTYPES)
def weights_cut_off_in_int8(weights: Any) -> Any:
    """Weights in int8 are cut off instead of rounded."""
    return (weights * 127).floor() / 127
