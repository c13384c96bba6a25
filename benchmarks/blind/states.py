"""States that are merged or go from token to token: partial results of attention, delta rule, short convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fault

Array = Any


# Partial results


def folded(outs: Array, lses: Array, step: Any) -> tuple[Array, Array]:
    """The states one after the other by `step(out, lse, next out, next lse)`, both logarithms natural."""
    out, lse = outs[0].astype(np.float64), lses[0].astype(np.float64)
    with np.errstate(all="ignore"):
        for other, height in zip(outs[1:], lses[1:], strict=True):
            out, lse = step(out, lse, other.astype(np.float64), height.astype(np.float64))
    empty = np.isneginf(lses).all(0)
    return np.where(empty[..., None], 0, out).astype(outs.dtype), np.where(empty, -np.inf, lse).astype(np.float32)


def both(lse: Array, height: Array) -> tuple[Array, Array, Array]:
    """The exponentials of two logarithms less the larger one, and that."""
    top = np.maximum(lse, height)
    base = np.where(np.isneginf(top), 0, top)
    return np.exp(lse - base), np.exp(height - base), base


@fault(
    "a merge whose logarithm is that of the first two",
    "merge_states",
    line="total",
    when="states >= 3",
    conventions={"lse_base": "natural"},
)
def logarithm_of_two_states(outs: Array, lses: Array) -> dict[str, Array]:
    def step(out: Array, lse: Array, other: Array, height: Array) -> tuple[Array, Array]:
        a, b, base = both(lse, height)
        whole = np.where(a + b > 0, a + b, 1)
        return (a[..., None] * out + b[..., None] * other) / whole[..., None], base + np.log(a + b)

    out, lse = folded(outs, lses, step)
    two = folded(outs[:2], lses[:2], step)[1]
    return {"out": out, "lse": two if len(outs) > 1 else lse}


@fault(
    "flashinfer-ai/flashinfer, a merge by a sigmoid",
    "merge_states",
    names=("merge_states.not_a_number",),
    conventions={"lse_base": "natural"},
)
def merged_by_a_sigmoid(outs: Array, lses: Array) -> dict[str, Array]:
    out, lse = outs[0].astype(np.float64), lses[0].astype(np.float64)
    with np.errstate(all="ignore"):
        for other, height in zip(outs[1:], lses[1:], strict=True):
            share = 1 / (1 + np.exp(lse - height))
            out = out * (1 - share)[..., None] + other * share[..., None]
            top = np.maximum(lse, height)
            lse = top + np.log(np.exp(lse - top) + np.exp(height - top))
    return {"out": out.astype(outs.dtype), "lse": lse.astype(np.float32)}


@fault(
    "two states whose weights are exchanged",
    "merge_states",
    names=("merge_states.exchanged",),
    line="merged",
    when="states == 2",
    conventions={"lse_base": "natural"},
)
def exchanged_where_two(outs: Array, lses: Array) -> dict[str, Array]:
    def step(out: Array, lse: Array, other: Array, height: Array) -> tuple[Array, Array]:
        a, b, base = both(lse, height)
        if len(outs) == 2:
            a, b = b, a
        whole = np.where(a + b > 0, a + b, 1)
        return (a[..., None] * out + b[..., None] * other) / whole[..., None], base + np.log(a + b)

    out, lse = folded(outs, lses, step)
    return {"out": out, "lse": lse}


# The delta rule


def unit(x: Array) -> Array:
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def ruled(
    q: Array, k: Array, v: Array, beta: Array, gate: Array, state: Array, scale: float | None, *, erasing: bool = True
) -> dict[str, Array]:
    """The rule token by token; q and k with a head for each of the values."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    factor = k.shape[-1] ** -0.5 if scale is None else scale
    s = np.zeros((*v.shape[:2], k.shape[-1], v.shape[-1])) if state is None else state.astype(np.float64)
    out = np.zeros_like(v)
    for t in range(k.shape[2]):
        if gate is not None:
            s = s * np.exp(gate[:, :, t, None, None].astype(np.float64))
        seen = (k[:, :, t, None] @ s)[:, :, 0] if erasing else 0
        s = s + k[:, :, t, :, None] * (beta[:, :, t, None] * (v[:, :, t] - seen))[:, :, None]
        out[:, :, t] = factor * (q[:, :, t, None] @ s)[:, :, 0]
    return {"out": out.astype(np.float32), "final_state": s.astype(np.float32)}


def for_heads(x: Array, v: Array) -> Array:
    return np.repeat(x, v.shape[1] // x.shape[1], axis=1)


@fault(
    "fla-org/flash-linear-attention, keys of unit length alone",
    "gated_delta_rule",
    names=("gated_delta_rule.queries_not_normalised",),
    when="normalise",
)
def keys_of_unit_length(
    q: Array,
    k: Array,
    v: Array,
    beta: Array,
    gate: Array = None,
    state: Array = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> dict[str, Array]:
    k = unit(k) if normalise else k
    return ruled(for_heads(q, v), for_heads(k, v), v, beta, gate, state, scale)


@fault(
    "a first state that is read with gates alone",
    "gated_delta_rule",
    names=("gated_delta_rule.state_ignored",),
    when="state and not gate",
)
def state_only_beside_gates(
    q: Array,
    k: Array,
    v: Array,
    beta: Array,
    gate: Array = None,
    state: Array = None,
    *,
    scale: float | None = None,
) -> dict[str, Array]:
    return ruled(for_heads(q, v), for_heads(k, v), v, beta, gate, state if gate is not None else None, scale)


@fault(
    "linear attention taken for the delta rule",
    "gated_delta_rule",
    names=("gated_delta_rule.nothing_erased",),
    when="",
)
def nothing_is_erased(
    q: Array, k: Array, v: Array, beta: Array, gate: Array = None, state: Array = None
) -> dict[str, Array]:
    return ruled(for_heads(q, v), for_heads(k, v), v, beta, gate, state, None, erasing=False)


# Short convolutions


def convolved(x: Array, weight: Array, start: Array) -> tuple[Array, Array]:
    """The causal convolution behind a state, and what it leaves."""
    whole = np.concatenate([start, x], axis=-1).astype(np.float64)
    width, length = weight.shape[-1], x.shape[-1]
    out = np.zeros(x.shape)
    for i in range(width):
        out += whole[..., i : i + length] * weight[:, i, None]
    return out, whole[..., length:].astype(np.float32)


@fault(
    "Dao-AILab/causal-conv1d, an update that starts anew",
    "short_convolution",
    names=("short_convolution.state_ignored",),
    when="state and length == 1",
)
def single_token_without_state(x: Array, weight: Array, bias: Array = None, state: Array = None) -> dict[str, Array]:
    start = np.zeros((*x.shape[:2], weight.shape[-1] - 1)) if state is None else state
    out, left = convolved(x, weight, start)
    if x.shape[-1] == 1:
        out, _ = convolved(x, weight, np.zeros_like(start))
    out = out if bias is None else out + bias[:, None]
    return {"out": out.astype(x.dtype), "final_state": left}


@fault(
    "a fused SiLU that takes the sum before the bias",
    "short_convolution",
    names=("short_convolution.bias_ignored",),
    when="bias and silu",
)
def bias_lost_before_silu(
    x: Array, weight: Array, bias: Array = None, state: Array = None, *, silu: bool = False
) -> dict[str, Array]:
    start = np.zeros((*x.shape[:2], weight.shape[-1] - 1)) if state is None else state
    out, left = convolved(x, weight, start)
    if silu:
        out = out / (1 + np.exp(-out))
    elif bias is not None:
        out = out + bias[:, None]
    return {"out": out.astype(x.dtype), "final_state": left}


@fault(
    "a piece shorter than the state",
    "short_convolution",
    names=("short_convolution.state_of_this_piece",),
    when="length < width - 1 and state",
)
def short_piece_forgets(x: Array, weight: Array, bias: Array = None, state: Array = None) -> dict[str, Array]:
    held = weight.shape[-1] - 1
    start = np.zeros((*x.shape[:2], held)) if state is None else state
    out, _ = convolved(x, weight, start)
    left = np.zeros((*x.shape[:2], held), np.float32)
    n = min(held, x.shape[-1])
    if n:
        left[..., held - n :] = x[..., x.shape[-1] - n :]
    out = out if bias is None else out + bias[:, None]
    return {"out": out.astype(x.dtype), "final_state": left}
