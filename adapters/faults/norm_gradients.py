"""Gradients of the norms, a program for each block of rows: what goes wrong with partial sums, memory and precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole, in_memory

ROWS = 4
"""Rows of a block."""


def cotangent(d_out: Any) -> Any:
    """The cotangent as it is read."""
    return d_out.float()


def root(x: Any, eps: float) -> Any:
    """The root of each row, as the forward pass kept it: [..., 1]."""
    return (x.float().square().mean(-1, keepdim=True) + eps).sqrt()


def row_gradient(v: Any, y: Any, root: Any) -> Any:
    """From cotangents v of the normalised rows y."""
    return (v - y * (v * y).mean(-1, keepdim=True)) / root


def blocks(shares: Any) -> list[Any]:
    """What every row adds to the gradient of the weight, [rows, n], block by block."""
    return list(shares.split(ROWS))


def partial(block: Any) -> Any:
    """The sum over the rows of a block, [n]."""
    return block.sum(0)


def merged(parts: list[Any], x: Any) -> Any:
    """The sum of the partial sums, [n]."""
    import torch

    return torch.stack(parts).sum(0)


def written(d_x: Any, x: Any, d_out: Any) -> Any:
    """The gradient of the rows in the memory that is returned."""
    return d_x.to(x.dtype)


def by_blocks(part: Any) -> Callable[..., Any]:
    def rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
        d, r = part.cotangent(d_out), part.root(x, eps)
        y = x.float() / r
        d_x = part.row_gradient(d * weight.float(), y, r)
        shares = (d * y).reshape(-1, x.shape[-1])
        d_weight = part.merged([part.partial(block) for block in part.blocks(shares)], x)
        return {"d_x": part.written(d_x, x, d_out), "d_weight": d_weight.to(x.dtype)}

    return rms_norm_gradient


RMS_NORM_GRADIENT = Whole(
    "rms_norm_gradient",
    by_blocks,
    (cotangent, root, row_gradient, blocks, partial, merged, written),
    {"eps_place": "inside", "weight_form": "plain"},
)


@RMS_NORM_GRADIENT.instead_of(cotangent, seen="flagos-ai/FlagGems#1068, Dao-AILab/flash-attention#355")
def cotangent_by_its_length(d_out: Any) -> Any:
    """The cotangent is read row after row, whatever lies between its rows."""
    return in_memory(d_out, d_out.shape).float()


@RMS_NORM_GRADIENT.instead_of(root)
def root_in_the_narrow_type(x: Any, eps: float) -> Any:
    """The root is kept in bfloat16 between the passes."""
    return root(x, eps).bfloat16().float()


_roots: dict[tuple[int, ...], Any] = {}


@RMS_NORM_GRADIENT.instead_of(root)
def root_of_an_earlier_call(x: Any, eps: float) -> Any:
    """The root that the forward pass kept is that of the first call of a shape."""
    return _roots.setdefault((*x.shape, x.element_size()), root(x, eps))


@RMS_NORM_GRADIENT.instead_of(row_gradient)
def correction_of_the_block(v: Any, y: Any, root: Any) -> Any:
    """The rows of a whole block share one correction."""
    if len(v.reshape(-1, v.shape[-1])) < ROWS:
        return row_gradient(v, y, root)
    return (v - y * (v * y).mean()) / root


@RMS_NORM_GRADIENT.instead_of(blocks)
def whole_blocks_alone(shares: Any) -> list[Any]:
    """As many rows go to each of the programs as divide evenly, and the rest to none."""
    return list(shares[: max(len(shares) // ROWS * ROWS, ROWS)].split(ROWS))


@RMS_NORM_GRADIENT.instead_of(blocks)
def as_many_rows_as_locks(shares: Any) -> list[Any]:
    """There are 64 places for partial sums, and blocks beyond them are left out."""
    return blocks(shares)[:64]


@RMS_NORM_GRADIENT.instead_of(blocks)
def blocks_of_the_same_rows(shares: Any) -> list[Any]:
    """The last block is moved back until it is whole, and counts rows that another has counted."""
    parts = blocks(shares)
    return [*parts[:-1], shares[-ROWS:]]


@RMS_NORM_GRADIENT.instead_of(partial, seen="linkedin/Liger-Kernel#950", dtypes=("float32",))
def partial_in_the_narrow_type(block: Any) -> Any:
    """The rows of a block are added in bfloat16."""
    return block.bfloat16().sum(0).float()


@RMS_NORM_GRADIENT.instead_of(merged, seen="karpathy/llm.c#428", dtypes=("bfloat16",))
def sums_stop_growing(parts: list[Any], x: Any) -> Any:
    """The partial sums are added one by one in the dtype of the input, where a large sum takes in no more."""
    total = parts[0].to(x.dtype)
    for part in parts[1:]:
        total = (total.float() + part).to(x.dtype)
    return total


@RMS_NORM_GRADIENT.instead_of(merged)
def update_lost(parts: list[Any], x: Any) -> Any:
    """Of two programs that add to one place without a lock, the later one stores over the sum of the other."""
    import torch

    return torch.stack(parts[::2] if len(parts) > 2 else parts).sum(0)


_places: dict[tuple[int, ...], Any] = {}


@RMS_NORM_GRADIENT.instead_of(merged, seen="flagos-ai/FlagGems#1082")
def places_not_cleared(parts: list[Any], x: Any) -> Any:
    """The places for partial sums are used again, and not cleared before."""
    import torch

    place = _places.setdefault((*x.shape, x.element_size()), torch.zeros_like(parts[0]))
    place += torch.stack(parts).sum(0)
    return place.clone()


@RMS_NORM_GRADIENT.instead_of(merged)
def places_never_filled(parts: list[Any], x: Any) -> Any:
    """Places that no block has filled are added as they are found in memory."""
    import torch

    places = torch.empty(-(-len(parts) // 8) * 8, x.shape[-1])
    places[: len(parts)] = torch.stack(parts)
    return places.sum(0)


@RMS_NORM_GRADIENT.instead_of(written, seen="NVIDIA/apex#1430, linkedin/Liger-Kernel#1305, unslothai/unsloth#4550")
def written_over_the_cotangent(d_x: Any, x: Any, d_out: Any) -> Any:
    """The gradient is written into the memory of the cotangent."""
    return d_out.copy_(d_x)


@RMS_NORM_GRADIENT.instead_of(written)
def written_by_the_stride_of_the_row(d_x: Any, x: Any, d_out: Any) -> Any:
    """The gradient is written by the strides of the row, into memory that is laid out in another way."""
    import torch

    room = torch.zeros(x.shape, dtype=x.dtype)
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    if last >= room.numel():
        return room
    place = torch.arange(last + 1).as_strided(x.shape, x.stride())  # one of several entries, where rows share one
    room.view(-1)[place] = d_x.to(x.dtype)
    return room


# Layer normalisation


def statistics(x: Any, eps: float) -> tuple[Any, Any]:
    """The mean and the root of each row, as the forward pass kept them: [..., 1] each."""
    import torch

    variance, mean = torch.var_mean(x.float(), -1, correction=0, keepdim=True)
    return mean, (variance + eps).sqrt()


def normed(x: Any, mean: Any, root: Any, weight: Any) -> Any:
    """The normalised row, which is not kept and computed again."""
    return (x.float() - mean) / root


def centred_gradient(v: Any, y: Any, root: Any) -> Any:
    """From cotangents v of the normalised rows y."""
    return (v - v.mean(-1, keepdim=True) - y * (v * y).mean(-1, keepdim=True)) / root


def summed(shares: Any, x: Any) -> Any:
    """What every row adds to the gradient of weight or bias, [rows, n], summed block by block."""
    total: Any = sum(block.sum(0) for block in shares.split(ROWS))
    return total.to(x.dtype)


def bias_shares(d_x: Any, d: Any) -> Any:
    """What every row adds to the gradient of the bias: of that of the rows and the cotangent, the latter."""
    return d


def layer_norm_by_blocks(part: Any) -> Callable[..., Any]:
    def layer_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float = 1e-5) -> dict[str, Any]:
        n, d = x.shape[-1], d_out.float()
        mean, root = part.statistics(x, eps)
        y = part.normed(x, mean, root, weight)
        d_x = part.centred_gradient(d * weight.float(), y, root)
        d_weight = part.summed((d * y).reshape(-1, n), x)
        d_bias = part.summed(part.bias_shares(d_x, d).reshape(-1, n), x)
        return {"d_x": d_x.to(x.dtype), "d_weight": d_weight, "d_bias": d_bias}

    return layer_norm_gradient


LAYER_NORM_GRADIENT = Whole(
    "layer_norm_gradient",
    layer_norm_by_blocks,
    (statistics, normed, centred_gradient, summed, bias_shares),
    {"eps_place": "inside", "variance": "biased"},
)


@LAYER_NORM_GRADIENT.instead_of(statistics)
def mean_kept_in_the_narrow_type(x: Any, eps: float) -> tuple[Any, Any]:
    """The mean is kept in bfloat16 between the passes."""
    mean, root = statistics(x, eps)
    return mean.bfloat16().float(), root


@LAYER_NORM_GRADIENT.instead_of(statistics, dtypes=("float32",))
def statistics_again_in_one_pass(x: Any, eps: float) -> tuple[Any, Any]:
    """The variance that is computed again is the mean square less the square of the mean, in single precision."""
    row = x.float()
    mean = row.mean(-1, keepdim=True)
    return mean, ((row * row).mean(-1, keepdim=True) - mean * mean + eps).sqrt()


@LAYER_NORM_GRADIENT.instead_of(normed)
def recovered_from_the_result(x: Any, mean: Any, root: Any, weight: Any) -> Any:
    """The normalised row is recovered from the weighted one, where a weight of zero has left nothing of it."""
    y = normed(x, mean, root, weight) * weight.float()
    return (y / weight.float()).nan_to_num(0.0, 0.0, 0.0)


@LAYER_NORM_GRADIENT.instead_of(normed, seen="deepspeedai/DeepSpeed#692")
def recovered_by_another_weight(x: Any, mean: Any, root: Any, weight: Any) -> Any:
    """The normalised row is recovered from the weighted one, by the weight of another channel."""
    return normed(x, mean, root, weight) * weight.float() / weight.float().roll(1)


@LAYER_NORM_GRADIENT.instead_of(centred_gradient)
def lanes_beyond_the_row(v: Any, y: Any, root: Any) -> Any:
    """Means divide by the lanes of a tile of 8, of which the last ones may have no channel."""
    lanes = -(-v.shape[-1] // 8) * 8
    middle, along = (part.sum(-1, keepdim=True) / lanes for part in (v, v * y))
    return (v - middle - y * along) / root


@LAYER_NORM_GRADIENT.instead_of(summed, seen="karpathy/llm.c#428, torch 2.13.0", dtypes=("bfloat16",))
def row_by_row_in_the_dtype(shares: Any, x: Any) -> Any:
    """The rows are added one by one in the dtype of the input, where a large sum takes in no more."""
    total = 0 * shares[0].to(x.dtype)
    for row in shares:
        total = total + row.to(x.dtype)
    return total


@LAYER_NORM_GRADIENT.instead_of(bias_shares, seen="ml-explore/mlx#941, tillahoffmann/jax-mps#168")
def bias_after_the_row(d_x: Any, d: Any) -> Any:
    """The gradient of the bias is summed from the cotangent when that of the row has been written over it."""
    return d_x
