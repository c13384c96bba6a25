"""Right, but different: attention to keys of given numbers, none of which a law may accuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .. import adapter
from .attention import CONVENTIONS, DTYPES, online

WORDS = {name: CONVENTIONS[name] for name in ("empty_row", "masked_nonfinite", "grouping", "lse_base")}
WORDS |= {"repeats": "counted", "beyond": "nothing"}


def _declared(**words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter("gathered_attention", dtypes=DTYPES, conventions=WORDS | words)


def fitting(q: Any, k: Any, v: Any, selected: Any) -> None:
    """Refuse arrays that do not belong together."""
    if selected.shape[0] != q.shape[0] or selected.shape[1] not in (1, k.shape[1]) or selected.shape[2] != q.shape[2]:
        raise ValueError("every query has a list, for all heads or for each head of keys")
    if k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise ValueError("queries, keys and values belong together")


def named(selected: Any, block_size: int, k_len: int) -> Any:
    """How often each key is named: [batch, lists, q_len, k_len]."""
    import torch

    present = -(-k_len // block_size)
    there = torch.where((selected < 0) | (selected >= present), present, selected)
    blocks = torch.zeros(*selected.shape[:3], present + 1).scatter_add_(3, there, torch.ones(there.shape))
    return blocks[..., :present].repeat_interleave(block_size, 3)[..., :k_len]


def queries(
    q: Any, k: Any, selected: Any, block_size: int, causal: bool
) -> Iterator[tuple[tuple[int, int, int], int, Any]]:
    """Every query by its item, head and row, with its head of keys and the numbers of the keys that it sees."""
    import torch

    (batch, heads, q_len, _), (kv_heads, k_len) = q.shape, k.shape[1:3]
    for item, head, row in torch.cartesian_prod(*map(torch.arange, (batch, heads, q_len))).tolist():
        kv_head = head // (heads // kv_heads)
        numbers = selected[item, kv_head if selected.shape[1] > 1 else 0, row]
        found = (numbers[numbers >= 0][:, None] * block_size + torch.arange(block_size)).flatten()
        yield (item, head, row), kv_head, found[found < (k_len - q_len + row + 1 if causal else k_len)]


@_declared()
def control_keys_gathered(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    *,
    sink: Any = None,
    block_size: int = 1,
    scale: float | None = None,
    causal: bool = False,
) -> Any:
    """The keys of each list in one piece, query by query, with an online softmax over blocks of 16 of them."""
    import torch

    fitting(q, k, v, selected)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    out, lse = q.new_zeros(*q.shape[:3], v.shape[3]), torch.full(q.shape[:3], -torch.inf)
    for (item, head, row), kv_head, found in queries(q, k, selected, block_size, causal):
        keys, values = (x[item, kv_head, found][None, None] for x in (k, v))
        own = None if sink is None else sink[head : head + 1]
        one, total = online(q[item, head, row][None, None, None], keys, values, sink=own, scale=factor, block=16)
        out[item, head, row], lse[item, head, row] = one[0, 0, 0].to(q.dtype), total[0, 0, 0]
    return {"out": out, "lse": lse}


@_declared(empty_row="nans", masked_nonfinite="propagates", grouping="tiled", lse_base="two", repeats="once")
def control_lists_as_mask(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    *,
    block_size: int = 1,
    scale: float | None = None,
    causal: bool = False,
) -> Any:
    """A dense mask with a place for each key, and a plain softmax of all scores."""
    import torch

    fitting(q, k, v, selected)
    group, (q_len, k_len) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    seen = named(selected, block_size, k_len) > 0
    seen = seen.repeat(1, q.shape[1] // seen.shape[1], 1, 1)
    if causal:
        seen = seen & (torch.arange(k_len) <= torch.arange(q_len)[:, None] + k_len - q_len)
    keys, values = (x.float().repeat(1, group, 1, 1) for x in (k, v))
    s = q.float() @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    s = s.masked_fill(~seen, -torch.inf)
    return {"out": (s.softmax(-1) @ values).to(q.dtype), "lse": s.logsumexp(-1) / 0.6931471805599453}


@_declared(masked_nonfinite="propagates", beyond="undefined")
def control_lists_clamped(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    *,
    sink: Any = None,
    block_size: int = 1,
    scale: float | None = None,
    causal: bool = False,
) -> Any:
    """Keys of all lists at once, in double precision, with a key for each place of a list and no weight for -1."""
    import torch

    fitting(q, k, v, selected)
    (batch, heads, q_len, head_dim), k_len = q.shape, k.shape[2]
    lists = selected.repeat_interleave(k.shape[1] // selected.shape[1], 1)
    found = (lists[..., None] * block_size + torch.arange(block_size)).flatten(3)
    reach = torch.arange(q_len)[:, None] + k_len - q_len if causal else torch.full((q_len, 1), k_len - 1)
    hidden = (found < 0) | (found >= k_len) | (found > reach)
    at = found.clamp(0, k_len - 1)
    places = (torch.arange(batch)[:, None, None, None], torch.arange(k.shape[1])[:, None, None], at)
    keys, values = (x.double()[places].repeat_interleave(heads // k.shape[1], 1) for x in (k, v))
    s = torch.einsum("bhqd,bhqnd->bhqn", q.double(), keys) * (head_dim**-0.5 if scale is None else scale)
    s = s.masked_fill(hidden.repeat_interleave(heads // k.shape[1], 1), -torch.inf)
    top = s.amax(-1, keepdim=True).clamp_min(-1e300)
    top = top if sink is None else torch.maximum(top, sink.double()[:, None, None])
    p = torch.exp(s - top)
    total = p.sum(-1, keepdim=True)
    total = total if sink is None else total + torch.exp(sink.double()[:, None, None] - top)
    out = torch.einsum("bhqn,bhqne->bhqe", p, values) / total.clamp_min(1e-300)
    return {"out": out.to(q.dtype), "lse": (top + total.log())[..., 0].float()}
