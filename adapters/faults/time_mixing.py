"""The time mixing of RWKV with a running maximum, and in chunks of four tokens, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.time_mixing import fitting, started
from .whole import Whole

CHUNK = 4


# RWKV-4, token by token


def unseen(like: Any) -> Any:
    """The running maximum before any token."""
    import torch

    return torch.full_like(like, -1e38)


def highest(top: Any, key: Any) -> Any:
    import torch

    return torch.maximum(top, key)


def fallen(top: Any, rate: Any) -> Any:
    """The maximum, one token later."""
    return top - rate


def gathered(weight: Any, then: Any, now: Any) -> Any:
    """The sum of weights with one more."""
    return then * weight + now


def told(top: Any, weight: Any) -> Any:
    """The logarithm of the sum of exponentials."""
    return top + weight.log()


def running(part: Any) -> Callable[..., Any]:
    def wkv4(w: Any, u: Any, k: Any, v: Any, past: Any = None, lse: Any = None) -> Any:
        import torch

        fitting(w, k, v)
        dtype, (k, v), rate = v.dtype, (x.float() for x in (k, v)), w.exp()
        empty = torch.zeros_like(k[:, 0])
        total, weight, top = empty, empty, part.unseen(empty)
        if past is not None:
            total, weight, top = past, torch.ones_like(past), lse
        rows = []
        for key, value in zip(k.unbind(1), v.unbind(1), strict=True):
            most = part.highest(top, u + key)
            then, now = (top - most).exp(), (u + key - most).exp()
            rows.append((then * total + now * value) / part.gathered(weight, then, now))
            later = part.fallen(top, rate)
            top = part.highest(later, key)
            then, now = (later - top).exp(), (key - top).exp()
            total, weight = then * total + now * value, part.gathered(weight, then, now)
        return {
            "out": torch.stack(rows, 1).to(dtype),
            "final_past": total / weight,
            "final_lse": part.told(top, weight),
        }

    return wkv4


RUNNING = Whole("wkv4", running, (unseen, highest, fallen, gathered, told))


@RUNNING.instead_of(unseen)
def wkv_maximum_begins_at_zero(like: Any) -> Any:
    """The running maximum begins at zero, so that small keys vanish beside it."""
    return like.clone()


@RUNNING.instead_of(highest)
def wkv_maximum_of_all_channels(top: Any, key: Any) -> Any:
    """One maximum serves all channels, and those far below it vanish."""
    import torch

    return torch.maximum(top, key).amax(-1, keepdim=True).expand(key.shape)


@RUNNING.instead_of(highest)
def wkv_maximum_of_the_state(top: Any, key: Any) -> Any:
    """What was there is taken for the maximum, whatever the key is."""
    import torch

    return torch.where(top > -1e37, top, key)


@RUNNING.instead_of(fallen)
def wkv_maximum_in_half_precision(top: Any, rate: Any) -> Any:
    """The running maximum is kept in bfloat16, and what is lost of it adds up."""
    return (top - rate).bfloat16().float()


@RUNNING.instead_of(gathered)
def wkv_weights_in_half_precision(weight: Any, then: Any, now: Any) -> Any:
    """The sum of weights is kept in bfloat16."""
    return (then * weight + now).bfloat16().float()


@RUNNING.instead_of(gathered)
def wkv_weights_not_rescaled(weight: Any, then: Any, now: Any) -> Any:
    """The sum of weights is not rescaled where the maximum rises."""
    return weight + now


@RUNNING.instead_of(told)
def wkv_maximum_handed_on_alone(top: Any, weight: Any) -> Any:
    """The maximum is handed on without the sum that belongs to it."""
    return top


# RWKV-6, in chunks


def until(w: Any) -> Any:
    """The gates of a chunk added up to each token, without its own."""
    import torch

    return torch.nn.functional.pad(w.cumsum(2)[:, :, :-1], (0, 0, 1, 0))


def between(r: Any, k: Any, upper: Any, lower: Any) -> Any:
    """Products of receptances and keys of a chunk, faded by what lies between: [..., chunk, chunk]."""
    fades = (upper[:, :, :, None] - lower[:, :, None]).clamp(max=0).exp()
    return (r[:, :, :, None] * fades * k[:, :, None]).sum(-1)


def own(r: Any, u: Any, k: Any, start: int) -> Any:
    """What a token reads of itself: [..., chunk, 1]."""
    return (r * u[:, None] * k).sum(-1, keepdim=True)


def late(k: Any, through: Any) -> Any:
    """The keys of a chunk as they have faded at its end."""
    return k * (through[:, :, -1:] - through).exp()


def chunks(part: Any) -> Callable[..., Any]:
    def wkv6(r: Any, k: Any, v: Any, w: Any, u: Any, state: Any = None, *, scale: float | None = 1.0) -> Any:
        import torch

        dtype, factor, state = v.dtype, k.shape[3] ** -0.5 if scale is None else scale, started(k, v, state)
        r, k, v, w, u = (x.float() for x in (r, k, v, w, u))
        outs = []
        for start in range(0, k.shape[2], CHUNK):
            rs, ks, vs, ws = (x[:, :, start : start + CHUNK] for x in (r, k, v, w))
            before, through = part.until(ws), ws.cumsum(2)
            inside = part.between(rs, ks, before, through).tril(-1) @ vs + part.own(rs, u, ks, start) * vs
            outs.append(inside + (rs * before.exp()) @ state)
            state = through[:, :, -1, :, None].exp() * state + part.late(ks, through).mT @ vs
        return {"out": (factor * torch.cat(outs, 2)).to(dtype), "final_state": state}

    return wkv6


CHUNKS = Whole("wkv6", chunks, (until, between, own, late))


@CHUNKS.instead_of(until)
def wkv_own_gate_before_reading(w: Any) -> Any:
    """What a chunk reads of the state before it has faded by the gate of the reading token, too."""
    return w.cumsum(2)


@CHUNKS.instead_of(until)
def wkv_gates_between_chunks_lost(w: Any) -> Any:
    """What a chunk reads of the state before it has not faded within the chunk."""
    import torch

    return torch.zeros_like(w)


@CHUNKS.instead_of(between, seen="fla-org/flash-linear-attention#36")
def wkv_factors_taken_apart(r: Any, k: Any, upper: Any, lower: Any) -> Any:
    """Keys grow by the sums of the gates from the start of the chunk, which overflows where gates are strong."""
    return (r * upper.exp()) @ (k * (-lower).exp()).mT


@CHUNKS.instead_of(own)
def wkv_bonus_for_first_chunk_alone(r: Any, u: Any, k: Any, start: int) -> Any:
    """The bonus is read for the first chunk; the tokens of others read themselves without it."""
    return (r * (u[:, None] if start == 0 else 1.0) * k).sum(-1, keepdim=True)


@CHUNKS.instead_of(late)
def wkv_first_key_unfaded(k: Any, through: Any) -> Any:
    """At the end of a chunk its first key has not faded."""
    import torch

    return torch.cat((k[:, :, :1], (k * (through[:, :, -1:] - through).exp())[:, :, 1:]), 2)


# RWKV-7, in chunks


def found(system: Any, seen: Any) -> Any:
    """What the state holds for each vector a of a chunk, from what was there before and what the chunk adds."""
    import torch

    return torch.linalg.solve_triangular(system, seen, upper=False)


def held(a: Any, before: Any, state: Any) -> Any:
    """What the state before a chunk holds for its vectors a."""
    return (a * before.exp()) @ state


def begun(state: Any) -> Any:
    """The states that the items of a batch begin with."""
    return state


def moving(part: Any) -> Callable[..., Any]:
    def wkv7(r: Any, w: Any, k: Any, v: Any, a: Any, b: Any, state: Any = None, *, scale: float | None = 1.0) -> Any:
        import torch

        dtype, factor, state = v.dtype, k.shape[3] ** -0.5 if scale is None else scale, started(k, v, state)
        r, w, k, v, a, b = (x.float() for x in (r, w, k, v, a, b))
        state, outs = part.begun(state), []
        for start in range(0, k.shape[2], CHUNK):
            rs, ws, ks, vs, as_, bs = (x[:, :, start : start + CHUNK] for x in (r, w, k, v, a, b))
            before, through = part.until(ws), ws.cumsum(2)
            system = torch.eye(ks.shape[2]) - part.between(as_, bs, before, through).tril(-1)
            seen = part.between(as_, ks, before, through).tril(-1) @ vs + part.held(as_, before, state)
            values = part.found(system, seen)
            inside = part.between(rs, ks, through, through).tril() @ vs
            moved = part.between(rs, bs, through, through).tril() @ values
            outs.append(inside + moved + (rs * through.exp()) @ state)
            state = through[:, :, -1, :, None].exp() * state
            state = state + part.late(ks, through).mT @ vs + part.late(bs, through).mT @ values
        return {"out": (factor * torch.cat(outs, 2)).to(dtype), "final_state": state}

    return wkv7


MOVING = Whole("wkv7", moving, (until, between, late, found, held, begun))


@MOVING.instead_of(until)
def wkv_found_after_fading(w: Any) -> Any:
    """What the state holds for a is looked up after it has faded by the token's own gate."""
    return w.cumsum(2)


@MOVING.instead_of(between)
def wkv_one_gate_between(r: Any, k: Any, upper: Any, lower: Any) -> Any:
    """Within a chunk all channels fade by the gates of the first."""
    fades = (upper[..., 0][:, :, :, None] - lower[..., 0][:, :, None]).clamp(max=0).exp()
    return r @ k.mT * fades


@MOVING.instead_of(found)
def wkv_inverse_of_first_order(system: Any, seen: Any) -> Any:
    """Within a chunk what is moved is moved on once, and not what follows of that."""
    import torch

    return seen + (torch.eye(system.shape[-1]) - system) @ seen


@MOVING.instead_of(held)
def wkv_held_unfaded(a: Any, before: Any, state: Any) -> Any:
    """What the state before a chunk holds for a is looked up as if nothing had faded since."""
    return a @ state


@MOVING.instead_of(begun)
def wkv_states_without_batch_offset(state: Any) -> Any:
    """All items begin with the states of the first."""
    return state[:1].expand(state.shape)
