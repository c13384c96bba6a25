"""Attention of [batch, length, heads, dim] as every package here computes it: the causal mask is aligned at the end."""

import torch

from attnspec.adapters.controls.attention import online


def side(x):
    return None if x is None or x < 0 else x


def attend(q, k, v, scale, causal, window, softcap=0.0, sink=None, mask=None):
    """Output [batch, q_len, heads, dim] in the dtype of the queries, and logsumexp [batch, heads, q_len]."""
    left, right = map(side, window)
    out, lse = online(
        *(x.transpose(1, 2) for x in (q, k, v)),
        mask=mask,
        sink=sink,
        causal=causal,
        window_left=left,
        window_right=right,
        scale=scale,
        softcap=softcap or None,
    )
    return out.transpose(1, 2).to(q.dtype), lse


def each(q, k, v, q_starts, k_starts, *given):
    """The same for packed items: output [tokens, heads, dim] and logsumexp [heads, tokens]."""
    assert {torch.int32} == {q_starts.dtype, k_starts.dtype}
    parts = [
        attend(q[None, a:b], k[None, c:d], v[None, c:d], *given)
        for a, b, c, d in zip(q_starts[:-1], q_starts[1:], k_starts[:-1], k_starts[1:], strict=True)
    ]
    return torch.cat([out[0] for out, _ in parts]), torch.cat([lse[0] for _, lse in parts], 1)


def paged(q, k_pages, v_pages, table, lens, *given):
    """The same over pages [pages, page_size, heads, dim]."""
    assert {torch.int32} == {table.dtype, lens.dtype}
    size, found = k_pages.shape[1], []
    for item, (pages, n) in enumerate(zip(table, lens.tolist(), strict=True)):
        own = pages[: -(-n // size)].long()
        keys, values = (x[own].flatten(0, 1)[None, :n] for x in (k_pages, v_pages))
        found.append(attend(q[item : item + 1], keys, values, *given))
    return torch.cat([out for out, _ in found]), torch.cat([lse for _, lse in found])


def cached(q, k_cache, v_cache, k, v, lens, *given):
    """The same over a cache, into which the new keys and values are written first."""
    (start,) = set(lens.tolist())
    stop = start + k.shape[1]
    k_cache[:, start:stop], v_cache[:, start:stop] = k, v
    return attend(q, k_cache[:, :stop], v_cache[:, :stop], *given)
