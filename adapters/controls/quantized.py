"""Right, but different: codes with scales as kernels read them, in ways none of which any law may accuse.

Scales have the axes of the codes, each of full length or 1; a block of tokens shares one where `scale_block` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from ..torch.packed import cumulative
from .attention import CONVENTIONS, DTYPES, online
from .cache import rows
from .packed import batched

FORMATS = {"kv_dtype": ("e4m3fn", "e5m2", "int8")}


def _declared(operator: str, **further: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter(operator, **{"dtypes": DTYPES, "conventions": CONVENTIONS, "limits": FORMATS, **further})


def written_out(scale: Any, tokens: int, block: int | None) -> Any:
    """A scale with an entry for each token where it has one for each block."""
    if block is None or scale.shape[-2] == 1:
        return scale
    return scale.repeat_interleave(block, -2)[..., :tokens, :]


@_declared("attention")
def control_codes_in_the_dtype_of_queries(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    mask: Any = None,
    bias: Any = None,
    sink: Any = None,
    scale_block: int | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Codes times scales, rounded to the dtype of the queries, as factors of products are."""
    k, v = ((x.float() * written_out(s, x.shape[2], scale_block)).to(q.dtype) for x, s in ((k, k_scale), (v, v_scale)))
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
    return out.to(q.dtype) if sink is not None else {"out": out.to(q.dtype), "lse": lse}


@_declared(
    "attention",
    requires=(
        "size(k_scale, -1) == 1 or size(k_scale, -2) == 1",
        "size(v_scale, -1) == 1 or size(v_scale, -2) == 1",
    ),
)
def control_scales_apart(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    mask: Any = None,
    scale_block: int | None = None,
    scale: float | None = None,
) -> Any:
    """Products of codes, with the scales of channels in queries and output, those of tokens in scores and weights."""
    import torch

    factor = q.shape[3] ** -0.5 if scale is None else scale
    k_scale, v_scale = (written_out(s, k.shape[2], scale_block) for s in (k_scale, v_scale))
    wide = [x.expand(-1, k.shape[1], -1, -1).repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k_scale, v_scale)]
    keys, values = (x.float().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    k_tokens, v_tokens = (x.mT if x.shape[-2] > 1 else torch.ones(1) for x in wide)
    k_channels, v_channels = (x if x.shape[-2] == 1 else torch.ones(1) for x in wide)
    s = (q.float() * k_channels * factor) @ keys.mT * k_tokens
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    p = torch.softmax(s, -1).nan_to_num(0.0) * v_tokens
    return (p @ values * v_channels).to(q.dtype)


@_declared("attention", framework="numpy", dtypes=("float64", "float32"), limits=FORMATS)
def control_codes_by_table(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    scale_block: int | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Codes as bytes that are looked up in a table of 256 numbers, and one softmax in double precision."""
    import numpy as np

    def read(codes: Any, scales: Any) -> Any:
        table = np.arange(256, dtype=np.uint8).view(codes.dtype).astype(np.float64)
        numbers = table[np.ascontiguousarray(codes).view(np.uint8)]
        tokens = np.arange(codes.shape[2]) // (scale_block or 1)
        return numbers * np.asarray(scales, np.float64)[:, :, np.minimum(tokens, scales.shape[2] - 1)]

    group, ahead = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    keys, values = (np.repeat(read(*x), group, 1) for x in ((k, k_scale), (v, v_scale)))
    s = np.float64(q) @ keys.swapaxes(-1, -2) * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:]), ahead) > 0, s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = p.sum(-1, keepdims=True)
    return (p @ values / np.where(total > 0, total, 1)).astype(q.dtype)


@_declared("attention", dtypes=("bfloat16",), limits={**FORMATS, "q_dtype": ("q_int8", "q_e4m3fn")})
def control_codes_throughout(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    q_scale: Any = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Queries are codes as well, and integers are multiplied as integers where no channel has a scale of its own."""
    import torch

    factor, group = q.shape[3] ** -0.5 if scale is None else scale, q.shape[1] // k.shape[1]
    k_scale, v_scale = (x.expand(-1, k.shape[1], -1, -1).repeat_interleave(group, 1) for x in (k_scale, v_scale))
    keys, values = (x.repeat_interleave(group, 1) for x in (k, v))
    whole = q.dtype == keys.dtype == torch.int8 and k_scale.shape[3] == 1
    s = q.int() @ keys.int().mT * k_scale.mT if whole else q.float() @ (keys.float() * k_scale).mT
    s = s * factor * (1.0 if q_scale is None else q_scale)
    if causal:
        row = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        s = s.masked_fill(torch.arange(k.shape[2]) > row, -torch.inf)
    return (torch.softmax(s, -1).nan_to_num(0.0) @ (values.float() * v_scale)).bfloat16()


PAGED = {"empty_row": "zeros", "masked_nonfinite": "ignored", "unused_entries": "unread", "grouping": "block"}


@_declared("paged_attention", conventions=PAGED)
def control_pages_of_codes(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """The tokens of each item in one piece, each with its scale."""
    import torch

    outs = []
    for item, count in enumerate(k_lens.tolist()):
        own = table[item, : -(-count // key_pages.shape[1])]
        k, v = (
            (x[own].float() * (s[own] if s.shape[0] > 1 else s)).flatten(0, 1)[None, :count].transpose(1, 2)
            for x, s in ((key_pages, k_scale), (value_pages, v_scale))
        )
        one = q[item : item + 1].transpose(1, 2)
        out, _ = online(one, k, v, causal=True, window_left=window_left, scale=scale, softcap=softcap, base_two=True)
        outs.append(out.transpose(1, 2))
    return torch.cat(outs).to(q.dtype)


@_declared("paged_attention", conventions=PAGED, requires=("size(k_scale, 3) == 1", "size(v_scale, 3) == 1"))
def control_scales_of_tokens(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    scale: float | None = None,
) -> Any:
    """Products of codes, token by token: scores and weights are scaled as the page of the token says."""
    import torch

    (batch, q_len, heads, head_dim), (_, page_size, kv_heads, _) = q.shape, key_pages.shape
    out = torch.zeros(batch, q_len, heads, value_pages.shape[3])
    for item, row, head in torch.cartesian_prod(*map(torch.arange, (batch, q_len, heads))).tolist():
        group, seen = head // (heads // kv_heads), int(k_lens[item]) - q_len + row + 1
        if seen <= 0:
            continue
        place = torch.arange(seen)
        page, place = table[item, place // page_size].long(), place % page_size
        k, v = (x[page, place, group].float() for x in (key_pages, value_pages))
        factors = (
            s[page.clamp_max(s.shape[0] - 1), place.clamp_max(s.shape[1] - 1), min(group, s.shape[2] - 1), 0]
            for s in (k_scale, v_scale)
        )
        keys, values = factors
        s = k @ q[item, row, head].float() * (head_dim**-0.5 if scale is None else scale) * keys
        out[item, row, head] = (torch.softmax(s, 0) * values) @ v
    return out.to(q.dtype)


QUERIES = {"dtypes": ("bfloat16",), "limits": {**FORMATS, "q_dtype": ("q_e4m3fn", "q_int8")}}


@_declared("paged_attention", conventions=PAGED, **QUERIES)
def control_pages_and_queries_of_codes(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    q_scale: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Queries are read with their scale before anything else."""
    queries = q.float() if q_scale is None else q.float() * q_scale
    return control_pages_of_codes(
        queries,
        key_pages,
        value_pages,
        table,
        k_lens,
        k_scale=k_scale,
        v_scale=v_scale,
        scale=scale,
        window_left=window_left,
        softcap=softcap,
    ).bfloat16()


@_declared("paged_attention", conventions=PAGED, **QUERIES)
def control_pages_of_codes_for_codes(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    q_scale: Any = None,
    scale: float | None = None,
) -> Any:
    """Queries are codes as well, and their scale goes to the scores, behind the products of codes."""
    import torch

    (batch, q_len, heads, head_dim), (_, page_size, kv_heads, _) = q.shape, key_pages.shape
    q_scales = torch.ones(1) if q_scale is None else q_scale
    q_scales = q_scales.broadcast_to(batch, q_len, heads, 1).transpose(1, 2) * (
        head_dim**-0.5 if scale is None else scale
    )
    outs = []
    for item, count in enumerate(k_lens.tolist()):
        own = table[item, : -(-count // page_size)]
        k, v = (
            (x[own].float() * (s[own] if s.shape[0] > 1 else s))
            .flatten(0, 1)[:count]
            .repeat_interleave(heads // kv_heads, 1)
            for x, s in ((key_pages, k_scale), (value_pages, v_scale))
        )
        s = torch.einsum("qhd,khd->hqk", q[item].float(), k) * q_scales[item]
        later = torch.arange(count) > torch.arange(q_len)[:, None] + count - q_len
        p = torch.softmax(s.masked_fill(later, -torch.inf), -1).nan_to_num(0.0)
        outs.append(torch.einsum("hqk,khd->qhd", p, v))
    return torch.stack(outs).bfloat16()


CACHED = {"grouping": "block"}


@_declared("cached_attention", conventions=CACHED)
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


@_declared("cached_attention", conventions=CACHED, requires=("size(k_scale, -1) == 1", "size(v_scale, -1) == 1"))
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


@_declared(
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


@_declared("packed_attention")
def control_items_of_codes(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Item by item, each with its scales."""
    out = q.new_zeros((q.shape[0], q.shape[1], v.shape[2]))
    lse = q.new_full(q.shape[1::-1], -float("inf"), dtype=k_scale.dtype)
    q_at, k_at = cumulative(q_lens).tolist(), cumulative(k_lens).tolist()
    for item in range(len(q_lens)):
        own, past = slice(*q_at[item : item + 2]), slice(*k_at[item : item + 2])
        keys, values = (x[past].float() * s[min(item, len(s) - 1)] for x, s in ((k, k_scale), (v, v_scale)))
        found, total = online(
            *(batched(x) for x in (q[own], keys, values)),
            causal=causal,
            window_left=window_left,
            window_right=window_right,
            scale=scale,
            softcap=softcap,
        )
        out[own], lse[:, own] = found[0].transpose(0, 1).to(q.dtype), total[0]
    return {"out": out, "lse": lse}


@_declared("packed_attention", dtypes=("bfloat16",), limits={**FORMATS, "q_dtype": ("q_int8", "q_e4m3fn")})
def control_blocks_of_codes(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    q_scale: Any = None,
    scale: float | None = None,
) -> Any:
    """One softmax over the whole pack, of which other items are hidden, with the scales of items written out."""
    import torch

    q_item, k_item = (torch.repeat_interleave(torch.arange(len(lens)), lens) for lens in (q_lens, k_lens))
    group = q.shape[1] // k.shape[1]
    queries = q.float() if q_scale is None else q.float() * q_scale[q_item.clamp_max(len(q_scale) - 1)]
    keys, values = (
        (x.float() * s[k_item.clamp_max(len(s) - 1)]).repeat_interleave(group, 1)
        for x, s in ((k, k_scale), (v, v_scale))
    )
    s = torch.einsum("qhd,khd->hqk", queries, keys) * (q.shape[2] ** -0.5 if scale is None else scale)
    p = torch.softmax(s.masked_fill(q_item[:, None] != k_item, -torch.inf), -1).nan_to_num(0.0)
    return torch.einsum("hqk,khd->qhd", p, values).bfloat16()
