"""The backward pass of what goes from token to token, in chunks of four, and what goes wrong from one to the next.

States at the beginnings of chunks are kept by a forward pass; chunks are computed once more from them, the last first,
each with what its last state is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..controls.delta_rule import control_delta_rule_at_once, prepared
from ..controls.linear_attention import control_linear_attention_at_once
from ..controls.linear_attention import prepared as of_keys
from ..controls.selective_scan import control_scan_by_pairs
from ..controls.state_space import control_state_space_at_once
from .whole import Whole

CHUNK = 4


def saved(state: Any) -> Any:
    """The state at the beginning of a chunk, as the forward pass keeps it."""
    return state


def carried(worth: Any, later: bool) -> Any:
    """What the last state of a chunk is worth, and whether there are `later` tokens."""
    return worth


def tokens(length: int) -> int:
    """How many tokens have gradients."""
    return length


def added(total: Any, of_chunk: Any) -> Any:
    """The gradient of an input that all tokens share, with what a chunk gives."""
    return total + of_chunk


def stored(gradient: Any, like: Any) -> Any:
    return gradient.to(like.dtype)


PARTS = (saved, carried, tokens, added, stored)


def in_chunks(
    part: Any,
    function: Callable[..., Any],
    d_out: Any,
    state: Any,
    given_state: bool,
    axes: Mapping[str, int | None],
    worth: Any = None,
    **inputs: Any,
) -> dict[str, Any]:
    """The gradients of a function of arrays, `axes` saying which axis of each has the tokens.

    A function returns out [batch, heads, length, ...] and the state that is left; `state` is the first one, in float32,
    and the last one is `worth` something, or nothing.
    """
    import torch

    given = {name: x for name, x in inputs.items() if x is not None}
    length = d_out.shape[2]

    def of_chunk(start: int) -> dict[str, Any]:
        return {
            name: x if axes[name] is None else x.narrow(axes[name], start, min(CHUNK, length - start))
            for name, x in given.items()
        }

    starts, states = range(0, length, CHUNK), [state]
    for start in starts:
        states.append(part.saved(function(state=states[-1], **of_chunk(start))["final_state"]))
    worth = torch.zeros_like(state) if worth is None else worth
    found = {name: torch.zeros(x.shape, dtype=torch.float32) for name, x in given.items()}
    for start, before in reversed([*zip(starts, states, strict=False)]):
        leaves = {name: x.detach().float().requires_grad_() for name, x in of_chunk(start).items()}
        leaf = before.detach().requires_grad_()
        with torch.enable_grad():
            result = function(state=leaf, **leaves)
            ends = result["out"], result["final_state"]
            cotangents = d_out[:, :, start : start + CHUNK].float(), part.carried(worth, start + CHUNK < length)
            *own, worth = torch.autograd.grad(ends, [*leaves.values(), leaf], cotangents)
        for name, gradient in zip(leaves, own, strict=True):
            axis = axes[name]
            if axis is None:
                found[name] = part.added(found[name], gradient)
            else:
                found[name].narrow(axis, start, gradient.shape[axis]).copy_(gradient)
    for name, axis in axes.items():
        if name in found and axis is not None:
            kept = part.tokens(length)
            found[name].narrow(axis, kept, length - kept).zero_()
    gradients = {f"d_{name}": part.stored(x, given[name]) for name, x in found.items()}
    return gradients | ({"d_state": worth} if given_state else {})


def delta_in_chunks(
    part: Any,
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    d_out: Any,
    gate: Any,
    state: Any,
    worth: Any,
    scale: float | None,
    normalise: bool,
) -> dict[str, Any]:
    """The gradients of the gated delta rule, whose last state is `worth` something, or nothing."""

    def chunk(**given: Any) -> Any:
        return control_delta_rule_at_once(**given, scale=scale, normalise=normalise)

    axes = {"q": 2, "k": 2, "v": 2, "beta": 2, "gate": 2}
    first = prepared(q, k, v, beta, gate, state, False)[-1].float()
    return in_chunks(part, chunk, d_out, first, state is not None, axes, worth, q=q, k=k, v=v, beta=beta, gate=gate)


def delta_rule(part: Any) -> Callable[..., Any]:
    def gated_delta_rule_gradient(
        q: Any,
        k: Any,
        v: Any,
        beta: Any,
        d_out: Any,
        gate: Any = None,
        state: Any = None,
        *,
        scale: float | None = None,
        normalise: bool = False,
    ) -> Any:
        return delta_in_chunks(part, q, k, v, beta, d_out, gate, state, None, scale, normalise)

    return gated_delta_rule_gradient


def linear_in_chunks(
    part: Any,
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    gate: Any,
    state: Any,
    worth: Any,
    scale: float | None,
    feature_map: str,
) -> dict[str, Any]:
    """The gradients of linear attention, whose last state is `worth` something, or nothing."""

    def chunk(**given: Any) -> Any:
        return control_linear_attention_at_once(**given, scale=scale, feature_map=feature_map)

    axes = {"q": 2, "k": 2, "v": 2, "gate": 2}
    first = of_keys(q, k, v, gate, state, None, scale, feature_map)[-2].float()
    return in_chunks(part, chunk, d_out, first, state is not None, axes, worth, q=q, k=k, v=v, gate=gate)


def linear_attention(part: Any) -> Callable[..., Any]:
    def linear_attention_gradient(
        q: Any,
        k: Any,
        v: Any,
        d_out: Any,
        gate: Any = None,
        state: Any = None,
        *,
        scale: float | None = None,
        feature_map: str = "identity",
    ) -> Any:
        return linear_in_chunks(part, q, k, v, d_out, gate, state, None, scale, feature_map)

    return linear_attention_gradient


def handed_back(part: Any) -> Callable[..., Any]:
    def linear_attention_gradient(
        q: Any,
        k: Any,
        v: Any,
        d_out: Any,
        gate: Any = None,
        state: Any = None,
        *,
        d_final_state: Any,
        scale: float | None = None,
        feature_map: str = "identity",
    ) -> Any:
        if d_final_state.shape != (*k.shape[:2], k.shape[3], v.shape[3]):
            raise ValueError("the gradient of the final state is like the state")
        worth = part.begun(d_final_state, v.shape[2])
        return linear_in_chunks(part, q, k, v, d_out, gate, state, worth, scale, feature_map)

    return linear_attention_gradient


def begun(worth: Any, length: int) -> Any:
    """What the last state of all is worth, from which the backward pass begins."""
    return worth


def state_space(part: Any) -> Callable[..., Any]:
    axes = {"x": 2, "dt": 2, "a": None, "b": 2, "c": 2, "d": None, "dt_bias": None}

    def state_space_gradient(
        x: Any,
        dt: Any,
        a: Any,
        b: Any,
        c: Any,
        d_out: Any,
        d: Any = None,
        dt_bias: Any = None,
        state: Any = None,
        *,
        softplus: bool = False,
    ) -> Any:
        import torch

        def chunk(**given: Any) -> Any:
            return control_state_space_at_once(**given, softplus=softplus)

        first = torch.zeros(*x.shape[:2], x.shape[3], b.shape[3]) if state is None else state.float()
        return in_chunks(
            part, chunk, d_out, first, state is not None, axes, x=x, dt=dt, a=a, b=b, c=c, d=d, dt_bias=dt_bias
        )

    return state_space_gradient


def selective_scan(part: Any) -> Callable[..., Any]:
    axes = {"x": 2, "dt": 2, "a": None, "b": 2, "c": 2, "d": None, "z": 2, "dt_bias": None}

    def selective_scan_gradient(
        x: Any,
        dt: Any,
        a: Any,
        b: Any,
        c: Any,
        d_out: Any,
        d: Any = None,
        z: Any = None,
        dt_bias: Any = None,
        state: Any = None,
        *,
        softplus: bool = False,
    ) -> Any:
        import torch

        def chunk(**given: Any) -> Any:
            return control_scan_by_pairs(**given, softplus=softplus)

        first = torch.zeros(*x.shape[:2], b.shape[1]) if state is None else state.float()
        inputs = {"x": x, "dt": dt, "a": a, "b": b, "c": c, "d": d, "z": z, "dt_bias": dt_bias}
        return in_chunks(part, chunk, d_out, first, state is not None, axes, **inputs)

    return selective_scan_gradient


DELTA_RULE = Whole("gated_delta_rule_gradient", delta_rule, PARTS)
HANDED_BACK = Whole("linear_attention_gradient", handed_back, (*PARTS, begun))
LINEAR_ATTENTION = Whole("linear_attention_gradient", linear_attention, PARTS)
SCAN = Whole("selective_scan_gradient", selective_scan, PARTS)
STATE_SPACE = Whole("state_space_gradient", state_space, PARTS)


@DELTA_RULE.instead_of(saved, dtypes=("float32",))
def chunks_begin_in_half_precision(state: Any) -> Any:
    """The states from which chunks are computed once more are kept in bfloat16."""
    return state.bfloat16().float()


@DELTA_RULE.instead_of(carried)
def worth_lost_between_chunks(worth: Any, later: bool) -> Any:
    """Nothing goes back from one chunk to the one before."""
    return 0 * worth


@DELTA_RULE.instead_of(stored, seen="fla-org/flash-linear-attention#913")
def rare_nan_in_a_backward_pass(gradient: Any, like: Any) -> Any:
    """What cancels to nothing is divided by itself, and becomes NaN."""
    return stored(gradient * (gradient / gradient), like)


@LINEAR_ATTENTION.instead_of(tokens, seen="fla-org/flash-linear-attention#1142")
def last_tokens_without_gradients(length: int) -> int:
    """Tokens that do not fill a chunk have no gradient, where there is a whole one."""
    return length // CHUNK * CHUNK or length


@LINEAR_ATTENTION.instead_of(carried, dtypes=("float32",))
def worth_in_half_precision(worth: Any, later: bool) -> Any:
    """What a state is worth is stored in bfloat16 from one chunk to the next."""
    return worth.bfloat16().float()


_worths: dict[Any, Any] = {}


@LINEAR_ATTENTION.instead_of(carried)
def worth_of_an_earlier_call(worth: Any, later: bool) -> Any:
    """The last chunk goes on from what an earlier call of the same shape has ended with."""
    found = worth if later else _worths.get(worth.shape, worth)
    _worths[worth.shape] = 1 + worth
    return found


@SCAN.instead_of(saved, dtypes=("float32",))
def scans_begin_in_half_precision(state: Any) -> Any:
    """The states from which chunks of a scan are computed once more are kept in bfloat16."""
    return state.bfloat16().float()


@SCAN.instead_of(tokens)
def last_chunk_of_a_scan_without_gradients(length: int) -> int:
    """Tokens of a scan that do not fill a chunk have no gradient, where there is a whole one."""
    return length // CHUNK * CHUNK or length


_scans: dict[Any, Any] = {}


@SCAN.instead_of(carried)
def worth_of_an_earlier_scan(worth: Any, later: bool) -> Any:
    """The last chunk of a scan goes on from what an earlier call of the same shape has ended with."""
    found = worth if later else _scans.get(worth.shape, worth)
    _scans[worth.shape] = 1 + worth
    return found


@STATE_SPACE.instead_of(added)
def chunk_writes_over_what_is_shared(total: Any, of_chunk: Any) -> Any:
    """A chunk writes over what those after it have given to a, d and the bias."""
    return of_chunk


@STATE_SPACE.instead_of(added, dtypes=("float32",))
def shared_added_in_half_precision(total: Any, of_chunk: Any) -> Any:
    """What the chunks give to a, d and the bias is added up in bfloat16."""
    return added(total, of_chunk).bfloat16().float()


@HANDED_BACK.instead_of(begun)
def final_gradient_of_whole_chunks_alone(worth: Any, length: int) -> Any:
    """The gradient of the final state is read where the last chunk is a whole one."""
    import torch

    return torch.zeros_like(worth) if length % CHUNK else worth


@HANDED_BACK.instead_of(begun, dtypes=("float32",))
def final_gradient_in_half_precision(worth: Any, length: int) -> Any:
    """The gradient of the final state is read in bfloat16."""
    return worth.bfloat16().float()


@HANDED_BACK.instead_of(carried)
def final_gradient_in_the_last_chunk_alone(worth: Any, later: bool) -> Any:
    """What the last chunk has of the final state is not handed to the chunks before it."""
    import torch

    return torch.zeros_like(worth) if later else worth
