"""Right, but different: codes in pages, with the scales of pages, read in ways none of which any law may accuse."""

from __future__ import annotations

from typing import Any

from .attention import online
from .quantized import QUERIES, declared_for_codes

PAGED = {"empty_row": "zeros", "masked_nonfinite": "ignored", "unused_entries": "unread", "grouping": "block"}


@declared_for_codes("paged_attention", conventions=PAGED)
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


@declared_for_codes("paged_attention", conventions=PAGED, requires=("size(k_scale, 3) == 1", "size(v_scale, 3) == 1"))
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


@declared_for_codes("paged_attention", conventions=PAGED, **QUERIES)
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


@declared_for_codes("paged_attention", conventions=PAGED, **QUERIES)
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
