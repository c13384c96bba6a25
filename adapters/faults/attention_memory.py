"""Attention that reads or writes other memory than it should: strides, layouts of masks, sizes of its indices."""

from __future__ import annotations

import itertools
from typing import Any

from .attention import COMPOSED, averaged, biased, grouped, loaded, masked, products, returned

# Layouts


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
