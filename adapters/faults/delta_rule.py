"""The gated delta rule in chunks of four tokens, and what goes wrong within chunks and from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.delta_rule import prepared
from .whole import Whole

CHUNK = 4


def gates_in_chunk(gate: Any) -> Any:
    """The sums of the gates from the start of a chunk, [batch, heads, chunk]."""
    return gate.cumsum(-1)


def padding(gate: Any) -> Any:
    """The gates of the tokens that fill the last chunk."""
    import torch

    return torch.zeros(*gate.shape[:-1], -gate.shape[-1] % CHUNK)


def first_state(state: Any) -> Any:
    return state


def kept(state: Any) -> Any:
    """A state between two chunks."""
    return state


def erased(keys: Any, fades: Any) -> Any:
    """What the tokens of a chunk take out of those after them, [batch, heads, chunk, chunk]."""
    return (keys @ keys.mT * fades).tril(-1)


def chunked(part: Any) -> Callable[..., Any]:
    def gated_delta_rule(
        q: Any,
        k: Any,
        v: Any,
        beta: Any,
        gate: Any = None,
        state: Any = None,
        *,
        scale: float | None = None,
        normalise: bool = False,
    ) -> Any:
        import torch

        dtype, length, scale = v.dtype, k.shape[2], k.shape[3] ** -0.5 if scale is None else scale
        q, k, v, beta, gate, state = prepared(q, k, v, beta, gate, state, normalise)
        state, fill = part.first_state(state).clone(), -length % CHUNK
        q, k, v = (torch.nn.functional.pad(x, (0, 0, 0, fill)) for x in (q, k, v))
        beta, gate, outs = torch.nn.functional.pad(beta, (0, fill)), torch.cat((gate, part.padding(gate)), -1), []
        for start in range(0, length, CHUNK):
            here = slice(start, start + CHUNK)
            keys, total = k[:, :, here], part.gates_in_chunk(gate[..., here])
            fades = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
            system = torch.eye(CHUNK) + beta[..., here, None] * part.erased(keys, fades)
            wanted = beta[..., here, None] * (v[:, :, here] - total[..., None].exp() * (keys @ state))
            written = torch.linalg.solve_triangular(system, wanted, upper=False)
            attended = (q[:, :, here] @ keys.mT * fades) @ written
            outs.append(scale * (attended + total[..., None].exp() * (q[:, :, here] @ state)))
            late = (keys * (total[..., -1:] - total)[..., None].exp()).mT @ written
            state = part.kept(total[..., -1:, None].exp() * state + late)
        out = torch.cat(outs, 2)[:, :, :length] if outs else v
        return {"out": out.to(dtype), "final_state": state}

    return gated_delta_rule


CHUNKED = Whole("gated_delta_rule", chunked, (gates_in_chunk, padding, first_state, kept, erased))
_states: dict[Any, Any] = {}


@CHUNKED.instead_of(gates_in_chunk, seen="fla-org/flash-linear-attention#850")
def gates_summed_over_heads(gate: Any) -> Any:
    """The gates are added up over the heads, and not over the tokens of a chunk."""
    return gate.cumsum(1)


@CHUNKED.instead_of(padding)
def padding_decays(gate: Any) -> Any:
    """The tokens that fill the last chunk let the state decay as the last token does."""
    return gate[..., -1:].expand(*gate.shape[:-1], -gate.shape[-1] % CHUNK)


@CHUNKED.instead_of(first_state, seen="vllm-project/vllm#53912")
def state_of_another_sequence(state: Any) -> Any:
    """Where no state is given, that which an earlier sequence of the same shape has begun with is found."""
    if state.any():
        _states[state.shape] = state.clone()
        return state
    return _states.get(state.shape, state)


@CHUNKED.instead_of(kept, dtypes=("float32",))
def state_kept_in_half_precision(state: Any) -> Any:
    """The state is stored in bfloat16 between two chunks."""
    return state.bfloat16().float()


@CHUNKED.instead_of(erased)
def erased_without_fading(keys: Any, fades: Any) -> Any:
    """Within a chunk values are taken out as if nothing had decayed since they were written."""
    return (keys @ keys.mT).tril(-1)


@CHUNKED.instead_of(erased)
def nothing_erased_within(keys: Any, fades: Any) -> Any:
    """The tokens of one chunk take nothing out of each other."""
    return 0 * fades
