"""Arrays are written so that they come back bit for bit, in their layout of memory."""

import base64
import itertools
import math

import numpy as np
import pytest
import torch

from attnspec.frameworks.known import framework_named
from attnspec.numerics.codes import stored_as
from attnspec.numerics.formats import FORMATS, rounded
from attnspec.reporting.dialects import DIALECTS
from attnspec.reporting.literals import Input, array_lines, upwards

NAMES = {"torch": torch, "np": np, "math": math, "base64": base64}
DECODED = {
    "torch": lambda text, dtype, *shape: torch.frombuffer(bytearray(base64.b64decode(text)), dtype=dtype).reshape(
        shape
    ),
    "numpy": lambda text, dtype, *shape: np.frombuffer(base64.b64decode(text), dtype).reshape(shape),
}


def imported(framework):
    pytest.importorskip({"mlx": "mlx.core"}.get(framework, framework))
    return framework_named(framework)


SHAPES = [(), (3,), (2, 0), (2, 3, 4), (4, 5, 6, 7)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("framework", "dtype"),
    [*itertools.product(["jax", "mlx"], ["float32", "float16", "bfloat16"]), ("mlx", "float64")],
)
def test_an_array_without_strides_comes_back_bit_for_bit(framework, shape, dtype):
    own, entries = imported(framework), rounded(np.random.default_rng(0).normal(size=shape) * 100, FORMATS[dtype])
    found = {**NAMES, "decoded": DECODED["numpy"], "ml_dtypes": pytest.importorskip("ml_dtypes")}
    exec(
        "\n".join(
            [
                *DIALECTS[framework].imports.values(),
                *array_lines(Input("x", entries, dtype, "strided", False), framework, "cpu"),
            ]
        ),
        found,
    )
    assert (dtype, True) == (
        own.dtype(found["x"]),
        own.same(found["x"], own.make(np.array(entries), dtype, "cpu", "strided", 0)),
    )
    assert np.array_equal(entries, own.read(found["x"]))


@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed", "offset", "sliced", "expanded"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bfloat16"])
def test_an_array_comes_back_bit_for_bit_and_laid_out_as_it_was(framework, shape, layout, dtype):
    if (framework, dtype) == ("numpy", "bfloat16"):
        NAMES["ml_dtypes"] = pytest.importorskip("ml_dtypes")
    entries = rounded(np.random.default_rng(0).normal(size=shape) * 100, FORMATS[dtype])
    if layout == "expanded" and shape:
        entries = np.broadcast_to(entries[:1], shape).copy()
    found = {**NAMES, "decoded": DECODED[framework]}
    exec("\n".join(array_lines(Input("x", entries, dtype, layout, False), framework, "cpu")), found)
    own = framework_named(framework)
    wanted = own.make(np.array(entries), dtype, "cpu", layout, 0)
    assert (dtype, True) == (own.dtype(found["x"]), own.same(found["x"], wanted))
    strides = (x.stride() if framework == "torch" else x.strides for x in (found["x"], wanted))
    assert 1 == len({*map(tuple, strides)}) or entries.size == 0


@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (4, 5, 6, 7)], ids=str)
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int8"])
def test_codes_come_back_in_their_own_dtype(framework, shape, dtype):
    NAMES["ml_dtypes"] = pytest.importorskip("ml_dtypes")
    entries = stored_as(np.random.default_rng(0).normal(size=shape) * 60, dtype)
    found = {**NAMES, "decoded": DECODED[framework]}
    exec("\n".join(array_lines(Input("x", entries, dtype, "contiguous", False), framework, "cpu")), found)
    own = framework_named(framework)
    wanted = own.make(np.array(entries), dtype, "cpu", "contiguous", 0)
    assert (dtype, True) == (own.dtype(found["x"]), own.same(found["x"], wanted))


@pytest.mark.parametrize("values", [[math.inf, -math.inf, math.nan], [True, False], [-3, 7]])
def test_what_is_no_fraction_is_written_too(values):
    entries = np.array(values)
    found = dict(NAMES)
    dtype = "float32" if entries.dtype.kind == "f" else str(entries.dtype)
    exec("\n".join(array_lines(Input("x", entries, dtype, "contiguous", False), "torch", "cpu")), found)
    np.testing.assert_array_equal(entries, found["x"].numpy())


def test_a_bound_is_never_less_than_it_is():
    bounds = np.abs(np.random.default_rng(1).normal(size=1000))
    assert bool((upwards(bounds) >= bounds).all())
    assert bool((upwards(bounds) <= 1.02 * bounds).all())
