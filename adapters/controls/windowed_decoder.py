"""Right, but different: language models with a window in some layers, which no law may accuse."""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from .decoder import WEIGHTS, looked_up, normed, split, turned

DTYPES = ("float32", "bfloat16", "float16")
declared = functools.partial(adapter, "windowed_decoder", dtypes=DTYPES)


def attended(q: Any, k: Any, v: Any, seen: Any, sinks: Any) -> Any:
    """Attention in single precision or better, with the sink as a last key that has no value."""
    import torch

    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = (q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5).masked_fill(~seen, torch.finfo(wide).min)
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(wide)[:, None, None].expand(*scores.shape[:-1], 1)], -1)
    weights = torch.softmax(scores, -1)[..., : k.shape[-2]]
    return (weights @ v.to(wide)).to(q.dtype)


def block(x: Any, w: dict[str, Any], seen: Any, sinks: Any, heads: int, groups: int, eps: float, turn: Any) -> Any:
    """A block that sees what it is told, and stores the results of its layers in the dtype of the input."""
    import torch

    a = normed(x, w["attention_norm"], eps)
    q, k, v = (split(a @ w[name], n) for name, n in (("wq", heads), ("wk", groups), ("wv", groups)))
    h = x + attended(turn(q), turn(k), v, seen, sinks).transpose(1, 2).flatten(2) @ w["wo"]
    a = normed(h, w["mlp_norm"], eps)
    return h + (torch.nn.functional.silu(a @ w["w_gate"]) * (a @ w["w_up"])) @ w["w_down"]


def checked(wq: Any, wk: Any, heads: int, groups: int) -> None:
    if wq.shape[-1] % heads or heads % groups or wk.shape[-1] * heads != wq.shape[-1] * groups:
        raise ValueError("the matrices do not belong to these heads")


@declared(conventions={"pairing": "halves"})
def control_windowed_decoder(
    tokens: Any,
    embedding: Any,
    *weights: Any,
    present: Any = None,
    sinks: Any = None,
    heads: int,
    kv_heads: int | None = None,
    window: int | None = None,
    eps: float = 1e-5,
    base: float = 10000.0,
) -> Any:
    """The whole batch with one mask for layers with a window, and one for those without."""
    import torch

    *stacked, final_norm, windowed = weights
    groups = heads if kv_heads is None else kv_heads
    checked(stacked[1], stacked[2], heads, groups)
    row, column = torch.arange(tokens.shape[1])[:, None], torch.arange(tokens.shape[1])
    past = (column <= row)[None, None]
    if present is not None:
        past = past & present[:, None, None]
    near = past if window is None else past & (row - column < window)
    x = embedding[looked_up(tokens, embedding)]
    for at, layer in enumerate(zip(*stacked, strict=True)):
        w: dict[str, Any] = dict(zip(WEIGHTS, layer, strict=True))
        own = None if sinks is None else sinks[at]
        seen = near if windowed[at] else past
        x = block(x, w, seen, own, heads, groups, eps, lambda y: turned(y, base, neighbours=False))
    return normed(x, final_norm, eps) @ embedding.mT


@declared(conventions={"pairing": "neighbours"})
def control_windowed_decoder_row_by_row(
    tokens: Any,
    embedding: Any,
    *weights: Any,
    present: Any = None,
    sinks: Any = None,
    heads: int,
    kv_heads: int | None = None,
    window: int | None = None,
    eps: float = 1e-5,
    base: float = 10000.0,
) -> Any:
    """Every row alone in double precision, without what fills it up, whose own logits stay zero."""
    import torch

    *stacked, final_norm, windowed = (w if w.dtype == torch.bool else w.double() for w in weights)
    groups = heads if kv_heads is None else kv_heads
    checked(stacked[1], stacked[2], heads, groups)
    logits = embedding.new_zeros(*tokens.shape, len(embedding))
    for item, row in enumerate(looked_up(tokens, embedding)):
        shown = torch.ones_like(row, dtype=torch.bool) if present is None else present[item]
        x = embedding[row[shown]][None].double()
        distance = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        for at, layer in enumerate(zip(*stacked, strict=True)):
            w: dict[str, Any] = dict(zip(WEIGHTS, layer, strict=True))
            own = None if sinks is None else sinks[at].double()
            seen = (distance >= 0) & (distance < (window if windowed[at] and window is not None else x.shape[1]))
            x = block(x, w, seen, own, heads, groups, eps, lambda y: turned(y, base, neighbours=True))
        logits[item, shown] = (normed(x[0], final_norm, eps) @ embedding.double().mT).to(embedding.dtype)
    return logits
