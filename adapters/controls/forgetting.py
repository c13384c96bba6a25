"""Right, but different: attention that forgets by a bias, by tiles of keys and query by query, and its gradients."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import positions

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {"grouping": "block"}
TILE = 16


def fitting(q: Any, k: Any, v: Any, gate: Any) -> None:
    """Refuse arrays that do not fit."""
    if gate.shape != q.shape[:3] or k.shape[:3] != v.shape[:3] or k.shape[2:] != q.shape[2:]:
        raise ValueError("every token of a query head has a gate, and a key and a value")


def answering(q: Any, v: Any, d_out: Any) -> None:
    """Refuse gradients of outputs that these queries and values have not, in any layout."""
    if d_out.shape != (*q.shape[:-1], v.shape[-1]):
        raise ValueError("every token has the gradient of an output")


def by_bias(q: Any, k: Any, v: Any, gate: Any, seen: Any, scale: float | None) -> Any:
    """Differences of running sums, as a bias, in single precision; `seen` says which keys a query sees."""
    import torch

    group = q.shape[1] // k.shape[1]
    scores = q.float() @ k.float().repeat_interleave(group, 1).mT * (q.shape[3] ** -0.5 if scale is None else scale)
    passed = gate.cumsum(2)
    scores = scores + passed[..., None] - passed[:, :, None]
    return (scores.where(seen, -torch.inf).softmax(-1) @ v.float().repeat_interleave(group, 1)).to(q.dtype)


@adapter("forgetting_attention", dtypes=DTYPES, conventions=CONVENTIONS)
def control_forgetting_by_bias(
    q: Any, k: Any, v: Any, gate: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """All products at once, with a bias."""
    fitting(q, k, v, gate)
    return by_bias(q, k, v, gate, positions(q, k, True, window_left, None), scale)


@adapter("forgetting_attention", dtypes=DTYPES, conventions=CONVENTIONS)
def control_forgetting_by_tiles(
    q: Any, k: Any, v: Any, gate: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """Tiles of 16 keys from the last to the first, with a running maximum and factors in the dtype."""
    import torch

    fitting(q, k, v, gate)
    length, group = q.shape[2], q.shape[1] // k.shape[1]
    keys, values = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    factor, passed = q.shape[3] ** -0.5 if scale is None else scale, gate.cumsum(2)
    seen = positions(q, k, True, window_left, None)
    top = torch.full((*q.shape[:3], 1), -torch.inf)
    total, out = torch.zeros_like(top), torch.zeros(*q.shape[:3], v.shape[3])
    for start in reversed(range(0, length, TILE)):
        tile = slice(start, start + TILE)
        scores = q.float() @ keys[:, :, tile].mT * factor + passed[..., None] - passed[:, :, None, tile]
        scores = scores.where(seen[:, tile], -torch.inf)
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        shift = new.where(new > -torch.inf, 0)
        terms, fade = (scores - shift).exp(), (top - shift).exp()
        total = fade * total + terms.sum(-1, keepdim=True)
        out = fade * out + terms.to(q.dtype).float() @ values[:, :, tile]
        top = new
    return (out / total).to(q.dtype)


@adapter("forgetting_attention", dtypes=DTYPES, conventions=CONVENTIONS)
def control_forgetting_token_by_token(
    q: Any, k: Any, v: Any, gate: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """For each query, sums of gates from its own token backwards, which need no difference of running sums."""
    import torch

    fitting(q, k, v, gate)
    group, factor = q.shape[1] // k.shape[1], q.shape[3] ** -0.5 if scale is None else scale
    keys, values = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    rows = []
    for i in range(q.shape[2]):
        first = 0 if window_left is None else max(i - window_left, 0)
        later = gate[:, :, first + 1 : i + 1].flip(2).cumsum(2).flip(2)
        fading = torch.cat([later, torch.zeros_like(gate[:, :, :1])], 2)
        scores = (q[:, :, i : i + 1].float() @ keys[:, :, first : i + 1].mT)[:, :, 0] * factor + fading
        rows.append((scores.softmax(-1)[:, :, None] @ values[:, :, first : i + 1])[:, :, 0])
    return torch.stack(rows, 2).to(q.dtype)


@adapter("forgetting_attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS)
def control_forgetting_gradient_by_differentiation(
    q: Any, k: Any, v: Any, gate: Any, d_out: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """Automatic differentiation of the form with a bias."""
    fitting(q, k, v, gate)
    answering(q, v, d_out)

    def out(**inputs: Any) -> Any:
        return control_forgetting_by_bias(**inputs, scale=scale, window_left=window_left)

    return differentiated(out, d_out, q=q, k=k, v=v, gate=gate)


def rounded(x: Any, dtype: Any) -> Any:
    """As it is stored in a dtype, in single precision."""
    return x.to(dtype).float()


@adapter("forgetting_attention_gradient", dtypes=DTYPES, conventions=CONVENTIONS)
def control_forgetting_gradient_by_tiles(
    q: Any, k: Any, v: Any, gate: Any, d_out: Any, *, scale: float | None = None, window_left: int | None = None
) -> Any:
    """Tiles of 16 keys, weights from the logsumexp, and rows and columns summed apart, as kernels of it do."""
    import torch

    fitting(q, k, v, gate)
    answering(q, v, d_out)
    length, kv_heads, group, dtype = q.shape[2], k.shape[1], q.shape[1] // k.shape[1], q.dtype
    keys, values = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    queries, d_out = q.float(), d_out.float()
    factor, passed = q.shape[3] ** -0.5 if scale is None else scale, gate.cumsum(2)
    seen = positions(q, k, True, window_left, None)

    def scored(tile: slice) -> Any:
        scores = queries @ keys[:, :, tile].mT * factor + passed[..., None] - passed[:, :, None, tile]
        return scores.where(seen[:, tile], -torch.inf)

    total = scored(slice(None)).logsumexp(-1, keepdim=True)
    out = rounded((scored(slice(None)) - total).exp() @ values, dtype)
    delta = (out * d_out).sum(-1, keepdim=True)
    d_q, rows, d_keys, d_values, columns = torch.zeros_like(queries), torch.zeros_like(gate), [], [], []
    for start in range(0, length, TILE):
        tile = slice(start, start + TILE)
        weights = (scored(tile) - total).exp()
        d_scores = weights * (d_out @ values[:, :, tile].mT - delta)
        rows, flowing = rows + d_scores.sum(-1), rounded(d_scores, dtype)
        columns.append(d_scores.sum(2))
        d_q = d_q + flowing @ keys[:, :, tile] * factor
        d_keys.append(flowing.mT @ queries * factor)
        d_values.append(rounded(weights, dtype).mT @ d_out)
    d_k, d_v = (torch.cat(parts, 2) for parts in (d_keys, d_values))
    d_k, d_v = (x if group == 1 else rounded(x, dtype).unflatten(1, (kv_heads, group)).sum(2) for x in (d_k, d_v))
    d_gate = (rows - torch.cat(columns, 2)).flip(2).cumsum(2).flip(2)
    return {"d_q": d_q.to(dtype), "d_k": d_k.to(dtype), "d_v": d_v.to(dtype), "d_gate": d_gate}
