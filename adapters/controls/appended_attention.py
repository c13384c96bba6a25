"""Right, but different: new keys and values that go into a cache in the call that reads them."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import DTYPES, online
from .positions import by_exponentials, by_repetition, halves, joined


def fitting(q: Any, k: Any, v: Any, key_cache: Any, value_cache: Any) -> None:
    """Refuse new tokens that do not have the sizes of the cache."""
    wide = q.shape[3] == k.shape[3] == key_cache.shape[3] and v.shape[3] == value_cache.shape[3]
    if not wide or not q.shape[1] == k.shape[1] == v.shape[1]:
        raise ValueError("queries, keys and values of the same tokens, as wide as the cache")


@adapter("appended_attention", dtypes=DTYPES, conventions={"masked_nonfinite": "propagates", "grouping": "block"})
def control_appended_at_once(
    q: Any,
    k: Any,
    v: Any,
    key_cache: Any,
    value_cache: Any,
    k_lens: Any,
    rows: Any = None,
    *,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
    base: float | None = None,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> Any:
    """All items at once: a scatter into the rows, and a softmax over all places of them, of turned and rounded keys."""
    import torch

    fitting(q, k, v, key_cache, value_cache)
    batch, length, heads, width = q.shape
    row = torch.arange(batch) if rows is None else rows
    position = k_lens[:, None] + torch.arange(length)
    if base is not None:
        pairs = (rotary_dim or width, interleaved)
        angle = position[..., None, None].double() * by_repetition(base, pairs[0]).double()
        turned = []
        for x in (q, k):
            first, second = halves(x.double(), *pairs)
            both = first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()
            turned.append(joined(*both, x.double()[..., pairs[0] :], interleaved).to(x.dtype))
        q, k = turned
    keys, values = key_cache.clone(), value_cache.clone()
    keys[row[:, None], position], values[row[:, None], position] = k, v
    read = (x[row].double().repeat_interleave(heads // x.shape[2], 2) for x in (keys, values))
    own_keys, own_values = (x.transpose(1, 2) for x in read)
    scores = q.double().transpose(1, 2) @ own_keys.mT * (width**-0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    back = position[..., None] - torch.arange(keys.shape[1])
    hidden = (back < 0) | (back > (keys.shape[1] if window_left is None else window_left))
    weights = torch.softmax(scores.masked_fill(hidden[:, None], -torch.inf), -1)
    return {"out": (weights @ own_values).transpose(1, 2).to(v.dtype), "keys": keys, "values": values}


@adapter("appended_attention", dtypes=DTYPES, conventions={"masked_nonfinite": "ignored", "grouping": "block"})
def control_appended_after_it_is_read(
    q: Any,
    k: Any,
    v: Any,
    key_cache: Any,
    value_cache: Any,
    k_lens: Any,
    rows: Any = None,
    *,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
    base: float | None = None,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> Any:
    """The last item first, an online softmax over its tokens and then its new ones, which are not rounded before it."""
    import torch

    fitting(q, k, v, key_cache, value_cache)
    keys, values, out = key_cache.clone(), value_cache.clone(), v.new_empty(*q.shape[:3], v.shape[3])
    for item in reversed(range(len(q))):
        start, row = int(k_lens[item]), item if rows is None else int(rows[item])
        own, new = q[item].to(torch.float32, copy=True), k[item].to(torch.float32, copy=True)
        if base is not None:
            width = rotary_dim or q.shape[3]
            angle = torch.arange(start, start + len(own), dtype=torch.float32)[:, None, None]
            wheel = torch.polar(torch.ones(()), angle * by_exponentials(base, width))
            for x in (own, new):
                turned = torch.complex(*(part.contiguous() for part in halves(x, width, interleaved))) * wheel
                x.copy_(joined(turned.real, turned.imag, x[..., width:], interleaved))
        held = torch.cat((key_cache[row, :start].float(), new)), torch.cat((value_cache[row, :start], v[item]))
        one, (read_keys, read_values) = own.transpose(0, 1)[None], (x.transpose(0, 1)[None] for x in held)
        sides = {"causal": True, "window_left": window_left, "scale": scale, "softcap": softcap}
        out[item] = online(one, read_keys, read_values, backwards=True, base_two=True, **sides)[0][0].transpose(0, 1)
        keys[row, start : start + len(own)] = new.to(keys.dtype)
        values[row, start : start + len(own)] = v[item]
    return {"out": out, "keys": keys, "values": values}
