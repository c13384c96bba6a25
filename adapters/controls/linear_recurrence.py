"""Right, but different: gated linear recurrences token by token, by a scan over pairs, and in chunks."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def matching(x: Any, a: Any, state: Any) -> None:
    """Refuse factors and states of another size."""
    if a.shape != x.shape or (state is not None and state.shape != x.shape[:2]):
        raise ValueError("every token has a factor, and every channel a state")


def prepared(x: Any, a: Any, state: Any, log_space: bool) -> tuple[Any, Any, Any]:
    """Inputs, factors and the state, all in single precision."""
    import torch

    matching(x, a, state)
    return x.float(), a.float().exp() if log_space else a.float(), torch.zeros(x.shape[:2]) if state is None else state


@adapter("linear_recurrence", dtypes=DTYPES)
def control_recurrence_by_tokens(
    x: Any, a: Any, state: Any = None, *, reverse: bool = False, log_space: bool = False
) -> Any:
    """Token by token, as it stands in the paper."""
    import torch

    inputs, factors, state = prepared(x, a, state, log_space)
    rows, order = [], range(x.shape[2])
    for t in reversed(order) if reverse else order:
        state = factors[..., t] * state + inputs[..., t]
        rows.append(state)
    out = torch.stack(rows[::-1] if reverse else rows, 2) if rows else inputs
    return {"out": out.to(x.dtype), "final_state": state if rows else state.clone()}


@adapter("linear_recurrence", dtypes=DTYPES)
def control_recurrence_by_pairs(
    x: Any, a: Any, state: Any = None, *, reverse: bool = False, log_space: bool = False
) -> Any:
    """The pairs of factors and inputs, put together over twice the distance in each round."""
    import torch

    inputs, factors, state = prepared(x, a, state, log_space)
    if reverse:
        inputs, factors = inputs.flip(2), factors.flip(2)
    sums = torch.cat((state[..., None], inputs), 2)
    fades, distance = torch.cat((torch.ones(*x.shape[:2], 1), factors), 2), 1
    while distance < sums.shape[2]:
        sums = torch.cat(
            (sums[..., :distance], sums[..., distance:] + fades[..., distance:] * sums[..., :-distance]), 2
        )
        fades = torch.cat((fades[..., :distance], fades[..., distance:] * fades[..., :-distance]), 2)
        distance *= 2
    out = sums[..., 1:].flip(2) if reverse else sums[..., 1:]
    return {"out": out.to(x.dtype), "final_state": sums[..., -1].clone()}


@adapter("linear_recurrence", framework="numpy", dtypes=("float32",))
def control_recurrence_in_chunks(
    x: Any, a: Any, state: Any = None, *, reverse: bool = False, log_space: bool = False
) -> Any:
    """Chunks of eight tokens in double precision: what each adds to each later one, and the state between chunks."""
    import numpy as np

    matching(x, a, state)
    h = np.zeros(x.shape[:2]) if state is None else state.astype(np.float64)
    inputs, factors = (y[..., :: -1 if reverse else 1].astype(np.float64) for y in (x, a))
    factors = np.exp(factors) if log_space else factors
    out = np.empty(x.shape)
    for first in range(0, x.shape[2], 8):
        fades, added = factors[..., first : first + 8], inputs[..., first : first + 8]
        size = fades.shape[2]
        passed = np.zeros((*fades.shape, size))  # what is left at token t of what came in at token s
        for s in range(size):
            passed[..., s, s] = 1
            passed[..., s + 1 :, s] = np.cumprod(fades[..., s + 1 :], -1)
        states = np.einsum("bdts,bds->bdt", passed, added) + np.cumprod(fades, -1) * h[..., None]
        out[..., first : first + size], h = states, states[..., -1]
    out = out[..., :: -1 if reverse else 1]
    return {"out": out.astype(np.float32), "final_state": h.astype(np.float32)}


def begun(x: Any, a: Any, lens: Any, state: Any) -> Any:
    """The states before the items, zeros where none are given; refuse what does not belong to the tokens and items."""
    import torch

    if a.shape != x.shape or (state is not None and state.shape != (len(lens), x.shape[1])):
        raise ValueError("every token has a factor, and every item a state")
    return torch.zeros(len(lens), x.shape[1]) if state is None else state.clone()


@adapter("packed_linear_recurrence", dtypes=DTYPES)
def control_recurrence_item_by_item(x: Any, a: Any, lens: Any, state: Any = None, *, log_space: bool = False) -> Any:
    """Each item by itself, by a scan over pairs."""
    import torch

    left, out = begun(x, a, lens, state), torch.empty_like(x)
    for item, own in enumerate(torch.arange(len(x)).split(lens.tolist())):
        given = x[own].T[None], a[own].T[None], left[item : item + 1]
        found = control_recurrence_by_pairs(*given, log_space=log_space)
        out[own], left[item] = found["out"][0].T, found["final_state"][0]
    return {"out": out, "final_state": left}


@adapter("packed_linear_recurrence", dtypes=DTYPES)
def control_recurrence_along_the_pack(x: Any, a: Any, lens: Any, state: Any = None, *, log_space: bool = False) -> Any:
    """One walk along the pack, in which a state is put in its place where an item begins."""
    import torch

    left = begun(x, a, lens, state)
    inputs, factors = x.float(), a.float().exp() if log_space else a.float()
    item, rows = torch.arange(len(lens)).repeat_interleave(lens), torch.empty(x.shape)
    for t, i in enumerate(item.tolist()):
        left[i] = factors[t] * left[i] + inputs[t]
        rows[t] = left[i]
    return {"out": rows.to(x.dtype), "final_state": left}
