"""Right, but different: codes in a cache, chunk by chunk, in ways none of which any law may accuse."""

from __future__ import annotations

from typing import Any

from .attention import online
from .cache import rows
from .quantized import QUERIES, declared_for_codes

CACHED = {"grouping": "block"}


@declared_for_codes("cached_attention", conventions=CACHED)
def control_cache_of_codes(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    k_scale: Any,
    v_scale: Any,
    mask: Any = None,
    window_left: int | None = None,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """Codes and scales are kept side by side, and multiplied where a chunk reads them."""
    import torch

    scales = [s.expand(*x.shape[:3], -1) for x, s in ((k, k_scale), (v, v_scale))]
    kept = [x[:, :, :0] for x in (k, v, *scales)]
    outs, start = [], 0
    for n in chunks:
        part = slice(start, start + n)
        kept = [
            torch.cat([old.float(), x[:, :, part].float()], 2) for old, x in zip(kept, (k, v, *scales), strict=True)
        ]
        keys, values = kept[0] * kept[2], kept[1] * kept[3]
        own = rows(mask, part, 0, q)
        out, _ = online(q[:, :, part], keys, values, mask=own, causal=True, window_left=window_left, scale=scale)
        outs.append(out)
        if start == 0 and beams is not None:
            kept = [x[list(beams)] for x in kept]
        start += n
    return torch.cat(outs, 2).to(q.dtype)


@declared_for_codes(
    "cached_attention", conventions=CACHED, requires=("size(k_scale, -1) == 1", "size(v_scale, -1) == 1")
)
def control_scores_of_cached_codes(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], k_scale: Any, v_scale: Any, scale: float | None = None
) -> Any:
    """The whole prompt of codes at once, with scales in scores and weights, the chunks being where it is cut."""
    import torch

    length, group = q.shape[2], q.shape[1] // k.shape[1]
    keys, values = (x.double().repeat_interleave(group, 1) for x in (k, v))
    by_token = [s.double().expand(-1, k.shape[1], length, 1).repeat_interleave(group, 1).mT for s in (k_scale, v_scale)]
    s = q.double() @ keys.mT * by_token[0] * (q.shape[3] ** -0.5 if scale is None else scale)
    s = s.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
    return torch.cat([*((torch.softmax(s, -1) * by_token[1]) @ values).split(list(chunks), 2)], 2).to(q.dtype)


@declared_for_codes(
    "cached_attention",
    conventions=CACHED,
    requires=("size(k_scale, -1) == 1", "size(v_scale, -1) == 1"),
    **QUERIES,
)
def control_cache_and_queries_of_codes(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    k_scale: Any,
    v_scale: Any,
    q_scale: Any = None,
    scale: float | None = None,
) -> Any:
    """Products of codes, with the scales of queries and keys in the scores, chunk by chunk."""
    import torch

    group, outs, start = q.shape[1] // k.shape[1], [], 0
    k_scale, v_scale = (
        s.expand(-1, k.shape[1], k.shape[2], 1).repeat_interleave(group, 1).mT for s in (k_scale, v_scale)
    )
    steps = torch.ones(1, 1, q.shape[2], 1) if q_scale is None else q_scale.expand(-1, -1, q.shape[2], 1)
    keys, values = (x.float().repeat_interleave(group, 1) for x in (k, v))
    for n in chunks:
        end = start + n
        s = (q[:, :, start:end].float() @ keys[:, :, :end].mT) * steps[:, :, start:end] * k_scale[..., :end]
        s = s * (q.shape[3] ** -0.5 if scale is None else scale)
        s = s.masked_fill(torch.ones(n, end, dtype=torch.bool).triu(start + 1), -torch.inf)
        outs.append((torch.softmax(s, -1) * v_scale[..., :end]) @ values[:, :, :end])
        start = end
    return torch.cat(outs, 2).bfloat16()
