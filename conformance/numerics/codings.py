"""Factors that are quantized with computed scales: the error of each entry, and which entries share an error.

The scale is found from the largest entry of a matrix, so that the error of an entry has a part that is relative to it,
and a part that is relative to the largest. Entries of one size have one code and one error but for the sign.
Zhang, Wei, Zhang, Zhu and Chen 2024, SageAttention, arXiv:2410.02367, section 4.2: keys less their mean.
Shah et al. 2024, FlashAttention-3, arXiv:2407.08608, section 3.3: scales of blocks in float8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .codes import E4M3FN, INT8


@dataclass(frozen=True, slots=True)
class Coding:
    """Codes with one scale for all tokens of a head, or finer ones, whose errors are no larger.

    `unit` bounds the error relative to the entry, and `step` that relative to the largest entry; both add up.
    `centred`: of the second factor, what is coded is its distance from the mean of its columns.
    """

    name: str
    unit: float
    step: float
    centred: bool = False


INT8_CODES = Coding("int8", 0.0, 0.5 / INT8.largest)
INT8_CENTRED = Coding("int8 of what is less its mean", 0.0, 0.5 / INT8.largest, centred=True)
E4M3_CODES = Coding("float8_e4m3fn", 2.0**-E4M3FN.digits, E4M3FN.least / 2 / E4M3FN.largest)


def coding_error(x: Any, coding: Coding) -> Any:
    """The largest error of each entry of matrices [..., rows, columns]; zero and the largest are codes."""
    size = np.abs(x)
    largest = np.max(size, axis=(-2, -1), keepdims=True, initial=0.0)
    return np.where((size > 0) & (size < largest), coding.unit * size + coding.step * largest, 0.0)


def alike(x: Any, axis: int) -> Any:
    """How many entries along an axis have the value of each."""
    rows = np.moveaxis(x, axis, -1)
    order = np.argsort(rows, axis=-1)
    ranked = np.take_along_axis(rows, order, -1)
    starts = np.ones(ranked.shape, bool)
    starts[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    run = (np.cumsum(starts) - 1).reshape(ranked.shape)
    counts = np.empty(ranked.shape)
    if run.size:
        np.put_along_axis(counts, order, np.bincount(run.ravel())[run].astype(float), -1)
    return np.moveaxis(counts, -1, axis)


def centred(x: Any) -> Any:
    """Columns [..., channels, tokens] less their mean over the tokens."""
    return x - np.mean(x, axis=-1, keepdims=True) if x.shape[-1] else x


@dataclass(frozen=True, slots=True)
class Coded:
    """Two factors of a product as they are coded: sizes, errors, and the squares that add up to variances."""

    size_left: Any
    size_right: Any
    left: Any
    right: Any
    alone: Any
    """Variances of errors of the right factor that no other column has."""
    common: Any
    """Those of errors that some other column has as well."""
    of_left: Any

    @classmethod
    def of(cls, left: Any, right: Any, coding: Coding) -> Coded:
        """Finite matrices [..., rows, channels] and [..., channels, columns]."""
        if coding.centred:
            right = centred(right)
        errors = coding_error(left, coding), coding_error(right, coding)
        sizes = np.abs(left), np.abs(right)
        squares = alike(sizes[1], -2) * errors[1] ** 2 / 3
        repeated = alike(sizes[1], -1) > 1
        return cls(
            *sizes,
            *errors,
            np.where(repeated, 0.0, squares),
            np.where(repeated, squares, 0.0),
            alike(sizes[0], -1) * errors[0] ** 2 / 3,
        )
