"""Right, but different: latent attention in both forms and over pages, none of which a law may accuse."""

from __future__ import annotations

import math
from typing import Any

from .. import adapter
from .attention import LEAST, online

DTYPES = ("float32", "bfloat16", "float16")
NATURAL, TWO = {"lse_base": "natural"}, {"lse_base": "two"}

PAGES = {"empty_row": "zeros", "masked_nonfinite": "ignored", "unused_entries": "unread", "lse_base": "natural"}


def turned(x: Any, first: int, base: float | None, interleaved: bool) -> Any:
    """A rope part [..., length, rope_dim] of tokens from one on, in single precision; unturned without a base."""
    import torch

    if base is None:
        return x.float()
    pairs = x.shape[-1] // 2
    angles = (first + torch.arange(x.shape[-2], dtype=torch.float64))[:, None] * base ** (-torch.arange(pairs) / pairs)
    turn = torch.polar(torch.ones_like(angles), angles)
    parts = x.double().unflatten(-1, (pairs, 2) if interleaved else (2, pairs))
    parts = parts if interleaved else parts.mT
    found = torch.view_as_real(torch.view_as_complex(parts.contiguous()) * turn)
    return (found if interleaved else found.mT).flatten(-2).float()


def checked(q_nope: Any, q_rope: Any, latent: Any, k_rope: Any, w_uk: Any) -> None:
    """Refuse inputs that do not belong together."""
    if k_rope.shape[:2] != latent.shape[:2] or q_rope.shape[3] != k_rope.shape[2] or w_uk.shape[1] != latent.shape[2]:
        raise ValueError("latents, rope parts and matrices do not belong together")
    if not 0 < latent.shape[1] >= q_nope.shape[2]:
        raise ValueError("queries are those of the last tokens")


@adapter("latent_attention", dtypes=DTYPES, conventions=NATURAL)
def control_latents_absorbed(
    q_nope: Any,
    q_rope: Any,
    latent: Any,
    k_rope: Any,
    w_uk: Any,
    w_uv: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    base: float | None = None,
    interleaved: bool = False,
) -> Any:
    """Absorbed, with an online softmax over blocks of 16 rows; what enters a product is in the dtype of the inputs."""
    import torch

    checked(q_nope, q_rope, latent, k_rope, w_uk)
    dtype, before = latent.dtype, latent.shape[1] - q_nope.shape[2]
    factor = (q_nope.shape[3] + q_rope.shape[3]) ** -0.5 if scale is None else scale
    absorbed = (q_nope.float() @ w_uk.float().mT).to(dtype)
    queries = torch.cat([absorbed, turned(q_rope, before, base, interleaved).to(dtype)], -1)
    rows = torch.cat([latent, turned(k_rope, 0, base, interleaved).to(dtype)], -1)[:, None]
    out, lse = online(queries, rows, latent[:, None], causal=causal, scale=factor)
    return {"out": (out.to(dtype).float() @ w_uv.float()).to(dtype), "lse": lse}


@adapter("latent_attention", dtypes=DTYPES, conventions=TWO)
def control_latents_expanded(
    q_nope: Any,
    q_rope: Any,
    latent: Any,
    k_rope: Any,
    w_uk: Any,
    w_uv: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    base: float | None = None,
    interleaved: bool = False,
) -> Any:
    """Keys and values of every head, kept in the dtype of the inputs, and powers of two over all tokens at once."""
    import torch

    checked(q_nope, q_rope, latent, k_rope, w_uk)
    dtype, before = latent.dtype, latent.shape[1] - q_nope.shape[2]
    factor = (q_nope.shape[3] + q_rope.shape[3]) ** -0.5 if scale is None else scale
    k, v = ((latent.float()[:, None] @ w.float()).to(dtype).float() for w in (w_uk, w_uv))
    places = turned(k_rope, 0, base, interleaved).to(dtype).float()[:, None]
    s = q_nope.float() @ k.mT + turned(q_rope, before, base, interleaved).to(dtype).float() @ places.mT
    s = s * (factor / math.log(2))
    if causal:
        s = s.masked_fill(torch.arange(s.shape[3]) > before + torch.arange(s.shape[2])[:, None], -torch.inf)
    top = s.amax(-1, keepdim=True)
    p = torch.exp2(s - top)
    total = p.sum(-1, keepdim=True)
    return {"out": (p @ v / total).to(dtype), "lse": (top + total.log2())[..., 0]}


def together(q: Any, rows: Any, table: Any, k_lens: Any) -> None:
    """Refuse pages, tables and lengths that do not belong together."""
    if q.shape[3] != rows.shape[2] or not len(q) == len(table) == len(k_lens):
        raise ValueError("queries are as wide as rows, and every item has a table and a length")


@adapter("latent_pages", dtypes=DTYPES, conventions=PAGES)
def control_rows_gathered(
    q: Any, rows: Any, table: Any, k_lens: Any, *, value_dim: int, scale: float | None = None, sink: Any = None
) -> Any:
    """The rows of every item in one piece, and an online softmax over blocks of 16 of them."""
    import torch

    together(q, rows, table, k_lens)
    outs, lses = [q.new_empty(0, q.shape[1], q.shape[2], value_dim)], [torch.empty(0, q.shape[2], q.shape[1])]
    for item, count in enumerate(k_lens.tolist()):
        held = rows[table[item, : -(-count // rows.shape[1])]].flatten(0, 1)[None, None, :count]
        one = q[item : item + 1].transpose(1, 2)
        out, lse = online(one, held, held[..., :value_dim], causal=True, scale=scale, sink=sink)
        outs.append(out.transpose(1, 2).to(q.dtype))
        lses.append(lse)
    return {"out": torch.cat(outs), "lse": torch.cat(lses)}


@adapter("latent_pages", dtypes=DTYPES, conventions=PAGES | TWO)
def control_rows_page_by_page(
    q: Any, rows: Any, table: Any, k_lens: Any, *, value_dim: int, scale: float | None = None, sink: Any = None
) -> Any:
    """A page of all items at a time, the last page first, by powers of two, with a running maximum."""
    import torch

    together(q, rows, table, k_lens)
    (batch, q_len, heads, width), page_size = q.shape, rows.shape[1]
    factor = (width**-0.5 if scale is None else scale) / math.log(2)
    queries, row = q.float().transpose(1, 2), k_lens[:, None] - q_len + torch.arange(q_len)
    top = torch.full((batch, heads, q_len, 1), -torch.inf)
    total, out = torch.zeros_like(top), torch.zeros(batch, heads, q_len, value_dim)
    for number in reversed(range(table.shape[1])):
        slot = number * page_size + torch.arange(page_size)
        held = rows[table[:, number].clamp_min(0)].float().masked_fill((slot >= k_lens[:, None])[..., None], 0.0)
        s = (queries @ held[:, None].mT * factor).masked_fill((slot > row[..., None])[:, None], -torch.inf)
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        p, old = torch.exp2(s - new.clamp_min(LEAST)), torch.exp2(top - new.clamp_min(LEAST))
        top, total = new, total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ held[:, None, :, :value_dim]
    last = total if sink is None else total + torch.exp2(sink.float()[:, None, None] / math.log(2) - top)
    mixed = torch.where(total > 0, out / last, 0.0).transpose(1, 2).to(q.dtype)
    return {"out": mixed, "lse": (top + total.log2())[..., 0]}
