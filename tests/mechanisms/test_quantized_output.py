"""Outputs that are codes with a scale: the digits of both witnesses, and how small a fault is found."""

import ml_dtypes
import numpy as np
import pytest

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.codes import E4M3FN, coded
from attnspec.subjects.targets import subject

OUTPUT = library()["quantized_output"]
WHOLE = "kv_heads == heads"
LAWS = ("definition", "largest_code", "contract.dtype", "contract.precision")


def attended(q, k, v):
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(q.shape[3])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v.astype(np.float64)


def refuted(codes, dtype="float32"):
    """The laws that a function breaks which makes codes of numbers over a scale."""

    def mine(q, k, v, *, out_scale):
        return codes(attended(q, k, v), np.float64(out_scale))

    one = subject(Adapter("function", "attention", mine, "numpy", dtypes=(dtype,), requires=WHOLE))
    cells = run(Request(one, OUTPUT, dtype, PROFILES["quick"], laws=LAWS)).cells
    assert sum(cell.cases for cell in cells) > 0
    return {cell.law for cell in cells if cell.bad}


def right(out, scale):
    return np.clip(out / scale, -448, 448).astype(ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_nearest_codes_pass(dtype):
    assert set() == refuted(right, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("factor", [65 / 64, 63 / 64])
def test_a_scale_that_is_off_by_one_part_in_64_is_refuted(factor, dtype):
    assert refuted(lambda out, scale: right(out, scale * factor), dtype)


def test_nan_beyond_the_range_is_refuted():
    assert "largest_code" in refuted(lambda out, scale: (out / scale).astype(ml_dtypes.float8_e4m3fn))


def test_numbers_in_place_of_codes_are_refuted():
    assert {"contract.dtype"} <= refuted(lambda out, scale: right(out, scale).astype(np.float32))


@pytest.mark.parametrize("step", [0.0007, 0.0113, 1.0, 23.0])
def test_both_witnesses_have_the_codes_of_the_format(step):
    draw = np.random.default_rng(0)
    q, k, v = (draw.normal(size=(1, 2, n, 5)) for n in (4, 7, 7))
    given = {"q": q, "k": k, "v": v, "out_scale": np.full((1, 1, 1, 1), step)}
    expected = coded(attended(q, k, v) / step, E4M3FN)
    np.testing.assert_array_equal(Frame(OUTPUT, given).outputs()["out"], expected)
    np.testing.assert_array_equal(reference.attention(**given)["out"], expected)
