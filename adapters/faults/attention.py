"""Attention composed of elementary operations, and what goes wrong with its arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import positions
from .whole import Whole

CONVENTIONS = {
    "causal_alignment": "bottom_right",
    "empty_row": "zeros",
    "masked_nonfinite": "propagates",
    "grouping": "block",
    "lse_base": "natural",
}


def loaded(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """The inputs as they are reckoned with."""
    return q.float(), k.float(), v.float()


def grouped(x: Any, heads: int) -> Any:
    return x.repeat_interleave(heads // x.shape[1], 1)


def factor(q: Any, scale: float | None) -> float:
    return float(q.shape[3] ** -0.5 if scale is None else scale)


def products(q: Any, keys: Any, scale: float, like: Any) -> Any:
    """The scaled scores."""
    return q @ keys.transpose(-1, -2) * scale


def capped(s: Any, softcap: float | None) -> Any:
    import torch

    return s if softcap is None else softcap * torch.tanh(s / softcap)


def biased(s: Any, bias: Any) -> Any:
    return s if bias is None else s + bias.float()


def reached(q: Any, k: Any, causal: bool, window_left: int | None, window_right: int | None) -> Any:
    """The keys that a query reaches by position: [q_len, k_len]."""
    return positions(q, k, causal, window_left, window_right)


def masked(mask: Any, s: Any) -> Any:
    """The mask as it is combined with what positions hide."""
    return True if mask is None else mask


def hidden(s: Any, seen: Any, reached: Any, mask: Any) -> Any:
    import torch

    return s.masked_fill(~seen, -torch.inf)


def weights(s: Any, seen: Any, like: Any) -> Any:
    import torch

    top = s.amax(-1, keepdim=True)
    p = (s - top.masked_fill(top == -torch.inf, 0.0)).exp()
    sums = p.sum(-1, keepdim=True)
    return torch.where(sums > 0, p / torch.where(sums > 0, sums, 1.0), 0.0)


def averaged(p: Any, values: Any, like: Any) -> Any:
    return p @ values


def returned(out: Any, q: Any, v: Any) -> Any:
    return out.to(q.dtype)


def composed(part: Any) -> Callable[..., Any]:
    def attention(
        q: Any,
        k: Any,
        v: Any,
        *,
        mask: Any = None,
        bias: Any = None,
        causal: bool = False,
        window_left: int | None = None,
        window_right: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
    ) -> Any:
        queries, keys, values = part.loaded(q, k, v)
        keys, values = (part.grouped(x, q.shape[1]) for x in (keys, values))
        s = part.products(queries, keys, part.factor(q, scale), q)
        s = part.biased(part.capped(s, softcap), bias)
        reached = part.reached(q, k, causal, window_left, window_right)
        own = part.masked(mask, s)
        seen = (reached & own).broadcast_to(s.shape)
        p = part.weights(part.hidden(s, seen, reached, own), seen, q)
        return part.returned(part.averaged(p, values, q), q, v)

    return attention


COMPOSED = Whole(
    "attention",
    composed,
    (loaded, grouped, factor, products, capped, biased, reached, masked, hidden, weights, averaged, returned),
    CONVENTIONS,
)


# Arithmetic


@COMPOSED.instead_of(averaged)
def added_up_in_half_precision(p: Any, values: Any, like: Any) -> Any:
    """Products of weights and values are added up one by one in float16."""
    import torch

    total = torch.zeros(*p.shape[:-1], values.shape[-1], dtype=torch.float16)
    for key in range(p.shape[-1]):
        total += (p[..., key, None] * values[..., key, None, :]).half()
    return total.float()


@COMPOSED.instead_of(averaged, dtypes=("float32", "float16"))
def weights_of_eight_bits(p: Any, values: Any, like: Any) -> Any:
    """Weights and values meet in bfloat16, whatever the inputs are."""
    return p.bfloat16().float() @ values.bfloat16().float()


@COMPOSED.instead_of(averaged)
def weights_in_steps_of_a_byte(p: Any, values: Any, like: Any) -> Any:
    """Weights are stored in steps of 1/255, and small ones vanish."""
    return (p * 255).round() / 255 @ values


@COMPOSED.instead_of(
    products,
    seen="philipturner/metal-flash-attention#8, mlc-ai/mlc-llm#1638, stanford-crfm/mistral#66",
    dtypes=("float16",),
)
def overflow_before_the_scale(q: Any, keys: Any, scale: float, like: Any) -> Any:
    """Products are stored in the dtype of the inputs before they are scaled, beyond which float16 overflows."""
    return (q @ keys.transpose(-1, -2)).to(like.dtype).float() * scale


@COMPOSED.instead_of(products, dtypes=("float32",))
def products_of_eight_bits(q: Any, keys: Any, scale: float, like: Any) -> Any:
    """Queries and keys of float32 are multiplied in bfloat16."""
    return q.bfloat16().float() @ keys.bfloat16().float().transpose(-1, -2) * scale


@COMPOSED.instead_of(products, dtypes=("float32",))
def products_of_eleven_bits(q: Any, keys: Any, scale: float, like: Any) -> Any:
    """Queries and keys of float32 are multiplied with mantissas of ten bits, as in TF32, without saying so."""
    return q.half().float() @ keys.half().float().transpose(-1, -2) * scale


@COMPOSED.instead_of(factor, dtypes=("float32",))
def scale_of_eight_bits(q: Any, scale: float | None) -> float:
    """The scale is rounded to bfloat16."""
    import torch

    return torch.tensor(factor(q, scale)).bfloat16().item()


@COMPOSED.instead_of(factor)
def scale_in_whole_digits(q: Any, scale: float | None) -> float:
    """The root of the head size is rounded to an integer."""
    return 1 / round(q.shape[3] ** 0.5) if scale is None else scale


@COMPOSED.instead_of(hidden, seen="NVIDIA-NeMo/Automodel#2658, EleutherAI/gpt-neox#25")
def lowest_number_added_twice(s: Any, seen: Any, reached: Any, mask: Any) -> Any:
    """The lowest number is added once for each mask that hides a key, and what is hidden twice is infinitely low."""
    import torch

    low = torch.finfo(torch.float32).min
    twice = (~reached).float() * low + (~torch.as_tensor(mask)).float() * low
    return (s + twice).masked_fill(~seen & (s + twice > 2 * low), low)


@COMPOSED.instead_of(hidden, seen="keras 3.15.1")
def lowest_number_of_half_precision(s: Any, seen: Any, reached: Any, mask: Any) -> Any:
    """Hidden keys get the lowest number of float16, below which scores of float32 lie."""
    return s.masked_fill(~seen, -65504.0)


@COMPOSED.instead_of(hidden, seen="onnxruntime 1.31.1")
def large_number_taken_off(s: Any, seen: Any, reached: Any, mask: Any) -> Any:
    """Ten thousand is taken off the scores of hidden keys, and scores that differ by more show through."""
    return s - 10000.0 * (~seen)


@COMPOSED.instead_of(hidden)
def hidden_once_for_each_mask(s: Any, seen: Any, reached: Any, mask: Any) -> Any:
    """Nine is taken off for each mask that hides a key, so that hidden once and hidden twice are told apart."""
    import torch

    return s - 9.0 * (~reached).float() - 9.0 * (~torch.as_tensor(mask)).float()


@COMPOSED.instead_of(weights)
def maximum_over_hidden_keys(s: Any, seen: Any, like: Any) -> Any:
    """The maximum is taken of scores of zero where keys are hidden, and low scores vanish."""
    import torch

    p = (s - s.masked_fill(~seen, 0.0).amax(-1, keepdim=True)).exp()
    sums = p.sum(-1, keepdim=True)
    return torch.where(sums > 0, p / sums, 0.0)


@COMPOSED.instead_of(weights, seen="pytorch/executorch#18407")
def maximum_not_subtracted(s: Any, seen: Any, like: Any) -> Any:
    """Exponentials are taken of the scores as they are, and overflow."""
    p = s.exp()
    return (p / p.sum(-1, keepdim=True)).nan_to_num(0.0)


@COMPOSED.instead_of(weights)
def powers_of_a_rounded_base(s: Any, seen: Any, like: Any) -> Any:
    """Powers of two are taken with a logarithm of e that is rounded to three digits."""
    return weights(s * (1.44 / 1.4426950408889634), seen, like)


@COMPOSED.instead_of(weights, dtypes=("float32",))
def exponential_by_squaring(s: Any, seen: Any, like: Any) -> Any:
    """The exponential is approximated by the 1024th power of 1 + x / 1024."""
    p = (1 + (s - s.amax(-1, keepdim=True)).clamp_min(-1024) / 1024) ** 1024 * seen
    return (p / p.sum(-1, keepdim=True)).nan_to_num(0.0)


@COMPOSED.instead_of(weights)
def sum_in_half_precision(s: Any, seen: Any, like: Any) -> Any:
    """The sum of the weights is kept in float16, one weight after the other, and stops growing at 2048."""
    import torch

    p = (s - s.amax(-1, keepdim=True)).exp().nan_to_num(0.0)
    sums = torch.zeros(*p.shape[:-1], 1, dtype=torch.float16)
    for column in p.split(1, -1):
        sums += column.half()
    return (p / sums.float()).nan_to_num(0.0)


@COMPOSED.instead_of(weights, dtypes=("float32",))
def faint_weights_flushed(s: Any, seen: Any, like: Any) -> Any:
    """Weights below the least normal number of float16 are flushed to zero before they are divided."""
    p = (s - s.amax(-1, keepdim=True)).exp().nan_to_num(0.0)
    sums = p.sum(-1, keepdim=True).clamp_min(1e-30)
    return (p * (p > 6.1e-5)) / sums


@COMPOSED.instead_of(weights, dtypes=("bfloat16", "float16"))
def softmax_in_the_narrow_type(s: Any, seen: Any, like: Any) -> Any:
    """The softmax is computed step by step in the dtype of the inputs."""
    x = s.to(like.dtype)
    p = (x - x.amax(-1, keepdim=True)).exp().nan_to_num(0.0)
    sums = p[..., :1] * 0
    for column in p.split(1, -1):
        sums = sums + column
    return (p / sums).nan_to_num(0.0).float()


@COMPOSED.instead_of(loaded, dtypes=("float64",))
def float64_in_float32(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Inputs of float64 are reckoned with in float32."""
    return loaded(q, k, v)


# Types


@COMPOSED.instead_of(masked, dtypes=("bfloat16",))
def mask_lost_in_bfloat16(mask: Any, s: Any) -> Any:
    """The kernel for bfloat16 does not take a mask, and nobody says so."""
    return True


@COMPOSED.instead_of(products, dtypes=("float16",))
def clamped_in_float16(q: Any, keys: Any, scale: float, like: Any) -> Any:
    """Scores of float16 are clamped to a thousand, to be safe from infinities."""
    return products(q, keys, scale, like).clamp(-1000, 1000)
