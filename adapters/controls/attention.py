"""Right, but different: implementations that compute as kernels do, and that no law may accuse.

The audit runs them beside the known mistakes. All accumulate in single precision, like good kernels, and none shares
code with the reference.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {
    "causal_alignment": "bottom_right",
    "empty_row": "zeros",
    "masked_nonfinite": "ignored",
    "grouping": "block",
    "lse_base": "natural",
}


LEAST = -3e38
"""Below every score."""


def positions(q: Any, k: Any, causal: bool, window_left: int | None, window_right: int | None) -> Any:
    """Which keys a query reaches by position: [q_len, k_len]."""
    return _reached(q.shape[2], k.shape[2], causal, window_left, window_right).to(q.device)


@functools.lru_cache
def _reached(q_len: int, k_len: int, causal: bool, window_left: int | None, window_right: int | None) -> Any:
    import torch

    distance = torch.arange(q_len)[:, None] + (k_len - q_len) - torch.arange(k_len)
    reached = torch.ones(q_len, k_len, dtype=torch.bool)
    if causal:
        reached &= distance >= 0
    if window_left is not None:
        reached &= distance <= window_left
    if window_right is not None:
        reached &= distance >= -window_right
    return reached


def online(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    sink: Any = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    block: int = 16,
    backwards: bool = False,
    base_two: bool = False,
    narrow_weights: bool = False,
) -> Any:
    """Attention block by block of keys, with a running maximum: out and lse, both float32."""
    import torch

    batch, heads, q_len, head_dim = q.shape
    k_len, group = k.shape[2], heads // k.shape[1]
    scale = head_dim**-0.5 if scale is None else scale
    reached = positions(q, k, causal, window_left, window_right)
    hidden = ~(reached if mask is None else reached & mask)
    unread = hidden.all(-2)[..., None]  # a key that no query may see is not even loaded
    keys, values = k.float(), v.float()
    if group > 1:
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    keys, values = keys.masked_fill(unread, 0.0), values.masked_fill(unread, 0.0)
    scores = q.float() @ keys.mT * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.float()

    unit = 1.4426950408889634 if base_two else 1.0  # the binary logarithm of e
    scores = scores.masked_fill(hidden, -torch.inf) * unit
    exp = torch.exp2 if base_two else torch.exp
    top = torch.full((batch, heads, q_len, 1), -torch.inf)
    total = torch.zeros(batch, heads, q_len, 1)
    out = torch.zeros(batch, heads, q_len, v.shape[3])
    starts = list(range(0, k_len, block))
    for start in reversed(starts) if backwards else starts:
        s = scores[..., start : start + block]
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        safe = new.clamp_min(LEAST)  # minus infinity cannot be taken from itself
        p, old = exp(s - safe), exp(top - safe)
        total = total * old + p.sum(-1, keepdim=True)
        weights = p.to(q.dtype).float() if narrow_weights else p
        out, top = out * old + weights @ values[:, :, start : start + block], new
    if sink is not None:
        s = sink.float()[:, None, None] * unit
        new = torch.maximum(top, s)
        old = exp(top - new)
        out, total, top = out * old, total * old + exp(s - new), new
    lse = (top / unit + torch.log(total))[..., 0]
    return torch.where(total > 0, out / torch.where(total > 0, total, 1.0), 0.0), lse


Attention = Any


def _declared(
    function: Attention, dtypes: tuple[str, ...] = DTYPES, grade: Any = None, words: dict[str, str] | None = None
) -> Attention:
    return adapter("attention", dtypes=dtypes, conventions=CONVENTIONS | (words or {}), grade=grade)(function)


def control_blockwise(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    sink: Any = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Online softmax over blocks of 16 keys."""
    out, lse = online(
        q,
        k,
        v,
        mask=mask,
        bias=bias,
        sink=sink,
        causal=causal,
        window_left=window_left,
        window_right=window_right,
        scale=scale,
        softcap=softcap,
    )
    return out.to(q.dtype), lse if sink is None else None


def control_reversed(
    q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    """Online softmax over blocks of 32 keys, the last block first."""
    out, lse = online(q, k, v, mask=mask, bias=bias, causal=causal, scale=scale, block=32, backwards=True)
    return out.to(q.dtype), lse


def control_exp2(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    sink: Any = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Online softmax by powers of two."""
    out, lse = online(
        q, k, v, mask=mask, bias=bias, sink=sink, causal=causal, scale=scale, softcap=softcap, block=64, base_two=True
    )
    return out.to(q.dtype), lse if sink is None else None


def control_split_keys(q: Any, k: Any, v: Any, *, mask: Any = None, scale: float | None = None) -> Any:
    """Keys in two stretches, each by itself, merged by their logsumexps."""
    import torch

    half = k.shape[2] // 2
    mask = None if mask is None else mask.broadcast_to(*mask.shape[:-1], k.shape[2])
    parts = []
    for part in (slice(0, half), slice(half, None)):
        own = None if mask is None else mask[..., part]
        parts.append(online(q, k[:, :, part], v[:, :, part], mask=own, scale=scale, block=128))
    outs, lses = torch.stack([out for out, _ in parts]), torch.stack([lse for _, lse in parts])
    lse = torch.logsumexp(lses, 0)
    shares = torch.exp(lses - torch.where(lse == -torch.inf, 0.0, lse))
    return (shares[..., None] * outs).sum(0).to(q.dtype), lse


def control_narrow_weights(
    q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    """Weights rounded to the dtype of the inputs before they meet the values, as tensor cores take them."""
    out, lse = online(q, k, v, mask=mask, bias=bias, causal=causal, scale=scale, block=64, narrow_weights=True)
    return out.to(q.dtype), lse


def control_float64(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
) -> Any:
    """Everything in double precision, rounded once."""
    import torch

    group = q.shape[1] // k.shape[1]
    keys, values = (x.double().repeat_interleave(group, 1) for x in (k, v))
    reached = positions(q, k, causal, window_left, window_right)
    seen = (reached if mask is None else reached & mask).broadcast_to(*q.shape[:3], k.shape[2])
    unread = ~seen.any(2)[..., None]
    keys, values = keys.masked_fill(unread, 0.0), values.masked_fill(unread, 0.0)
    s = torch.einsum("bhqd,bhkd->bhqk", q.double(), keys) * (q.shape[3] ** -0.5 if scale is None else scale)
    s = s.masked_fill(~seen, -torch.inf) if bias is None else (s + bias.double()).masked_fill(~seen, -torch.inf)
    weights = torch.softmax(s, -1).nan_to_num(0.0)
    return torch.einsum("bhqk,bhkd->bhqd", weights, values).to(q.dtype)


def control_chunked_queries(
    q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """Queries seven at a time."""
    import torch

    q_len = q.shape[2]

    def rows(x: Any, part: slice) -> Any:
        return x if x is None or x.ndim < 2 or x.shape[-2] == 1 else x[..., part, :]

    parts = [slice(start, start + 7) for start in range(0, max(q_len, 1), 7)]
    outs = [online(q[:, :, p], k, v, mask=rows(mask, p), bias=rows(bias, p), scale=scale)[0] for p in parts]
    return torch.cat(outs, 2).to(q.dtype)


def control_filled(
    q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    """Hidden keys get the lowest number, so that a query from which the mask hides all averages them all."""
    import torch

    out, _ = online(q, k, v, mask=mask, bias=bias, causal=causal, scale=scale)
    reached = positions(q, k, causal, None, None)
    seeing = (reached if mask is None else reached & mask).broadcast_to(*q.shape[:3], k.shape[2]).any(-1, keepdim=True)
    mean = v.float().mean(2, keepdim=True).repeat_interleave(q.shape[1] // k.shape[1], 1)
    return torch.where(seeing, out, mean).to(q.dtype)


def control_filled_scores(
    q: Any, k: Any, v: Any, *, mask: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    """Scores of hidden keys are the lowest number, and all weights are rounded to the dtype before they meet values."""
    import torch

    keys, values = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q.float() @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    reached = positions(q, k, causal, None, None)
    s = s.masked_fill(~(reached if mask is None else reached & mask), torch.finfo(torch.float32).min)
    return (torch.softmax(s, -1).to(v.dtype).float() @ values).to(q.dtype)


for _control in (
    control_blockwise,
    control_reversed,
    control_exp2,
    control_split_keys,
    control_float64,
    control_chunked_queries,
):
    _declared(_control)
_declared(control_narrow_weights, ("bfloat16", "float16"))
_declared(control_filled, words={"empty_row": "mean_value", "empty_bias_row": "zero_row"})
_declared(
    control_filled_scores,
    ("bfloat16", "float16"),
    words={"empty_row": "mean_value", "masked_nonfinite": "propagates"},
)


@adapter("softmax", dtypes=DTYPES, conventions={"empty_row": "zeros"})
def control_softmax(x: Any) -> Any:
    """Powers of two, and a running sum over blocks of 16 entries."""
    import torch

    s = x.float() * 1.4426950408889634
    top = s.amax(-1, keepdim=True)
    p = torch.exp2(s - torch.where(top == -torch.inf, 0.0, top))
    total = sum((part.sum(-1, keepdim=True) for part in p.split(16, -1)), torch.zeros(*x.shape[:-1], 1))
    return (p / torch.where(total > 0, total, 1.0)).to(x.dtype)


@adapter("alibi_slopes", framework="numpy", conventions={"slopes": "interleaved"})
def control_slopes(*, heads: int) -> Any:
    """Each slope from the one before it, in single precision."""
    import numpy as np

    below = 1 << (heads.bit_length() - 1)

    def sequence(n: int) -> list[Any]:
        ratio = np.float32(2.0 ** (-8 / n))
        slopes = [ratio]
        for _ in range(n - 1):
            slopes.append(np.float32(slopes[-1] * ratio))
        return slopes

    return np.array(sequence(below) + sequence(2 * below)[::2][: heads - below], np.float32)


@adapter("alibi_bias", framework="numpy", conventions={"slopes": "interleaved"})
def control_absolute_bias(*, heads: int, q_len: int, k_len: int) -> Any:
    """The slope times the key's position, one row for every query."""
    import numpy as np

    row = control_slopes(heads=heads)[:, None, None] * np.arange(k_len, dtype=np.float32)
    return np.repeat(row, q_len, 1)
