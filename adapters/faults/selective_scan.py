"""Selective scans in chunks, and what goes wrong between chunks, with narrow states and with what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.selective_scan import finished, prepared, states_of
from .whole import Whole

CHUNK = 16
ALONE: Any = {"dtypes": ("float32",)}


def begun(state: Any) -> Any:
    """The state that a sequence begins with."""
    return state


def passed(state: Any) -> Any:
    """The state that a chunk hands on to the next."""
    return state


def within(fading: Any, added: Any, state: Any) -> Any:
    """The states after each token of a chunk."""
    return states_of(fading, added, state)


def read_by(c: Any) -> Any:
    """What reads states: [batch, length, state_dim] in single precision."""
    return c.float().mT


def summed(states: Any, reading: Any) -> Any:
    """What is read of states."""
    return (states * reading[:, None]).sum(-1)


def chunked(part: Any) -> Callable[..., Any]:
    def selective_scan(
        x: Any,
        dt: Any,
        a: Any,
        b: Any,
        c: Any,
        d: Any = None,
        z: Any = None,
        dt_bias: Any = None,
        state: Any = None,
        *,
        softplus: bool = False,
    ) -> Any:
        import torch

        fading, added, state = prepared(x, dt, a, b, dt_bias, state, softplus)
        state, rows = part.begun(state), []
        reading = part.read_by(c)
        for start in range(0, x.shape[2], CHUNK):
            own = slice(start, start + CHUNK)
            states = part.within(fading[:, :, own], added[:, :, own], state)
            rows.append(part.summed(states, reading[:, own]))
            state = part.passed(states[:, :, -1])
        return {"out": finished(torch.cat(rows, 2), x, d, z, x.dtype), "final_state": state}

    return selective_scan


CHUNKED = Whole("selective_scan", chunked, (begun, passed, within, read_by, summed))


@CHUNKED.instead_of(passed, **ALONE)
def chunks_begin_anew(state: Any) -> Any:
    """Nothing goes from a chunk to the next."""
    return 0 * state


@CHUNKED.instead_of(passed, dtypes=("float32", "bfloat16"))
def states_in_bfloat16_between_chunks(state: Any) -> Any:
    """The state between chunks is stored in bfloat16."""
    return state.bfloat16().float()


@CHUNKED.instead_of(within, seen="state-spaces/mamba#716", **ALONE)
def pairs_put_together_the_wrong_way(fading: Any, added: Any, state: Any) -> Any:
    """In the second half of a chunk what fades of the first half is multiplied by what its own half adds."""
    import torch

    states, half = within(fading, added, state), added.shape[2] // 2
    if not half:
        return states
    own = within(fading[:, :, half:], added[:, :, half:], 0 * state)
    carried = states[:, :, half - 1 : half].expand_as(own)
    return torch.cat((states[:, :, :half], fading[:, :, :half].sum(2, keepdim=True).exp() * own + carried), 2)


@CHUNKED.instead_of(within)
def states_in_bfloat16(fading: Any, added: Any, state: Any) -> Any:
    """States are kept in bfloat16 from token to token."""
    import torch

    rows = []
    for t in range(added.shape[2]):
        state = (fading[:, :, t].exp() * state + added[:, :, t]).bfloat16().float()
        rows.append(state)
    return torch.stack(rows, 2)


@CHUNKED.instead_of(within, **ALONE)
def reciprocal_decays(fading: Any, added: Any, state: Any) -> Any:
    """What a chunk adds is divided by what fades up to its token, which overflows where much fades."""
    total = fading.cumsum(2)
    return total.exp() * (state[:, :, None] + (added * (-total).exp()).cumsum(2))


@CHUNKED.instead_of(summed, **ALONE)
def entries_of_a_tile(states: Any, reading: Any) -> Any:
    """Entries of the state beyond a multiple of sixteen are not read where there are more than sixteen."""
    n = states.shape[3]
    kept = n // CHUNK * CHUNK if n > CHUNK else n
    return (states[..., :kept] * reading[:, None, :, :kept]).sum(-1)


@CHUNKED.instead_of(read_by, **ALONE)
def rows_of_memory(c: Any) -> Any:
    """What reads states is read row by row however it lies in memory."""
    import torch

    flat = torch.as_strided(c, (c.numel(),), (1,), c.storage_offset())
    return flat.reshape(c.shape).float().mT


STATES: dict[tuple[int, ...], Any] = {}


@CHUNKED.instead_of(begun, **ALONE)
def state_of_an_earlier_scan(state: Any) -> Any:
    """The state that a first call of a shape began with serves later ones."""
    return STATES.setdefault(tuple(state.shape), state.clone())


@CHUNKED.instead_of(begun, seen="vllm-project/vllm#35275", **ALONE)
def states_of_a_narrow_place(state: Any) -> Any:
    """The place of an item beyond the first 64 is counted in six bits, and its state is that of an earlier one."""
    import torch

    return state[torch.arange(len(state)) % 64]
