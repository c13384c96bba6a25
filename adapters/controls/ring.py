"""Right, but different: attention in a ring of processes, which merge what each shard of the keys gives.

Liu et al. 2023, Ring attention with blockwise transformers, arXiv:2310.01889, section 3; the order of the tokens is
that of Brandon et al. 2023, Striped attention, arXiv:2311.09431, or zigzag, as context parallelism has it.
What a rank does is a generator: it yields what the next rank is to have, and is sent what the one before it yielded.
So it runs in processes as in one alone, where all ranks take turns.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import SimpleNamespace
from typing import Any

from .. import adapter
from ..torch.ranks import Places, cut, filled, joined, striped, zigzag
from .attention import CONVENTIONS, DTYPES, LEAST

Program = Generator[list[Any], list[Any], Any]
State = tuple[Any, Any, Any]
"""The running maximum and sum [..., rows, 1], and the weighted values [..., rows, value_dim]."""


def hidden(rows: Any, columns: Any, length: int, causal: bool, left: int | None, right: int | None) -> Any:
    """What queries at some rows do not see of keys at some columns, all counted in the whole: [rows, columns]."""
    back = rows[:, None] - columns
    found = (columns >= length) | ((back < 0) & causal)
    found = found if left is None else found | (back > left)
    return found if right is None else found | (back < -right)


def opened(q: Any, value_dim: int) -> State:
    """What a rank begins with."""
    import torch

    one = torch.zeros(*q.shape[:3], 1)
    return one - torch.inf, one.clone(), one.expand(*q.shape[:3], value_dim).clone()


def merged(state: State, s: Any, values: Any) -> State:
    """The state with one more shard of keys, of some scores [..., rows, keys]."""
    import torch

    top, total, out = state
    new = torch.maximum(top, s.amax(-1, keepdim=True))
    p, old = torch.exp(s - new.clamp_min(LEAST)), torch.exp(top - new.clamp_min(LEAST))
    return new, total * old + p.sum(-1, keepdim=True), out * old + p @ values


def arrived(step: int, own: Any, shard: Any) -> Any:
    """The keys or values that a step of the backward pass takes, where its own and those that have come are there."""
    return shard


def taken(step: int, length: int) -> slice:
    """The keys of a shard that a step of the backward pass goes through."""
    return slice(length)


def added(step: int, total: Any, x: Any) -> Any:
    """What keys or values have, with what a step gives them."""
    return total + x


def whole_heads(x: Any, heads: int) -> Any:
    """Keys or values for all heads that share them."""
    return x.float().repeat_interleave(heads // x.shape[1], 1)


RIGHT = SimpleNamespace(hidden=hidden, merged=merged, arrived=arrived, taken=taken, added=added)


def forward(
    part: Any, q: Any, k: Any, v: Any, rows: Any, columns: Any, *, count: int, scale: float, **seen: Any
) -> Program:
    """Attention of one rank's queries: the output [batch, heads, rows, value_dim], and its logsumexp."""
    import torch

    state = opened(q, v.shape[3])
    for step in range(count):
        if step:
            k, v, columns = yield [k, v, columns]
        keys, values = whole_heads(k, q.shape[1]), whole_heads(v, q.shape[1])
        s = (q.float() @ keys.mT * scale).masked_fill(part.hidden(rows, columns, **seen), -torch.inf)
        state = part.merged(state, s, values)
    top, total, out = state
    lse = torch.where(total > 0, top + total.log(), -torch.inf)[..., 0]
    return torch.where(total > 0, out / total, 0.0).to(q.dtype), lse


def backward(
    part: Any,
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    rows: Any,
    columns: Any,
    *,
    count: int,
    scale: float,
    **seen: Any,
) -> Program:
    """The gradients of one rank's queries, and of its keys and values when these have been round the ring."""
    import torch

    heads, kv_heads, own = q.shape[1], k.shape[1], (k, v, columns)
    out, lse = yield from forward(RIGHT, q, k, v, rows, columns, count=count, scale=scale, **seen)
    queries, g = q.float(), d_out.float()
    delta = (g * out.float()).sum(-1, keepdim=True)
    lse = lse.clamp_min(LEAST)[..., None]
    d_q, d_k, d_v = torch.zeros(q.shape), torch.zeros(k.shape), torch.zeros(v.shape)
    for step in range(count):
        if step:
            k, v, columns, d_k, d_v = yield [k, v, columns, d_k, d_v]
        k_now, v_now, at = (part.arrived(step, *pair) for pair in zip(own, (k, v, columns), strict=True))
        some = part.taken(step, k.shape[2])
        keys, values = (whole_heads(x[:, :, some], heads) for x in (k_now, v_now))
        s = (queries @ keys.mT * scale).masked_fill(part.hidden(rows, at[some], **seen), -torch.inf)
        p = torch.exp(s - lse)
        d_s = p * (g @ values.mT - delta)
        d_q += d_s @ keys * scale
        for total, x in ((d_k, d_s.mT @ queries * scale), (d_v, p.mT @ g)):
            total[:, :, some] = part.added(step, total[:, :, some], x.unflatten(1, (kv_heads, -1)).sum(2))
    d_k, d_v = yield [d_k, d_v]
    return tuple(x.to(q.dtype) for x in (d_q, d_k, d_v))


def passed_on(program: Program) -> Any:
    """Run the program of this process's rank: what it yields is sent to the next one."""
    import torch
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    try:
        given = next(program)
        while True:
            got = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in given]
            ends = [dist.P2POp(dist.isend, x.contiguous(), (rank + 1) % count) for x in given]
            ends += [dist.P2POp(dist.irecv, x, (rank - 1) % count) for x in got]
            for one in dist.batch_isend_irecv(ends):
                one.wait()
            given = program.send(got)
    except StopIteration as end:
        return end.value


def in_turns(programs: Sequence[Program]) -> list[Any]:
    """Run the programs of all ranks in this process."""
    given: list[Any] = [None for _ in programs]
    while True:
        found: list[Any] = []
        for rank, program in enumerate(programs):
            try:
                found.append(program.send(given[rank - 1]))
            except StopIteration as end:
                found.append(end.value)
        if not isinstance(found[0], list):
            return found
        given = found


def shards(count: int, order: Any, q: Any, k: Any, *more: Any) -> tuple[tuple[Places, Places], list[list[Any]]]:
    """Where each rank has its queries and keys, and what it is handed of q, k and further arrays, and of positions.

    Zeros fill both up to a multiple of twice the number of ranks; the last query is aligned with the last key.
    """
    import torch

    if k.shape[:3] != more[0].shape[:3] or q.shape[3] != k.shape[3]:
        raise ValueError("queries, keys and values belong together")
    full = filled(q, 2 * count, 2), filled(k, 2 * count, 2), *(filled(x, 2 * count, 2) for x in more)
    rows, columns = (torch.arange(x.shape[2]) for x in full[:2])
    at = order(len(rows), count), order(len(columns), count)
    by_keys = (False, True, True, False)
    found = [cut(x, at[of_keys], 2) for x, of_keys in zip(full, by_keys, strict=False)]
    return at, [*found, cut(rows + k.shape[2] - q.shape[2], at[0], 0), cut(columns, at[1], 0)]


@adapter("attention", dtypes=DTYPES, conventions=CONVENTIONS | {"masked_nonfinite": "propagates"})
def control_ring_of_three(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """A ring of three ranks, each with two runs of the tokens, from the front and from the back."""
    seen = {"length": k.shape[2], "causal": causal, "left": window_left, "right": window_right}
    at, given = shards(3, zigzag, q, k, v)
    own = {"count": 3, "scale": q.shape[3] ** -0.5 if scale is None else scale, **seen}
    found = in_turns([forward(RIGHT, *each, **own) for each in zip(*given, strict=True)])
    out, lse = (joined([one[i] for one in found], at[0], 2)[:, :, : q.shape[2]] for i in (0, 1))
    return {"out": out, "lse": lse}


@adapter(
    "attention_gradient",
    dtypes=DTYPES,
    conventions={"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"},
)
def control_ring_of_two_backward(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
) -> Any:
    """The backward pass of a ring of two ranks with tokens in turns; gradients of keys travel along with them."""
    seen = {"length": k.shape[2], "causal": causal, "left": window_left, "right": window_right}
    if d_out.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError("every output has a gradient")
    at, given = shards(2, striped, q, k, v, d_out)
    own = {"count": 2, "scale": q.shape[3] ** -0.5 if scale is None else scale, **seen}
    found = in_turns([backward(RIGHT, *each, **own) for each in zip(*given, strict=True)])
    whole = ((0, at[0], q), (1, at[1], k), (2, at[1], v))
    parts = [joined([one[i] for one in found], places, 2)[:, :, : like.shape[2]] for i, places, like in whole]
    return dict(zip(("d_q", "d_k", "d_v"), parts, strict=True))
