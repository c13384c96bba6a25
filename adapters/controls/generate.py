"""Right, but different: greedy generation with a cache and without, which no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .decoder import WEIGHTS, block, looked_up, normed, split, turned

DTYPES = ("float32", "bfloat16", "float16")


def framed(prompts: Any, lengths: Any, embedding: Any, new_tokens: int, pad: int) -> Any:
    """Prompts and room for new tokens, all else padding: [batch, length + new_tokens]."""
    import torch

    batch, length = looked_up(prompts, embedding).shape
    if lengths.shape != (batch,) or not bool(((lengths >= 1) & (lengths <= length)).all()):
        raise ValueError("every prompt has a length, and is no longer than its row")
    rows = torch.nn.functional.pad(prompts.long(), (0, new_tokens))
    return torch.where(torch.arange(length + new_tokens) < lengths[:, None], rows, pad)


def layers_of(weights: tuple[Any, ...]) -> list[dict[str, Any]]:
    """The weights of each block by name."""
    return [dict(zip(WEIGHTS, one, strict=True)) for one in zip(*weights, strict=True)]


@adapter("generate", dtypes=DTYPES, conventions={"pairing": "halves"})
def control_whole_texts(
    prompts: Any,
    lengths: Any,
    embedding: Any,
    *weights: Any,
    heads: int,
    kv_heads: int | None = None,
    eps: float = 1e-5,
    base: float = 10000.0,
    new_tokens: int,
    chunks: tuple[int, ...] | None = None,
    pad: int = 0,
    end: int | None = None,
) -> Any:
    """All items at once, padded behind, and every step from the beginning."""
    import torch

    *stacked, final_norm = weights
    tokens = framed(prompts, lengths, embedding, new_tokens, pad)
    rows, going = torch.arange(len(prompts)), torch.ones(len(prompts), dtype=torch.bool)
    for at in range(new_tokens):
        x = embedding[tokens]
        for w in layers_of(tuple(stacked)):
            x = block(x, w, heads, kv_heads, eps, base, "halves")
        logits = normed(x, final_norm, eps) @ embedding.T
        new = logits[rows, lengths.long() + at - 1].argmax(-1)
        tokens[rows, lengths.long() + at] = torch.where(going, new, pad)
        going = going & (new != end) if end is not None else going
    return tokens


@adapter("generate", dtypes=DTYPES, conventions={"pairing": "halves"})
def control_with_cache(
    prompts: Any,
    lengths: Any,
    embedding: Any,
    *weights: Any,
    heads: int,
    kv_heads: int | None = None,
    eps: float = 1e-5,
    base: float = 10000.0,
    new_tokens: int,
    chunks: tuple[int, ...] | None = None,
    pad: int = 0,
    end: int | None = None,
) -> Any:
    """Item by item through a cache: the prompt in chunks, and then one token after the other."""
    *stacked, final_norm = weights
    tokens = framed(prompts, lengths, embedding, new_tokens, pad)
    for row, n in zip(tokens, lengths.tolist(), strict=True):
        cache: list[Any] = [None] * len(stacked[0])
        ends = [n] if chunks is None else sorted({min(sum(chunks[: i + 1]), n) for i in range(len(chunks))})
        start = 0
        for stop in [*ends, *range(n + 1, n + new_tokens)]:
            x = embedding[row[start:stop]][None]
            for i, w in enumerate(layers_of(tuple(stacked))):
                x, cache[i] = stepped(x, cache[i], start, w, heads, kv_heads, eps, base)
            start = stop
            if n <= stop < n + new_tokens:
                row[stop] = (normed(x[0, -1], final_norm, eps) @ embedding.T).argmax()
                if row[stop] == end:
                    break
    return tokens


def stepped(
    x: Any, cache: Any, start: int, w: dict[str, Any], heads: int, kv_heads: int | None, eps: float, base: float
) -> Any:
    """One block over a chunk that begins at `start`: the chunk's result, and keys and values so far."""
    import torch

    groups, n = heads if kv_heads is None else kv_heads, x.shape[1]
    a = normed(x, w["attention_norm"], eps)
    q, k = (split(a @ w[m], g) for m, g in (("wq", heads), ("wk", groups)))
    q, k = (turned(torch.nn.functional.pad(y, (0, 0, start, 0)), base, False)[:, :, start:] for y in (q, k))
    v = split(a @ w["wv"], groups)
    if cache is not None:
        k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
    seen = torch.ones(n, start + n, dtype=torch.bool).tril(start)
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
    h = x + o.transpose(1, 2).flatten(2) @ w["wo"]
    a = normed(h, w["mlp_norm"], eps)
    return h + (torch.nn.functional.silu(a @ w["w_gate"]) * (a @ w["w_up"])) @ w["w_down"], (k, v)
