"""Cross-entropy with the last product in chunks of tokens, and what goes wrong with sums, cotangents and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole

CHUNK = 16


def chunks(x: Any) -> list[Any]:
    """The tokens, sixteen at a time."""
    return list(x.split(CHUNK))


def logits_of(hidden: Any, weight: Any) -> Any:
    """The logits of a chunk of tokens, in float32."""
    return hidden.float() @ weight.float().T


def counted(valid: Any, parts: list[Any]) -> Any:
    """By how many tokens a mean is divided."""
    return valid.sum()


def pull(x: Any, targets: Any, valid: Any) -> Any:
    """The gradients of the losses of a chunk with respect to its logits."""
    import torch

    hot = torch.nn.functional.one_hot(targets.where(valid, 0), x.shape[1])
    return (x.softmax(1) - hot) * valid[:, None]


def multiplied(d_logits: Any, d_out: Any, first: int) -> Any:
    """The same times the gradient of the loss: one number, or one for each token of the chunk from `first` on."""
    return d_logits * (d_out if d_out.ndim == 0 else d_out[first : first + len(d_logits), None])


def into_weight(total: Any, d_logits: Any, hidden: Any) -> Any:
    """The gradient of the weight with what a chunk gives."""
    return total + d_logits.T @ hidden.float()


def cleared(weight: Any) -> Any:
    import torch

    return torch.zeros(weight.shape)


def stored(x: Any, like: Any) -> Any:
    return x.to(like.dtype)


def backward(part: Any) -> Callable[..., Any]:
    def linear_cross_entropy_gradient(
        hidden: Any, weight: Any, targets: Any, d_out: Any, *, ignore_index: int = -100, reduction: str = "mean"
    ) -> Any:
        import torch

        if len(targets) != len(hidden):
            raise ValueError("every token has a target")
        valid = targets != ignore_index
        parts = part.chunks(hidden)
        share = 1 / part.counted(valid, parts) if reduction == "mean" else 1
        d_weight, d_hidden, first = part.cleared(weight), torch.zeros(hidden.shape), 0
        for h in parts:
            own = slice(first, first + len(h))
            d_logits = part.pull(part.logits_of(h, weight), targets[own], valid[own]) * share
            d_logits = part.multiplied(d_logits, d_out.float(), first)
            d_hidden[own] = d_logits @ weight.float()
            d_weight = part.into_weight(d_weight, d_logits, h)
            first += len(h)
        return {"d_hidden": part.stored(d_hidden, hidden), "d_weight": part.stored(d_weight, weight)}

    return linear_cross_entropy_gradient


FUSED = Whole(
    "linear_cross_entropy_gradient",
    backward,
    (chunks, logits_of, counted, pull, multiplied, into_weight, cleared, stored),
)


@FUSED.instead_of(chunks)
def last_chunk_of_tokens_lost(x: Any) -> list[Any]:
    """Tokens that do not fill a chunk of sixteen are left out, where there is a whole one."""
    return [one for one in x.split(CHUNK) if len(one) == CHUNK] or list(x.split(CHUNK))


@FUSED.instead_of(counted)
def mean_over_chunks_of_tokens(valid: Any, parts: list[Any]) -> Any:
    """The mean is divided as if every token of a whole chunk counted, and the others as they are."""
    return valid[len(valid) // CHUNK * CHUNK :].sum() + len(valid) // CHUNK * CHUNK


@FUSED.instead_of(multiplied, seen="linkedin/Liger-Kernel#968")
def cotangents_of_the_first_chunk(d_logits: Any, d_out: Any, first: int) -> Any:
    """Every chunk is multiplied by the gradients of the losses of the first."""
    return multiplied(d_logits, d_out, 0)


@FUSED.instead_of(multiplied)
def faint_cotangents_in_half_precision(d_logits: Any, d_out: Any, first: int) -> Any:
    """The gradients of logits are rounded to float16 before they are multiplied by that of the loss."""
    return multiplied((d_logits * 2.0**-12).half().float() * 2.0**12, d_out, first)


@FUSED.instead_of(into_weight)
def chunk_writes_over_the_weight(total: Any, d_logits: Any, hidden: Any) -> Any:
    """A chunk writes over what those before it have given the weight."""
    return d_logits.T @ hidden.float()


@FUSED.instead_of(into_weight)
def weight_added_in_eight_bits(total: Any, d_logits: Any, hidden: Any) -> Any:
    """What the chunks give the weight is added up in steps of 1/64."""
    return (64 * into_weight(total, d_logits, hidden)).round() / 64


_weights: dict[Any, Any] = {}


@FUSED.instead_of(cleared)
def weight_of_an_earlier_call(weight: Any) -> Any:
    """The gradient of the weight is added to what the call before left there."""
    import torch

    return _weights.setdefault(tuple(weight.shape), torch.zeros(weight.shape)).add_(2.0**-5)


@FUSED.instead_of(stored, dtypes=("bfloat16", "float16"))
def loss_gradients_in_single_precision(x: Any, like: Any) -> Any:
    """The gradients are returned in float32, whatever the inputs are."""
    return x


@FUSED.instead_of(logits_of)
def gradients_over_hidden(hidden: Any, weight: Any) -> Any:
    """What a token holds is scaled in its own memory before the product, and stays so."""
    found = logits_of(hidden, weight)
    hidden.mul_(2.0)
    return found
