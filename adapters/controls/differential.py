"""Right, but different: differential attention, in ways none of which a law may accuse."""

from __future__ import annotations

import math
from typing import Any

from .. import adapter
from .attention import DTYPES


def fitting(q: Any, k: Any, v: Any) -> int:
    """How many heads read a key head, of arrays that belong to each other."""
    if k.shape[3] != q.shape[3] or k.shape[2] != v.shape[2] or k.shape[1] != 2 * v.shape[1] or q.shape[2] > k.shape[2]:
        raise ValueError("a value for each pair of keys, and queries as wide as keys")
    return int(q.shape[1] // k.shape[1])


def neighbours(x: Any) -> Any:
    """Pairs of neighbouring heads: [batch, heads, 2, length, dim]."""
    return x.unflatten(1, (-1, 2))


def halves(x: Any) -> Any:
    """Pairs of a head of each half: [batch, heads, 2, length, dim]."""
    return x.unflatten(1, (2, -1)).transpose(1, 2)


def hidden(length: int, keys: int) -> Any:
    """What is behind each query: booleans [length, keys]."""
    import torch

    return torch.ones(length, keys, dtype=torch.bool).triu(keys - length + 1)


def start_of(depth: int) -> float:
    """lambda_init of a layer behind `depth` others."""
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


@adapter("differential_attention", dtypes=DTYPES, conventions={"head_pairs": "neighbours"})
def control_differential_weights(
    q: Any,
    k: Any,
    v: Any,
    lambda_q1: Any,
    lambda_k1: Any,
    lambda_q2: Any,
    lambda_k2: Any,
    weight: Any = None,
    *,
    depth: int = 0,
    causal: bool = False,
    eps: float = 1e-5,
) -> Any:
    """The difference of weights, in double precision."""
    readers = fitting(q, k, v)
    start = start_of(depth)
    first, second = (lambda_q1.double() @ lambda_k1.double()).exp(), (lambda_q2.double() @ lambda_k2.double()).exp()
    scores = neighbours(q).double() @ neighbours(k).double().repeat_interleave(readers, 1).mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(hidden(*scores.shape[-2:]), -math.inf)
    a, b = scores.softmax(-1).unbind(2)
    left = (a - (first - second + start) * b) @ v.double().repeat_interleave(readers, 1)
    y = left * ((1 - start) * (left.square().mean(-1, keepdim=True) + eps).rsqrt())
    return (y if weight is None else y * weight.double()).to(q.dtype)


@adapter(
    "differential_attention",
    dtypes=("float32", "bfloat16"),
    grade={"bfloat16": "bf16_naive"},
    conventions={"head_pairs": "halves"},
)
def control_differential_narrow(
    q: Any,
    k: Any,
    v: Any,
    lambda_q1: Any,
    lambda_k1: Any,
    lambda_q2: Any,
    lambda_k2: Any,
    weight: Any = None,
    *,
    depth: int = 0,
    causal: bool = False,
    eps: float = 1e-5,
) -> Any:
    """Two calls of torch's attention, and everything after them in the dtype, lambda included."""
    import torch

    readers = fitting(q, k, v)
    start = start_of(depth)
    mask = ~hidden(q.shape[2], k.shape[2]) if causal else None
    attend = torch.nn.functional.scaled_dot_product_attention
    values = v.repeat_interleave(readers, 1)
    pairs = zip(q.chunk(2, 1), k.repeat_interleave(readers, 1).chunk(2, 1), strict=True)
    first, second = (attend(query, key, values, mask) for query, key in pairs)
    terms = [
        (x * y).sum(dtype=torch.float32).exp().to(q.dtype) for x, y in ((lambda_q1, lambda_k1), (lambda_q2, lambda_k2))
    ]
    left = first - (terms[0] - terms[1] + start) * second
    y = torch.nn.functional.rms_norm(left, left.shape[-1:], weight, eps)
    return (1 - start) * y


@adapter(
    "differential_attention",
    layout="bshd",
    framework="numpy",
    dtypes=("float32",),
    conventions={"head_pairs": "halves"},
)
def control_differential_by_heads(
    q: Any,
    k: Any,
    v: Any,
    lambda_q1: Any,
    lambda_k1: Any,
    lambda_q2: Any,
    lambda_k2: Any,
    weight: Any = None,
    *,
    depth: int = 0,
    causal: bool = False,
    eps: float = 1e-5,
) -> Any:
    """Head by head and query by query, of keys that it sees alone, with pairs in two halves."""
    import numpy as np

    heads, groups = q.shape[2] // 2, v.shape[2]
    if k.shape[:3] != (*v.shape[:2], 2 * groups) or k.shape[3] != q.shape[3] or q.shape[1] > k.shape[1]:
        raise ValueError("a value for each pair of keys, and queries as wide as keys")
    start = start_of(depth)
    wide = [x.astype(np.float64) for x in (q, k, v, lambda_q1, lambda_k1, lambda_q2, lambda_k2)]
    factor = np.exp(wide[3] @ wide[4]) - np.exp(wide[5] @ wide[6]) + start
    out = np.empty((*q.shape[:2], heads, v.shape[3]))
    for b, i, h in np.ndindex(out.shape[:3]):
        g, last = h * groups // heads, k.shape[1] - q.shape[1] + i + 1 if causal else k.shape[1]
        maps = []
        for half in (0, 1):
            scores = wide[1][b, :last, half * groups + g] @ wide[0][b, i, half * heads + h] * q.shape[3] ** -0.5
            weights = np.exp(scores - scores.max())
            maps.append(weights @ wide[2][b, :last, g] / weights.sum())
        left = maps[0] - factor * maps[1]
        out[b, i, h] = left / np.sqrt((left @ left) / left.size + eps) * (1 - start)
    return (out if weight is None else out * weight).astype(np.float32)
