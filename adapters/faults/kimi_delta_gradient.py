"""The backward pass of Kimi delta attention in chunks of four tokens, and what goes wrong in it and with its gates.

Gates are looked at as sums from the last token on, which is how chunks find their gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.delta_rule import prepared
from ..controls.kimi_delta_attention import control_kimi_delta_at_once
from .recurrence_gradients import CHUNK, PARTS, carried, in_chunks, saved, stored, tokens
from .whole import Whole

AXES = {"q": 2, "k": 2, "v": 2, "gate": 2, "beta": 2}


def summed(terms: Any, of_queries: Any) -> Any:
    """The gradients of gates from what each token adds to them, and the part of that which is of queries."""
    return terms.flip(2).cumsum(2).flip(2)


def back(part: Any) -> Callable[..., Any]:
    def kimi_delta_attention_gradient(
        q: Any,
        k: Any,
        v: Any,
        gate: Any,
        beta: Any,
        d_out: Any,
        state: Any = None,
        *,
        scale: float | None = None,
        normalise: bool = False,
    ) -> Any:
        import torch

        def chunk(**given: Any) -> Any:
            return control_kimi_delta_at_once(**given, scale=scale, normalise=normalise)

        first = prepared(q, k, v, beta, gate, state, False)[-1].float()
        arrays = {"q": q.float(), "k": k.float(), "v": v.float(), "gate": gate.float(), "beta": beta.float()}
        found = in_chunks(part, chunk, d_out.float(), first, state is not None, AXES, **arrays)
        d_gate = found["d_gate"]
        if not normalise and q.shape[1] == v.shape[1]:
            terms = d_gate - torch.nn.functional.pad(d_gate, (0, 0, 0, 1))[:, :, 1:]
            found["d_gate"] = part.summed(terms, arrays["q"] * found["d_q"])
        given = {"q": q, "k": k, "v": v, "gate": gate, "beta": beta}
        return {name: x.to(given[name[2:]].dtype) if name[2:] in given else x for name, x in found.items()}

    return kimi_delta_attention_gradient


BACK = Whole("kimi_delta_attention_gradient", back, (*PARTS, summed))


@BACK.instead_of(saved, dtypes=("float32",))
def chunks_go_on_from_half_precision(state: Any) -> Any:
    """The states from which chunks are computed once more are kept in bfloat16."""
    return state.bfloat16().float()


@BACK.instead_of(carried)
def worth_does_not_reach_the_chunk_before(worth: Any, later: bool) -> Any:
    """Nothing goes back from one chunk to the one before."""
    return 0 * worth


@BACK.instead_of(tokens, seen="fla-org/flash-linear-attention#1142")
def tokens_off_the_chunks_without_gradients(length: int) -> int:
    """Tokens that do not fill a chunk have no gradient, where there is a whole one."""
    return length // CHUNK * CHUNK or length


@BACK.instead_of(stored, seen="fla-org/flash-linear-attention#913")
def nan_where_a_gradient_cancels(gradient: Any, like: Any) -> Any:
    """What cancels to nothing is divided by itself, and becomes NaN."""
    return stored(gradient * (gradient / gradient), like)


@BACK.instead_of(summed, dtypes=("float32",), seen="meta-pytorch/attention-gym#461")
def products_of_a_token_do_not_cancel(terms: Any, of_queries: Any) -> Any:
    """Products of a token with itself are rounded apart, so that what is to cancel leaves more than the gradient."""
    others = of_queries - terms
    return summed(of_queries.bfloat16().float() - others.bfloat16().float(), of_queries)


@BACK.instead_of(summed)
def gates_summed_within_chunks(terms: Any, of_queries: Any) -> Any:
    """The gradients of gates are sums up to the end of their chunk, and not of the sequence."""
    import torch

    return torch.cat([summed(one, of_queries) for one in terms.split(CHUNK, 2)], 2)
