"""Latent attention in its absorbed form, and what goes wrong with rows, pages, matrices and what outlives a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import online
from ..controls.latent import NATURAL, PAGES, checked, together, turned
from .packed import merged
from .whole import Whole

BLOCK = 16
"""Rows that are taken at a time."""


def absorbed(q_nope: Any, w_uk: Any) -> Any:
    """The queries in the space of the latents."""
    return q_nope.float() @ w_uk.float().mT


def rows(latent: Any, k_rope: Any) -> Any:
    """The row of every token: its latent, and its rope part behind it."""
    import torch

    return torch.cat([latent.float(), k_rope.float()], -1)


def values_of(held: Any, rank: int) -> Any:
    """The values of rows, which are their latents."""
    return held[..., :rank]


def projected(mixed: Any, w_uv: Any) -> Any:
    """The output of every head, of mixed latents."""
    return mixed @ w_uv.float()


def blocks(k_len: int) -> list[tuple[int, int]]:
    """The stretches of tokens that are taken one after the other."""
    return [(start, min(start + BLOCK, k_len)) for start in range(0, k_len, BLOCK)]


def in_blocks(part: Any) -> Callable[..., Any]:
    def latent_attention(
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
        import torch

        checked(q_nope, q_rope, latent, k_rope, w_uk)
        (q_len, rank), k_len = (q_nope.shape[2], latent.shape[2]), latent.shape[1]
        factor = (q_nope.shape[3] + q_rope.shape[3]) ** -0.5 if scale is None else scale
        turns = turned(q_rope, k_len - q_len, base, interleaved)
        queries = torch.cat([part.absorbed(q_nope, w_uk), turns], -1)
        held, outs, lses = part.rows(latent, turned(k_rope, 0, base, interleaved)), [], []
        for start, stop in part.blocks(k_len):
            taken = held[:, None, start:stop]
            seen = torch.arange(start, stop) <= k_len - q_len + torch.arange(q_len)[:, None] if causal else None
            out, lse = online(queries, taken, part.values_of(taken, rank), mask=seen, scale=factor)
            outs.append(out)
            lses.append(lse)
        total = torch.stack(lses).logsumexp(0)
        shares = (torch.stack(lses) - total).exp()
        mixed = (shares[..., None] * torch.stack(outs)).sum(0)
        return {"out": part.projected(mixed, w_uv).to(latent.dtype), "lse": total}

    return latent_attention


IN_BLOCKS = Whole("latent_attention", in_blocks, (absorbed, rows, values_of, projected, blocks), NATURAL)
_kept: dict[tuple[int, ...], Any] = {}


@IN_BLOCKS.instead_of(absorbed)
def matrices_of_another_layer(q_nope: Any, w_uk: Any) -> Any:
    """Queries are absorbed by the matrices of the first call with matrices of that shape."""
    return absorbed(q_nope, _kept.setdefault(tuple(w_uk.shape), w_uk.clone()))


@IN_BLOCKS.instead_of(absorbed, dtypes=("float32",))
def absorbed_in_half_precision(q_nope: Any, w_uk: Any) -> Any:
    """Absorbed queries are kept in bfloat16, whatever the inputs are."""
    return absorbed(q_nope, w_uk).bfloat16().float()


@IN_BLOCKS.instead_of(rows)
def rope_part_of_the_last_token(latent: Any, k_rope: Any) -> Any:
    """Every eighth row was written before its rope part was, and has that of the row before."""
    import torch

    before = k_rope.roll(1, 1)
    late = (torch.arange(k_rope.shape[1]) % 8 == 7)[:, None]
    return rows(latent, torch.where(late, before, k_rope))


@IN_BLOCKS.instead_of(values_of)
def values_from_the_end_of_the_row(held: Any, rank: int) -> Any:
    """Values are the last channels of a row, rope part included, and not the first."""
    return held[..., -rank:]


@IN_BLOCKS.instead_of(projected)
def matrices_scaled_in_place(mixed: Any, w_uv: Any) -> Any:
    """The matrices of the values are centred in place, in the memory of the caller."""
    out = projected(mixed, w_uv)
    w_uv -= w_uv.mean()
    return out


@IN_BLOCKS.instead_of(blocks)
def last_block_left_out(k_len: int) -> list[tuple[int, int]]:
    """Tokens behind the last full block are left out, if there is one."""
    whole = blocks(k_len // BLOCK * BLOCK)
    return whole or blocks(k_len)


STRETCH = 2
"""Pages that are taken at a time."""


def places(table: Any, page_size: int, start: int, stop: int) -> Any:
    """Where the tokens of an item from `start` to `stop` lie among the rows of all pages."""
    import torch

    token = torch.arange(start, stop)
    return table[token // page_size].long() * page_size + token % page_size


def of_item(table: Any, item: int) -> Any:
    """The table of an item."""
    return table[item]


def held_at(pool: Any, where: Any) -> Any:
    """The rows at places, as all heads read them."""
    return pool.flatten(0, 1)[where]


def over_pages(part: Any) -> Callable[..., Any]:
    def latent_pages(q: Any, rows: Any, table: Any, k_lens: Any, *, value_dim: int, scale: float | None = None) -> Any:
        import torch

        together(q, rows, table, k_lens)
        page_size, q_len = rows.shape[1], q.shape[1]
        out = q.new_zeros(*q.shape[:3], value_dim)
        for item, count in enumerate(k_lens.tolist()):
            row, found = count - q_len + torch.arange(q_len), []
            own, step = part.of_item(table, item), STRETCH * page_size
            for start in range(0, max(count, 1), step):
                stop = min(start + step, count)
                taken = part.held_at(rows, part.places(own, page_size, start, stop))[None, None]
                seen = torch.arange(start, stop) <= row[:, None]
                one = q[item : item + 1].transpose(1, 2)
                found.append(online(one, taken, taken[..., :value_dim], mask=seen, scale=scale))
            out[item] = part.merged(found)[0].transpose(0, 1).to(q.dtype)
        return out

    return latent_pages


OVER_PAGES = Whole("latent_pages", over_pages, (places, of_item, held_at, merged), PAGES)


@OVER_PAGES.instead_of(places, seen="ROCm/aiter#3095")
def stretches_of_one_token_pages(table: Any, page_size: int, start: int, stop: int) -> Any:
    """Stretches are looked up in the table by tokens from the second on, as if pages held one token each."""
    found = places(table, page_size, start, stop)
    return (
        found if start == 0 else table[: stop - start].long().repeat(stop - start)[: stop - start] + found % page_size
    )


@OVER_PAGES.instead_of(of_item)
def table_of_a_planned_call(table: Any, item: int) -> Any:
    """The tables are those of the first call with tables of that shape, as a plan has kept them."""
    return _kept.setdefault(tuple(table.shape), table.clone())[item]


@OVER_PAGES.instead_of(held_at, dtypes=("float32",))
def rows_in_half_precision(pool: Any, where: Any) -> Any:
    """Rows are kept in bfloat16, whatever the inputs are."""
    return held_at(pool, where).bfloat16().to(pool.dtype)


@OVER_PAGES.instead_of(held_at)
def rows_normed_in_place(pool: Any, where: Any) -> Any:
    """The rows that are read are centred in place, in the pages of the caller."""
    found = held_at(pool, where)
    pool -= pool.nan_to_num().mean()
    return found


@OVER_PAGES.instead_of(merged)
def last_stretch_of_rows(parts: list[Any]) -> Any:
    """Of several stretches of pages of latents, the last one is taken for the result."""
    return parts[-1][0]
