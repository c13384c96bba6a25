"""Right, but different: log-linear attention with states that are merged, and level by level."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def prepared(q: Any, k: Any, v: Any, gate: Any, level_scales: Any, scale: float | None) -> tuple[Any, ...]:
    """Everything in single precision, scaled, and with a head of keys for each of values."""
    if v.shape[2] != k.shape[2]:
        raise ValueError("every key has a value")
    group, factor = v.shape[1] // k.shape[1], k.shape[3] ** -0.5 if scale is None else scale
    q, k = (x.float().repeat_interleave(group, 1) for x in (q, k))
    return factor * q, k, v.float(), gate.float(), level_scales.float()


@adapter("log_linear_attention", dtypes=DTYPES)
def control_log_linear_by_states(
    q: Any, k: Any, v: Any, gate: Any, level_scales: Any, *, scale: float | None = None
) -> Any:
    """Token by token, with a state for each bit of its number and one for itself."""
    import torch

    dtype, levels = v.dtype, level_scales.shape[3]
    q, k, v, gate, level_scales = prepared(q, k, v, gate, level_scales, scale)
    states, rows = torch.zeros(levels + 1, *v.shape[:2], k.shape[3], v.shape[3]), []
    for t in range(v.shape[2]):
        states = states * gate[:, :, t, None, None].exp()
        low = (t & -t).bit_length()  # of the lowest bit of t: levels up to it are merged, at the first token none
        merged = states[:low].sum(0, keepdim=True) + states[low : low + 1] if t else states[:1]
        states = torch.cat((torch.zeros_like(states[:low]), merged, states[low + 1 :]))
        states[0] = k[:, :, t, :, None] * v[:, :, t, None]
        read = (q[:, :, t, None] @ states[:levels])[..., 0, :]  # [levels, batch, heads, value_dim]
        rows.append((level_scales[:, :, t].permute(2, 0, 1)[..., None] * read).sum(0))
    return (torch.stack(rows, 2) if rows else v).to(dtype)


@adapter("log_linear_attention", dtypes=DTYPES)
def control_log_linear_by_levels(
    q: Any, k: Any, v: Any, gate: Any, level_scales: Any, *, scale: float | None = None
) -> Any:
    """The products of all tokens with all tokens, under a mask for each level."""
    import torch

    dtype = v.dtype
    q, k, v, gate, level_scales = prepared(q, k, v, gate, level_scales, scale)
    place, total = torch.arange(v.shape[2]), gate.cumsum(2)
    products = q @ k.mT * (total[..., :, None] - total[..., None, :]).clamp(max=0).exp()
    out = level_scales[..., :1] * (products * torch.eye(len(place))) @ v
    for level in range(1, level_scales.shape[3]):
        size = 2 ** (level - 1)
        odd, start = place // size % 2 == 1, place - place % size
        kept = odd[:, None] & (place < start[:, None]) & (place >= start[:, None] - size)
        out += level_scales[..., level, None] * ((products * kept) @ v)
    return out.to(dtype)
