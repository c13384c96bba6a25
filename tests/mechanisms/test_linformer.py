"""Linformer: both witnesses against many digits, wrong kernels found, and other right ones left alone."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

LINFORMER = library()["linformer"]


def by_definition(q, k, v, e, f):
    return Frame(LINFORMER, {"q": q, "k": k, "v": v, "e": e, "f": f}).outputs()["out"]


WITNESSES = [pytest.param(f, id=f.__name__) for f in (reference.linformer, by_definition)]


def drawn(batch, heads, length, dim, proj):
    rng = np.random.default_rng(0)
    return [
        *(rng.standard_normal((batch, heads, length, dim)) for _ in range(3)),
        *(rng.standard_normal((proj, length)) for _ in range(2)),
    ]


def with_many_digits(q, k, v, e, f):
    out = np.zeros(q.shape)
    with mpmath.workdps(40):
        for b, h in np.ndindex(q.shape[:2]):
            keys, values = (mpmath.matrix(w) * mpmath.matrix(x[b, h]) for w, x in ((e, k), (f, v)))
            p = (mpmath.matrix(q[b, h]) * keys.T / mpmath.sqrt(q.shape[3])).apply(mpmath.exp)
            for i, c in np.ndindex(q.shape[2:]):
                row = [p[i, j] for j in range(p.cols)]
                out[b, h, i, c] = mpmath.fdot(row, [values[j, c] for j in range(p.cols)]) / mpmath.fsum(row)
    return out


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("sizes", [(2, 2, 5, 3, 2), (1, 1, 1, 2, 4), (1, 2, 4, 1, 1)])
def test_the_output_is_right_in_many_digits(witness, sizes):
    inputs = drawn(*sizes)
    np.testing.assert_allclose(with_many_digits(*inputs), witness(*inputs), rtol=1e-11)


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_slot_that_sums_everything_returns_the_sum(witness):
    q, k, v, _, _ = drawn(1, 2, 6, 3, 1)
    ones = np.ones((1, 6))
    expected = np.broadcast_to(v.sum(2, keepdims=True), v.shape)
    np.testing.assert_allclose(expected, witness(q, k, v, ones, ones), rtol=1e-12)


@pytest.mark.parametrize("cut", [np.s_[:, :-1], np.s_[:-1], np.s_[:0]], ids=["width", "slots", "none"])
def test_the_reference_refuses_matrices_that_do_not_fit(cut):
    q, k, v, e, f = drawn(1, 1, 4, 2, 3)
    with pytest.raises(ValueError, match="do not fit"):
        reference.linformer(q, k, v, e[cut], f if cut != np.s_[:0] else f[cut])


def cells(function, laws=None, dtype="float32"):
    one = subject(Adapter("function", "linformer", function, "torch", dtypes=(dtype,)))
    return run(Request(one, LINFORMER, dtype, PROFILES["quick"], laws=laws, first=laws is not None)).cells


def attended(q, keys, values, factor=None):
    s = q @ keys.transpose(-1, -2) * (q.shape[-1] ** -0.5 if factor is None else factor)
    return torch.softmax(s, -1) @ values


def mixed_afterwards(q, k, v, e, f):
    values = f @ v
    return attended(q, k, v) @ values.transpose(-1, -2) @ values


def over_queries(q, k, v, e, f):
    return torch.softmax(q @ (e @ k).transpose(-1, -2) * q.shape[-1] ** -0.5, -2) @ (f @ v)


def causal(q, k, v, e, f):
    return torch.nn.functional.scaled_dot_product_attention(q, e @ k, f @ v, is_causal=True)


def in_blocks_of_four(q, k, v, e, f):
    n = k.shape[2] // 4 * 4 or 1
    return attended(q, e[:, :n] @ k[:, :, :n], f @ v)


WRONG = {
    "one matrix for both": lambda q, k, v, e, f: attended(q, e @ k, e @ v),
    "matrices of another end": lambda q, k, v, e, f: attended(q, e.flip(1) @ k, f.flip(1) @ v),
    "scale of the slots": lambda q, k, v, e, f: attended(q, e @ k, f @ v, len(e) ** -0.5),
    "mixed after the softmax": mixed_afterwards,
    "softmax over the queries": over_queries,
    "causal over the slots": causal,
    "positions in whole blocks of four": in_blocks_of_four,
    "queries left out": lambda q, k, v, e, f: attended(0 * q, e @ k, f @ v),
    "keys of the first item": lambda q, k, v, e, f: attended(q, e @ k[:1], f @ v),
    "matrices with a bias": lambda q, k, v, e, f: attended(q, e @ k, f @ v + 0.01),
}


@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG)
def test_a_wrong_kernel_is_found(function):
    assert ["definition"] == [cell.law for cell in cells(function, frozenset({"definition"})) if cell.bad]


def regrouped(q, k, v, e, f):
    """Scores of all positions first, then mixed; the weights spread over the positions."""
    s = (q.float() @ k.float().transpose(-1, -2)) @ e.float().T / q.shape[-1] ** 0.5
    return ((torch.softmax(s, -1) @ f.float()) @ v.float()).to(q.dtype)


def fused(q, k, v, e, f):
    return torch.nn.functional.scaled_dot_product_attention(q, e @ k, f @ v)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("function", [regrouped, fused])
def test_a_right_kernel_breaks_nothing(function, dtype):
    assert [] == [(cell.law, cell.says) for cell in cells(function, dtype=dtype) if cell.bad and cell.level == "must"]
