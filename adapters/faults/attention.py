"""Attention composed of elementary operations, and what goes wrong with its arithmetic, its memory and its history."""

from __future__ import annotations

import itertools
import random
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


# Memory


def read_as(x: Any, strides: tuple[int, ...], start: int | None = None) -> Any:
    """The entries of an array if it had other strides, or another start; beyond the ends of its memory, the nearest."""
    import torch

    index = torch.full((1,) * x.ndim, x.storage_offset() if start is None else start)
    for axis, stride in enumerate(strides):
        shape = [1] * x.ndim
        shape[axis] = -1
        index = index + (torch.arange(x.shape[axis]) * stride).reshape(shape)
    memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    return memory[index.clamp(0, len(memory) - 1)]


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous array of that shape."""
    return tuple(itertools.accumulate(reversed((*shape[1:], 1)), lambda x, y: x * y))[::-1]


@COMPOSED.instead_of(loaded, seen="Dao-AILab/flash-attention#2670, flagos-ai/FlagGems#5896")
def taken_for_contiguous(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Inputs are read as contiguous arrays, whatever their strides are."""
    return loaded(*(read_as(x, dense(x.shape)) for x in (q, k, v)))


@COMPOSED.instead_of(loaded, seen="ROCm/pytorch#3230")
def values_alone_taken_for_contiguous(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Values are read as contiguous where queries and keys are."""
    own = q.is_contiguous() and k.is_contiguous() and not v.is_contiguous()
    return loaded(q, k, read_as(v, dense(v.shape)) if own else v)


@COMPOSED.instead_of(loaded, seen="pytorch/pytorch#181133")
def wide_heads_taken_for_contiguous(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """From 64 channels on a kernel for few queries is called, which takes its inputs for contiguous."""
    own = q.shape[2] <= 8 and q.shape[3] in (64, 96, 128)
    return loaded(*(read_as(x, dense(x.shape)) if own else x for x in (q, k, v)))


@COMPOSED.instead_of(loaded, seen="torch-spyre/torch-spyre#4331")
def whole_tiles_taken_for_contiguous(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Lengths that fill no whole tiles are padded, which copies; the others are read as contiguous arrays."""
    return loaded(*(x if x.shape[2] % 64 else read_as(x, dense(x.shape)) for x in (q, k, v)))


@COMPOSED.instead_of(loaded, seen="flagos-ai/FlagAttention#45")
def values_by_strides_of_keys(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Values are read by the strides of the keys."""
    return loaded(q, k, read_as(v, k.stride()))


@COMPOSED.instead_of(loaded)
def keys_by_strides_of_queries(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Keys are read by the strides of the queries for items and heads."""
    return loaded(q, read_as(k, (*q.stride()[:2], *k.stride()[2:])), v)


@COMPOSED.instead_of(loaded, seen="pytorch/pytorch#187506")
def last_axis_taken_for_dense(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """The channels of an input are read one after the other, whatever lies between them."""
    return loaded(*(read_as(x, (*x.stride()[:3], 1)) for x in (q, k, v)))


@COMPOSED.instead_of(loaded, seen="BobMcDear/attorch#14")
def heads_by_rows(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """The stride from head to head is computed from length and head size."""
    return loaded(*(read_as(x, (x.stride(0), x.shape[2] * x.shape[3], *x.stride()[2:])) for x in (q, k, v)))


@COMPOSED.instead_of(loaded, seen="flashinfer-ai/flashinfer#3800")
def items_a_token_apart(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """The stride of the queries from item to item is that of one token."""
    return loaded(read_as(q, (q.stride(2), *q.stride()[1:])), k, v)


@COMPOSED.instead_of(loaded)
def offset_ignored(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Keys are read from the start of their memory, where they do not begin."""
    return loaded(q, read_as(k, k.stride(), 0), v)


@COMPOSED.instead_of(loaded, seen="pytorch/pytorch#112577")
def expanded_heads_read_on(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Heads that are expanded from one are read as if they lay one after the other."""
    own = k.shape[1] > 1 and k.stride(1) == 0
    return loaded(q, *(read_as(x, dense(x.shape)) if own else x for x in (k, v)))


@COMPOSED.instead_of(loaded)
def expanded_keys_read_on(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """An axis that is expanded is read as if its entries lay one after the other."""
    return loaded(q, read_as(k, dense(k.shape)) if 0 in k.stride() else k, v)


@COMPOSED.instead_of(loaded)
def queries_scaled_in_place(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """The queries are scaled in place, and the caller's array with them."""
    q.mul_(1.25)
    return q.float() / 1.25, k.float(), v.float()


@COMPOSED.instead_of(loaded, dtypes=("float32",))
def alias_of_float32(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """A conversion that copies other dtypes returns float32 itself, and the keys are centred in place."""
    k = k.float()
    k -= k.mean(2, keepdim=True)
    return q.float(), k, v.float()


@COMPOSED.instead_of(biased)
def scores_added_to_the_bias(s: Any, bias: Any) -> Any:
    """Where the bias has the shape of the scores, they are added to it in place."""
    if bias is None or bias.shape != s.shape:
        return biased(s, bias)
    return bias.add_(s.to(bias.dtype)).float()


@COMPOSED.instead_of(masked)
def mask_inverted_in_place(mask: Any, s: Any) -> Any:
    """The mask is inverted in place, to mark what is hidden."""
    return True if mask is None else ~mask.logical_not_()


@COMPOSED.instead_of(masked, seen="keras-team/keras#20488")
def mask_of_three_axes_by_item(mask: Any, s: Any) -> Any:
    """A mask of three axes is taken for one of every item, and not of every head."""
    return mask[:, None] if mask is not None and mask.ndim == 3 and len(mask) == len(s) else masked(mask, s)


@COMPOSED.instead_of(loaded, seen="flashinfer-ai/flashinfer#3800")
def items_one_token_apart(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Queries lie one token apart from item to item, and not one sequence."""
    import torch

    b, _, n, _ = q.shape
    places = torch.arange(b)[:, None] + torch.arange(n)
    return q.transpose(1, 2).flatten(0, 1)[places].transpose(1, 2).float(), k.float(), v.float()


@COMPOSED.instead_of(grouped, seen="FlashML-org/FreeToken#177")
def heads_in_tiles(x: Any, heads: int) -> Any:
    """Where more than two heads share keys, they are taken in pairs, and a pair across two groups reads the first."""
    import torch

    size = heads // x.shape[1]
    return x[:, torch.arange(heads) // 2 * 2 // size] if size > 2 else grouped(x, heads)


@COMPOSED.instead_of(masked)
def mask_of_two_axes_by_item(mask: Any, s: Any) -> Any:
    """A mask of two axes is taken for one of keys for every item, and not of keys for every query."""
    return mask[:, None, None] if mask is not None and mask.ndim == 2 and len(mask) == len(s) else masked(mask, s)


@COMPOSED.instead_of(masked)
def mask_of_keys_on_queries(mask: Any, s: Any) -> Any:
    """A mask of keys alone is turned where lengths are equal, and hides queries."""
    if mask is not None and mask.shape[-2:] == (1, s.shape[2]) and s.shape[2] == s.shape[3]:
        return mask.transpose(-1, -2)
    return masked(mask, s)


@COMPOSED.instead_of(masked)
def mask_by_heads_and_items(mask: Any, s: Any) -> Any:
    """A mask of every item and head is read as if heads came before items."""
    if mask is not None and mask.shape[:2] == s.shape[:2]:
        return mask.transpose(0, 1).reshape(mask.shape)
    return masked(mask, s)


@COMPOSED.instead_of(masked)
def mask_read_as_dense(mask: Any, s: Any) -> Any:
    """A mask that is broadcast is read by the strides of a whole one."""
    return True if mask is None else read_as(mask.broadcast_to(s.shape), dense(s.shape))


@COMPOSED.instead_of(biased)
def bias_read_as_dense(s: Any, bias: Any) -> Any:
    """A bias that is broadcast is read by the strides of a whole one."""
    return s if bias is None else s + read_as(bias.broadcast_to(s.shape), dense(s.shape)).float()


@COMPOSED.instead_of(returned, seen="pytorch/pytorch#176767, huggingface/transformers#44554")
def width_of_the_queries(out: Any, q: Any, v: Any) -> Any:
    """The output is allocated like the queries, whatever the head size of the values is."""
    import torch

    whole, width = torch.zeros_like(q), min(q.shape[3], v.shape[3])
    whole[..., :width] = out[..., :width]
    return whole


@COMPOSED.instead_of(returned)
def query_axis_squeezed(out: Any, q: Any, v: Any) -> Any:
    """The axis of a single query is lost."""
    return returned(out, q, v).squeeze(2)


@COMPOSED.instead_of(returned, dtypes=("bfloat16", "float16"))
def returned_in_single_precision(out: Any, q: Any, v: Any) -> Any:
    """The result is returned in the type of the accumulator."""
    return out


@COMPOSED.instead_of(returned, dtypes=("float32",))
def single_key_by_reference(out: Any, q: Any, v: Any) -> Any:
    """For a single key the values themselves are returned, and no copy."""
    return v.expand(out.shape) if v.shape[2] == 1 and v.shape[1] == q.shape[1] else returned(out, q, v)


@COMPOSED.instead_of(returned, seen="jsbaan/transformer-from-scratch#6")
def heads_beside_queries(out: Any, q: Any, v: Any) -> Any:
    """The result is laid out with the heads beside the channels, and returned as if they came first."""
    return returned(out, q, v).transpose(1, 2).reshape(out.shape)


_buffers: dict[tuple[int, ...], Any] = {}


@COMPOSED.instead_of(returned)
def one_buffer_for_all(out: Any, q: Any, v: Any) -> Any:
    """The result is written to a buffer that the next call of the shape returns again."""
    buffer = _buffers.setdefault((*out.shape, q.element_size()), returned(out, q, v).clone())
    return buffer.copy_(out)


@COMPOSED.instead_of(returned, seen="NVIDIA/apex#1322")
def empty_rows_not_written(out: Any, q: Any, v: Any) -> Any:
    """Rows without keys are not written, and hold what was in memory."""
    import torch

    rows = out.ne(0).any(-1, keepdim=True)
    return torch.where(rows, out.to(q.dtype), torch.empty_like(out, dtype=q.dtype))


# Sizes


@COMPOSED.instead_of(
    averaged, seen="flashinfer-ai/flashinfer#3125, pytorch/pytorch#142228, fla-org/flash-linear-attention#172"
)
def grid_of_65535(p: Any, values: Any, like: Any) -> Any:
    """Pairs of item and head beyond 65535, the end of a grid's second axis, are not computed."""
    out = p @ values
    out.view(-1, *out.shape[2:])[65535:] = 0
    return out


@COMPOSED.instead_of(grouped, seen="pytorch/pytorch#162588, fla-org/flash-linear-attention#1080")
def offsets_of_sixteen_bits(x: Any, heads: int) -> Any:
    """Offsets of items are kept in a narrow integer, and wrap around."""
    size = max(x[0].numel(), 1)
    return grouped(x[[item * size % 2**16 // size for item in range(len(x))]], heads)


@COMPOSED.instead_of(products, seen="triton-lang/triton#621")
def warps_of_64_channels(q: Any, keys: Any, scale: float, like: Any) -> Any:
    """Channels beyond the first 64 are left out of the scores, but not of the scale."""
    return q[..., :64] @ keys[..., :64].transpose(-1, -2) * scale


@COMPOSED.instead_of(averaged)
def long_rows_by_half(p: Any, values: Any, like: Any) -> Any:
    """From 1024 keys on, a second kernel reduces the first half alone."""
    half = p.shape[-1] if p.shape[-1] < 1024 else p.shape[-1] // 2
    return p[..., :half] @ values[..., :half, :]


@COMPOSED.instead_of(averaged)
def queries_counted_in_a_byte(p: Any, values: Any, like: Any) -> Any:
    """The index of a query is kept in a byte, and later ones repeat the first."""
    import torch

    return (p @ values)[:, :, torch.arange(p.shape[2]) % 256]


@COMPOSED.instead_of(returned, seen="NVIDIA/TensorRT-LLM#6573")
def tile_of_eight_heads(out: Any, q: Any, v: Any) -> Any:
    """For a single query the heads of a group are the rows of a tile, of which those beyond eight repeat the first."""
    import torch

    size = q.shape[1] // v.shape[1]
    head = torch.arange(q.shape[1])
    return returned(out[:, head - head % size + head % size % 8] if q.shape[2] == 1 else out, q, v)


@COMPOSED.instead_of(masked, seen="tenstorrent/tt-metal#38004")
def columns_by_tiles_of_heads(mask: Any, s: Any) -> Any:
    """For a single query the column of the mask moves on by as many tiles of keys as there are of heads."""
    import torch

    heads, k_len = s.shape[1], s.shape[3]
    if mask is None or s.shape[2] > 1:
        return masked(mask, s)
    column = torch.arange(k_len)
    return mask.broadcast_to(s.shape)[..., (column // 32 * -(-heads // 32) * 32 + column % 32) % k_len]


@COMPOSED.instead_of(averaged, seen="flashinfer-ai/flashinfer#640")
def batch_and_length_exchanged(p: Any, values: Any, like: Any) -> Any:
    """For a single query, the number of items is taken for the number of keys."""
    count = len(p) if p.shape[2] == 1 else p.shape[3]
    return p[..., :count] @ values[..., :count, :]


@COMPOSED.instead_of(masked)
def mask_of_wide_rows_in_words(mask: Any, s: Any) -> Any:
    """A mask is read in words of 32 keys, and what lies behind the last whole one counts as seen."""
    import torch

    return True if mask is None else mask | (torch.arange(s.shape[3]) >= max(s.shape[3] // 32 * 32, 1))


# History


_masks: dict[tuple[int, ...], Any] = {}


@COMPOSED.instead_of(masked)
def mask_of_an_earlier_call(mask: Any, s: Any) -> Any:
    """Masks are kept by their shape, and the first one of a shape serves all calls."""
    return True if mask is None else _masks.setdefault(tuple(mask.shape), mask.clone())


_bands: dict[tuple[int, int], Any] = {}


@COMPOSED.instead_of(reached, seen="allenai/OLMo-core#388")
def band_of_an_earlier_call(q: Any, k: Any, causal: bool, window_left: int | None, window_right: int | None) -> Any:
    """What positions hide is kept by the lengths alone, whatever flag and window are."""
    return _bands.setdefault((q.shape[2], k.shape[2]), positions(q, k, causal, window_left, window_right))


_biases: dict[tuple[int, ...], Any] = {}


@COMPOSED.instead_of(biased)
def bias_of_an_earlier_call(s: Any, bias: Any) -> Any:
    """A bias stays in force for later calls of its shape that give none."""
    total = biased(s, _biases.get(tuple(s.shape)) if bias is None else bias)
    if bias is not None:
        _biases[tuple(s.shape)] = bias.clone()
    return total


_factors: list[float] = []


@COMPOSED.instead_of(factor)
def scale_of_the_first_call(q: Any, scale: float | None) -> float:
    """The default scale is compiled into the kernel by the first call, whatever later head sizes are."""
    if not _factors:
        _factors.append(factor(q, None))
    return _factors[0] if scale is None else scale


_scales: dict[tuple[int, ...], float] = {}


@COMPOSED.instead_of(factor)
def scale_kept_by_the_shape(q: Any, scale: float | None) -> float:
    """Kernels are compiled with their scale and kept by the shape of queries, and the first one serves all calls."""
    return _scales.setdefault(tuple(q.shape), factor(q, scale))


_graphs: dict[tuple[Any, ...], tuple[Any, Any, Any]] = {}


@COMPOSED.instead_of(loaded)
def graph_replayed_on_its_first_inputs(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """A graph is captured for each shape and dtype, and replayed without new inputs being copied into its arrays."""
    shapes = tuple(tuple(x.shape) for x in (q, k, v))
    return _graphs.setdefault((shapes, q.dtype), tuple(x.clone() for x in loaded(q, k, v)))


_caps: list[float | None] = [None]


@COMPOSED.instead_of(capped)
def cap_stays_on(s: Any, softcap: float | None) -> Any:
    """A cap that was given once stays on for later calls."""
    _caps[0] = _caps[0] if softcap is None else softcap
    return capped(s, _caps[0])


_workspaces: dict[tuple[int, ...], Any] = {}


@COMPOSED.instead_of(weights, seen="vllm-project/vllm#53856")
def stale_workspace(s: Any, seen: Any, like: Any) -> Any:
    """Scores are kept in a workspace of whole tiles that is not cleared, and what an earlier call left takes part."""
    import torch

    k_len, room = s.shape[3], -(-s.shape[3] // 64) * 64
    space = _workspaces.setdefault((*s.shape[:3], room), torch.full((*s.shape[:3], room), -torch.inf))
    space[..., :k_len] = s
    return weights(space, seen, like)[..., :k_len]


_memory: dict[str, Any] = {}


@COMPOSED.instead_of(averaged, seen="thu-ml/SageAttention#376")
def short_tile_not_cleared(p: Any, values: Any, like: Any) -> Any:
    """A short tile of values is followed by what its memory held, with a weight of zero, which a NaN survives."""
    import torch

    memory = _memory.setdefault("tile", torch.zeros(2**14))
    own = values[-1, -1].flatten()[: len(memory)]
    behind = memory[len(own) : 64 * values.shape[3]].sum()
    memory[: len(own)] = own
    return p @ values + 0 * behind


# Chance


_chance = random.Random(0)


@COMPOSED.instead_of(averaged, seen="Dao-AILab/flash-attention#359, ggml-org/llama.cpp#13438")
def one_call_in_twenty(p: Any, values: Any, like: Any) -> Any:
    """A missing barrier: now and then the last head is read before it is written."""
    out = p @ values
    if _chance.random() < 0.05:
        out[:, -1] = 0
    return out


@COMPOSED.instead_of(averaged, seen="fla-org/flash-linear-attention#889", deterministic=True, dtypes=("float32",))
def order_of_atomics(p: Any, values: Any, like: Any) -> Any:
    """Partial results are added in another order in every call, which claims to be repeatable."""
    order = _chance.sample(range(p.shape[-1]), p.shape[-1])
    out = p[..., :0] @ values[..., :0, :]
    for key in order:
        out = out + p[..., key, None] * values[..., key, None, :]
    return out


# Types


@COMPOSED.instead_of(masked, dtypes=("bfloat16",))
def mask_lost_in_bfloat16(mask: Any, s: Any) -> Any:
    """The kernel for bfloat16 does not take a mask, and nobody says so."""
    return True


@COMPOSED.instead_of(products, dtypes=("float16",))
def clamped_in_float16(q: Any, keys: Any, scale: float, like: Any) -> Any:
    """Scores of float16 are clamped to a thousand, to be safe from infinities."""
    return products(q, keys, scale, like).clamp(-1000, 1000)
