"""Implementations that are right, each in its own way: no cell of them fails, in single precision and in bfloat16."""

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

INFINITY = float("inf")
DTYPES = ("float32", "bfloat16")


def cells_of(function, operator, mechanism, dtype, **declared):
    one = subject(Adapter("function", operator, function, **{"framework": "torch", "dtypes": DTYPES, **declared}))
    return run(Request(one, library()[mechanism], dtype, PROFILES["quick"])).cells


def factor(q, scale):
    return q.shape[-1] ** -0.5 if scale is None else scale


def grouped(x, q):
    return x.float().repeat_interleave(q.shape[1] // x.shape[1], 1)


def seen_by(q, k, mask, causal):
    """Which keys every query sees: [batch, heads, q_len, k_len]."""
    row, column = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])
    seen = (column <= row) | (not causal)
    return (seen if mask is None else seen & mask).expand(*q.shape[:3], k.shape[2])


def materialised(q, k, v, *, mask=None, causal=False, scale=None):
    """Every score at once."""
    s = torch.einsum("bhqd,bhkd->bhqk", q.float(), grouped(k, q)) * factor(q, scale)
    p = torch.softmax(s.masked_fill(~seen_by(q, k, mask, causal), -INFINITY), -1).nan_to_num(0.0)
    return torch.einsum("bhqk,bhkd->bhqd", p, grouped(v, q)).to(q.dtype)


def heads_one_by_one(q, k, v, *, mask=None, causal=False, scale=None):
    seen, out = seen_by(q, k, mask, causal), torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype)
    group = q.shape[1] // k.shape[1]
    for h in range(q.shape[1]):
        one, other = slice(h, h + 1), slice(h // group, h // group + 1)
        out[:, one] = materialised(q[:, one], k[:, other], v[:, other], mask=seen[:, one], scale=scale)
    return out


def expanded_groups(q, k, v, *, mask=None, causal=False, scale=None):
    """The heads of one group as further rows of one product; keys and values are not repeated."""
    kv_heads, seen = k.shape[1], seen_by(q, k, mask, causal).unflatten(1, (k.shape[1], -1))
    s = q.float().unflatten(1, (kv_heads, -1)) @ k.float()[:, :, None].transpose(-1, -2) * factor(q, scale)
    p = torch.softmax(s.masked_fill(~seen, -INFINITY), -1).nan_to_num(0.0)
    return (p @ v.float()[:, :, None]).flatten(1, 2).to(q.dtype)


def normalised_last(q, k, v, *, mask=None, causal=False, scale=None):
    """Weights in the dtype of the inputs meet the values first and are divided by their sum afterwards."""
    s = q.float() @ grouped(k, q).mT * factor(q, scale)
    s = s.masked_fill(~seen_by(q, k, mask, causal), -INFINITY)
    top = torch.nn.functional.pad(s, (0, 1), value=-INFINITY).amax(-1, keepdim=True)
    p = (s - top.masked_fill(top == -INFINITY, 0.0)).exp()
    total = p.sum(-1, keepdim=True)
    out = p.to(q.dtype).float() @ grouped(v, q)
    return torch.where(total > 0, out / total, 0.0).to(q.dtype)


def through_the_logarithm(q, k, v, *, mask=None, causal=False, scale=None):
    """The logsumexp first, and the weights from it: out, lse and weights."""
    s = q.float() @ grouped(k, q).mT * factor(q, scale)
    s = s.masked_fill(~seen_by(q, k, mask, causal), -INFINITY)
    lse = torch.logsumexp(s, -1)
    p = (s - lse.masked_fill(lse == -INFINITY, 0.0)[..., None]).exp()
    return {"out": (p @ grouped(v, q)).to(q.dtype), "lse": lse, "weights": p.to(q.dtype)}


def filled(q, k, v, *, mask=None, causal=False, scale=None):
    """Hidden keys have a large negative score, so that a query that sees none takes the mean."""
    s = (q.float() @ grouped(k, q).mT * factor(q, scale)).masked_fill(~seen_by(q, k, mask, causal), -1e30)
    return (torch.softmax(s, -1) @ grouped(v, q)).to(q.dtype)


ATTENTION = (heads_one_by_one, expanded_groups, normalised_last, through_the_logarithm, filled)
"""Those that compute as no control and no adapter does, which the audit runs."""


NOTED = "poisoned_query"
"""The law that those note which give zero for a row whose weights have no sum, as of a query of NaN."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mechanism", ["attention", "causal_mask", "grouped_query"])
@pytest.mark.parametrize("function", ATTENTION)
def test_no_cell_of_correct_attention_fails(function, mechanism, dtype):
    cells = cells_of(function, "attention", mechanism, dtype)
    assert [] == [(cell.law, cell.says) for cell in cells if cell.bad and cell.law != NOTED]
    assert {"should"} >= {cell.level for cell in cells if cell.law == NOTED}
    assert "pass" == next(cell.verdict for cell in cells if cell.law == "definition")


# Softmax and ALiBi


def softmax_by_logarithm(x):
    return torch.exp(torch.log_softmax(x.float(), -1)).to(x.dtype)


def softmax_in_double(x):
    return torch.softmax(x.double(), -1).nan_to_num(1 / x.shape[-1]).to(x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [softmax_by_logarithm, softmax_in_double])
def test_no_cell_of_a_correct_softmax_fails(function, dtype):
    assert [] == [(cell.law, cell.says) for cell in cells_of(function, "softmax", "softmax", dtype) if cell.bad]


def slopes_by_multiplication(*, heads):
    """Each slope from the one before, in single precision."""
    power = 2 ** int(np.log2(heads))
    below = np.cumprod(np.full(power, 2.0 ** (-8 / power), np.float32))
    above = np.cumprod(np.full(2 * power, 2.0 ** (-4 / power), np.float32))
    return np.concatenate([below, above[::2]])[:heads]


def slopes_of_one_sequence(*, heads):
    ratio = 2.0 ** (-8 / heads)
    return np.float32(ratio ** np.arange(1, heads + 1))


def bias_by_distance(*, heads, q_len, k_len):
    distance = np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None]
    return np.float32(slopes_by_multiplication(heads=heads)[:, None, None]) * np.float32(np.minimum(distance, 0))


@pytest.mark.parametrize("function", [slopes_by_multiplication, slopes_of_one_sequence, bias_by_distance])
def test_no_cell_of_correct_slopes_and_biases_fails(function):
    operator = "alibi_slopes" if "slopes" in function.__name__ else "alibi_bias"
    cells = cells_of(function, operator, operator, "float32", framework="numpy", dtypes=("float32",))
    assert [] == [(cell.law, cell.says) for cell in cells if cell.bad]
