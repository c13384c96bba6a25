"""How sharp the bounds of quantised products are: kernels that make codes of what they multiply, against the bounds.

    python benchmarks/quantized.py [OUTPUTS]

For each grade a kernel with that arithmetic is simulated on inputs of several kinds until it has given OUTPUTS of them
(a million), in float64 but for the roundings that the grade claims.
A row says how many outputs there were, the largest error in units of the bound, the median of the error over the bound,
and the share of bounds that are more than ten times the largest error of their case.
`1/64` is the share of cases on which the same kernel is refuted with its values larger by one part in 64.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.codes import E4M3FN, coded
from attnspec.numerics.codings import Coding
from attnspec.numerics.formats import FLOAT16, FLOAT32, Format, half_unit, rounded
from attnspec.numerics.grades import QUANTIZED, Grade

TILE = 64


def through(x: Any, coding: Coding, axes: int | tuple[int, ...]) -> Any:
    """What is left of `x` when it is coded, with a scale for the entries along `axes`."""
    largest = np.abs(x).max(axes, keepdims=True)
    if coding.unit:
        scale = np.where(largest > 0, largest / E4M3FN.largest, 1.0)
        return coded(x / scale, E4M3FN) * scale
    scale = np.where(largest > 0, largest / 127, 1.0)
    return np.rint(x / scale) * scale


def added(terms: Any, fmt: Format) -> Any:
    """Sums over the last axis but one, rounded to a format after every eight terms."""
    total = np.zeros((*terms.shape[:-2], terms.shape[-1]))
    for start in range(0, terms.shape[-2], 8):
        total = rounded(total + terms[..., start : start + 8, :].sum(-2), fmt)
    return total


def attention(q: Any, k: Any, v: Any, grade: Grade) -> Any:
    """Attention with the roundings of a grade: a scale for each token, and weights rounded tile by tile."""
    assert grade.factors is not None
    if grade.factors.centred:
        k = k - rounded(k.mean(-2, keepdims=True), FLOAT32)
    s = rounded(through(q, grade.factors, -1) @ through(k, grade.factors, (-2, -1)).mT * q.shape[-1] ** -0.5, FLOAT32)
    values = rounded(v, FLOAT16) if grade.values is None else through(v, grade.values, -2)
    top = np.full((*s.shape[:-1], 1), -np.inf)
    total, out = np.zeros_like(top), np.zeros((*s.shape[:-1], v.shape[-1]))
    for start in range(0, s.shape[-1], TILE):
        block = s[..., start : start + TILE]
        above = np.maximum(top, block.max(-1, keepdims=True))
        kept, weights = np.exp(top - above), rounded(np.exp(block - above), FLOAT32)
        total = total * kept + weights.sum(-1, keepdims=True)
        cast = np.rint(weights * 127) / 127 if grade.weight is None else rounded(weights, grade.weight)
        part = added(cast[..., None] * values[..., None, start : start + TILE, :], grade.adding)
        out, top = rounded(out * kept + part, grade.adding), above
    return out / total


def inputs(rng: np.random.Generator) -> Iterator[tuple[Any, Any, Any]]:
    """Queries, keys and values of a case, of one kind after the other."""
    while True:
        for kind in range(6):
            n, d = int(rng.choice([1, 5, 33, 64, 130, 300])), int(rng.choice([8, 33, 64, 128]))
            q, k, v = (rng.normal(size=(1, 2, m, d)) for m in (32, n, n))
            if kind == 1:
                k += 6 * rng.normal(size=(1, 2, 1, d))
            elif kind == 2:
                q, k, v = np.rint(q), np.rint(k), np.rint(2 * v)
            elif kind == 3:
                q *= 6
            elif kind == 4:
                k = 0 * k + 0.125 * np.arange(n)[:, None] / max(n / 32, 1)
            elif kind == 5:
                v = 5 + 0.1 * v
            yield tuple(rounded(x, FLOAT16) for x in (q, k, v))


def measured(grade: Grade, outputs: int) -> str:
    """A row: what the outputs of a simulated kernel come to."""
    rng, definition = np.random.default_rng(0), library()["attention"]
    units: list[Any] = []
    wide = count = cases = refuted = 0
    for q, k, v in inputs(rng):
        found = Frame(definition, {"q": q, "k": k, "v": v}, grade=grade).outputs("out")["out"]
        bound = found.radius + half_unit(np.abs(found.value) + found.radius, FLOAT16)
        out = attention(q, k, v, grade)
        error = np.abs(rounded(out, FLOAT16) - found.value)
        units.append((error / bound).ravel())
        wide += int((bound > 10 * error.max()).sum())
        refuted += bool((np.abs(rounded(out * (1 + 1 / 64), FLOAT16) - found.value) > bound).any())
        count, cases = count + error.size, cases + 1
        if count >= outputs:
            break
    each = np.concatenate(units)
    shares = f"{np.median(each):10.4f} {wide / count:11.3f} {refuted / cases:7.2f}"
    return f"{grade.name:14} {count:9} {each.max():9.3f} {shares}"


if __name__ == "__main__":
    print(f"{'grade':14} {'outputs':>9} {'largest':>9} {'median':>10} {'over 10 x':>11} {'1/64':>7}")
    for one in QUANTIZED:
        print(measured(one, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000), flush=True)
