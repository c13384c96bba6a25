"""The gated feed-forward layer: two witnesses against exact digits, faults as people make them, and right variants."""

import mpmath
import numpy as np
import pytest
import torch
from torch.nn.functional import gelu, pad, silu

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject


def failures(function, dtype="float32", framework="torch", first=False):
    """The laws that a function breaks; with `first`, of those up to the first violation."""
    one = subject(Adapter("function", "swiglu", function, framework, dtypes=(dtype,)))
    cells = run(Request(one, library()["swiglu"], dtype, PROFILES["quick"], first=first)).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


def exactly(x, w_gate, w_up, w_down):
    with mpmath.workdps(60):
        x, w_gate, w_up, w_down = (mpmath.matrix(m.tolist()) for m in (x, w_gate, w_up, w_down))
        gate, up = x * w_gate, x * w_up
        for i, j in np.ndindex(gate.rows, gate.cols):
            up[i, j] *= gate[i, j] / (1 + mpmath.exp(-gate[i, j]))
        return np.array((up * w_down).tolist(), float)


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(("rows", "dim", "hidden"), [(1, 1, 1), (2, 5, 3), (3, 4, 17)])
def test_both_witnesses_have_the_digits_of_the_formula(rows, dim, hidden, size):
    draw = np.random.default_rng(rows)
    shapes = {"x": (rows, dim), "w_gate": (dim, hidden), "w_up": (dim, hidden), "w_down": (hidden, dim)}
    given = {name: draw.normal(size=shape) for name, shape in shapes.items()}
    given["x"] = size * given["x"]
    expected = exactly(**given)
    np.testing.assert_allclose(reference.swiglu(**given), expected, 1e-12, 1e-12 * size)
    np.testing.assert_allclose(Frame(library()["swiglu"], given).outputs()["out"], expected, 1e-12, 1e-12 * size)


def test_the_gate_of_the_reference_does_not_overflow():
    one = np.ones((1, 1))
    with np.errstate(over="raise"):
        assert [[0.0], [1e6]] == reference.swiglu(np.array([[-1000.0], [1000.0]]), one, one, one).tolist()


# Faults


def linear_first(x, w_gate, w_up, w_down):
    return ((x @ w_gate) * silu(x @ w_up)) @ w_down


def with_gelu(x, w_gate, w_up, w_down):
    return (gelu(x @ w_gate) * (x @ w_up)) @ w_down


def halves_of_one_product(x, w_gate, w_up, w_down):
    up, gate = (x @ torch.cat([w_gate, w_up], -1)).chunk(2, -1)
    return (silu(gate) * up) @ w_down


def unguarded(x, w_gate, w_up, w_down):
    power = torch.exp(x @ w_gate)
    return ((x @ w_gate) * power / (1 + power) * (x @ w_up)) @ w_down


def full_tiles_of_units(x, w_gate, w_up, w_down):
    n = max(w_down.shape[0] // 32 * 32, 32)
    return (silu(x @ w_gate[:, :n]) * (x @ w_up[:, :n])) @ w_down[:n]


def first_item_of_the_batch(x, w_gate, w_up, w_down):
    gate = (x[:1] if x.ndim > 2 else x) @ w_gate
    return (silu(gate) * (x @ w_up)) @ w_down


def in_place(x, w_gate, w_up, w_down):
    gate, up = x @ w_gate, x @ w_up
    return torch.mul(silu(gate, inplace=True), up) @ w_down.mul_(1.0) + x.zero_()


def layers_with_biases(x, w_gate, w_up, w_down):
    first, last = torch.nn.Linear(1, w_gate.shape[1]).bias, torch.nn.Linear(1, w_down.shape[1]).bias
    return ((silu(x @ w_gate + first)) * (x @ w_up)) @ w_down + last


FAULTS = (
    linear_first,
    with_gelu,
    halves_of_one_product,
    unguarded,
    full_tiles_of_units,
    first_item_of_the_batch,
    in_place,
    layers_with_biases,
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("function", FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_found(function, dtype):
    assert failures(function, dtype, first=True)


# What is right


def one_layer_after_another(x, w_gate, w_up, w_down):
    return (silu(x @ w_gate) * (x @ w_up)) @ w_down


def padded_to_tiles(x, w_gate, w_up, w_down):
    more = -w_gate.shape[1] % 16
    gate, up = x.float() @ pad(w_gate, (0, more)).float(), x.float() @ pad(w_up, (0, more)).float()
    return ((silu(gate) * up) @ pad(w_down, (0, 0, 0, more)).float()).to(x.dtype)


def as_products_of_sums(x, w_gate, w_up, w_down):
    """Every entry by itself, in double precision."""
    gate, up = (torch.einsum("...d,dh->...h", x.double(), w.double()) for w in (w_gate, w_up))
    return torch.einsum("...h,hd->...d", gate * gate.sigmoid() * up, w_down.double()).to(x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("function", [one_layer_after_another, padded_to_tiles, as_products_of_sums])
def test_what_is_right_is_not_accused(function, dtype):
    assert [] == failures(function, dtype)


def in_numpy(x, w_gate, w_up, w_down):
    gate = x @ w_gate
    return gate / (1 + np.exp(np.minimum(-gate, 80))) * (x @ w_up) @ w_down


def test_numpy_serves_as_well():
    assert [] == failures(in_numpy, framework="numpy")
