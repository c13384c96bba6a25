"""Softmax and the norms, reduced in blocks, and what goes wrong with moments, epsilon and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole, in_memory

BLOCK = 16


# Softmax, block by block


def blocks(x: Any) -> list[Any]:
    return list(x.split(BLOCK, -1))


def loaded(x: Any) -> Any:
    return x.float()


def greater(top: Any, part: Any) -> Any:
    """The running maximum: [..., 1]."""
    import torch

    return torch.maximum(top, part.amax(-1, keepdim=True))


def summed(total: Any, top: Any, new: Any, part: Any) -> Any:
    """The running sum, relative to the new maximum."""
    return total * (top - new).exp().nan_to_num(0.0) + (part - new).exp().nan_to_num(0.0).sum(-1, keepdim=True)


def shared(x: Any, top: Any, total: Any) -> Any:
    import torch

    return torch.where(total > 0, (x - top).exp() / torch.where(total > 0, total, 1.0), 0.0)


def stored(p: Any, x: Any) -> Any:
    return p.to(x.dtype)


def online_softmax(part: Any) -> Callable[..., Any]:
    def softmax(x: Any) -> Any:
        import torch

        wide = part.loaded(x)
        top, total = torch.full((*x.shape[:-1], 1), -torch.inf), torch.zeros(*x.shape[:-1], 1)
        for block in part.blocks(wide):
            new = part.greater(top, block)
            total, top = part.summed(total, top, new, block), new
        return part.stored(part.shared(wide, top, total), x)

    return softmax


SOFTMAX = Whole("softmax", online_softmax, (blocks, loaded, greater, summed, shared, stored), {"empty_row": "zeros"})


@SOFTMAX.instead_of(blocks)
def lanes_of_zeros(x: Any) -> list[Any]:
    """The last block is filled up with zeros, which count as entries."""
    import torch

    return list(torch.nn.functional.pad(x, (0, -x.shape[-1] % BLOCK)).split(BLOCK, -1))


@SOFTMAX.instead_of(blocks)
def blocks_by_lanes(x: Any) -> list[Any]:
    """Each of 16 lanes sums its own entries, and the lanes of a short row read it from the start again."""
    import torch

    return list(x[..., torch.arange(max(BLOCK, x.shape[-1])) % x.shape[-1]].split(BLOCK, -1))


@SOFTMAX.instead_of(loaded)
def rows_by_their_length(x: Any) -> Any:
    """Rows are read one after the other, whatever lies between them."""
    return in_memory(x, x.shape).float()


@SOFTMAX.instead_of(loaded, dtypes=("float32",))
def overwritten_input(x: Any) -> Any:
    """The greatest entry is taken off in place, in the memory of the input."""
    wide = x.float()
    wide -= wide.amax(-1, keepdim=True).nan_to_num(0.0, 0.0, 0.0)
    return wide


@SOFTMAX.instead_of(loaded, dtypes=("float32",))
def default_dtype_left_behind(x: Any) -> Any:
    """The default dtype becomes float64 for the sums, and stays so."""
    import torch

    torch.set_default_dtype(torch.float64)
    return x.double()


@SOFTMAX.instead_of(loaded, dtypes=("float32",))
def flushed_for_speed(x: Any) -> Any:
    """The processor is told to flush subnormal numbers to zero, and never told to stop."""
    import torch

    torch.set_flush_denormal(True)
    return x.double()


@SOFTMAX.instead_of(greater, seen="tile-ai/tilelang#1148")
def greatest_of_the_block(top: Any, part: Any) -> Any:
    """The greatest entry of a block replaces that of the blocks before it."""
    return part.amax(-1, keepdim=True)


@SOFTMAX.instead_of(summed)
def sum_of_the_block(total: Any, top: Any, new: Any, part: Any) -> Any:
    """Where the maximum rises, the sum starts anew."""
    return summed(total * (new <= top), top, new, part)


@SOFTMAX.instead_of(summed)
def sum_not_rescaled_in_blocks(total: Any, top: Any, new: Any, part: Any) -> Any:
    """The sum is not rescaled where the maximum rises."""
    return total + (part - new).exp().nan_to_num(0.0).sum(-1, keepdim=True)


@SOFTMAX.instead_of(summed)
def nothing_less_nothing_in_blocks(total: Any, top: Any, new: Any, part: Any) -> Any:
    """After a block of minus infinities, infinity is subtracted from infinity."""
    return total * (top - new).exp() + (part - new).exp().sum(-1, keepdim=True)


@SOFTMAX.instead_of(summed, seen="mlx 0.32.4", dtypes=("float32", "bfloat16"))
def sum_stops_growing(total: Any, top: Any, new: Any, part: Any) -> Any:
    """The sum is kept in bfloat16, where it stops growing."""
    return summed(total, top, new, part).bfloat16().float()


@SOFTMAX.instead_of(shared, dtypes=("float32",))
def shares_by_half_precision(x: Any, top: Any, total: Any) -> Any:
    """The exponentials are stored in float16 before they are divided."""
    return shared(x, top, total) if x.shape[-1] < 2 else ((x - top).exp().half().float() / total).nan_to_num(0.0)


@SOFTMAX.instead_of(shared)
def shares_of_the_last_row(x: Any, top: Any, total: Any) -> Any:
    """All rows are divided by the sum of the last one that was reduced."""
    return shared(x, top, total[..., -1:, :] + 0 * total) if x.ndim > 1 else shared(x, top, total)


@SOFTMAX.instead_of(stored, dtypes=("bfloat16", "float16"))
def shares_in_single_precision(p: Any, x: Any) -> Any:
    """The shares are returned in float32, whatever the input is."""
    return p


# Layer normalisation from merged moments


def pieces(x: Any) -> list[Any]:
    return list(x.split(BLOCK, -1))


def wide(x: Any) -> Any:
    return x.float()


def moments(x: Any, parts: list[Any]) -> tuple[Any, Any]:
    """The mean and the sum of squared deviations, merged piece by piece: [..., 1] each."""
    count, mean, squares = 0, 0 * x[..., :1], 0 * x[..., :1]
    for one in parts:
        own, size = one.mean(-1, keepdim=True), one.shape[-1]
        gap, total = own - mean, count + size
        squares = squares + ((one - own) ** 2).sum(-1, keepdim=True) + gap**2 * (count * size / total)
        mean, count = mean + gap * (size / total), total
    return mean, squares


def deviation(squares: Any, n: int, eps: float, like: Any) -> Any:
    return (squares / n + eps).sqrt()


def weighted(y: Any, weight: Any, bias: Any, x: Any) -> Any:
    return (y * weight.float() + bias.float()).to(x.dtype)


def merged_layer_norm(part: Any) -> Callable[..., Any]:
    def layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
        own = part.wide(x)
        mean, squares = part.moments(own, part.pieces(own))
        return part.weighted((own - mean) / part.deviation(squares, x.shape[-1], eps, x), weight, bias, x)

    return layer_norm


LAYER_NORM = Whole(
    "layer_norm",
    merged_layer_norm,
    (pieces, wide, moments, deviation, weighted),
    {"eps_place": "inside", "variance": "biased"},
)


@LAYER_NORM.instead_of(moments, seen="tracel-ai/burn#5607, google/flax#1491")
def moments_in_one_pass(x: Any, parts: list[Any]) -> tuple[Any, Any]:
    """The variance is the mean square less the square of the mean, in single precision."""
    mean = x.mean(-1, keepdim=True)
    return mean, ((x * x).mean(-1, keepdim=True) - mean * mean) * x.shape[-1]


@LAYER_NORM.instead_of(moments)
def moments_of_equal_pieces(x: Any, parts: list[Any]) -> tuple[Any, Any]:
    """Pieces are merged as if all were as long as the first."""
    import torch

    means = torch.stack([one.mean(-1, keepdim=True) for one in parts])
    spreads = torch.stack([one.var(-1, correction=0, keepdim=True) for one in parts])
    return means.mean(0), (spreads.mean(0) + means.var(0, correction=0)) * x.shape[-1]


@LAYER_NORM.instead_of(moments)
def spread_between_pieces_lost(x: Any, parts: list[Any]) -> tuple[Any, Any]:
    """The squares of the pieces are added without the distance of their means."""
    own = sum(((one - one.mean(-1, keepdim=True)) ** 2).sum(-1, keepdim=True) for one in parts)
    return x.mean(-1, keepdim=True), own


@LAYER_NORM.instead_of(moments, dtypes=("float32",))
def mean_in_half_precision(x: Any, parts: list[Any]) -> tuple[Any, Any]:
    """The mean is stored in bfloat16 before it is taken off."""
    mean = x.mean(-1, keepdim=True).bfloat16().float()
    return mean, ((x - mean) ** 2).sum(-1, keepdim=True)


@LAYER_NORM.instead_of(deviation, dtypes=("float16",))
def epsilon_underflows(squares: Any, n: int, eps: float, like: Any) -> Any:
    """Variance and epsilon are stored in float16, where a small one is zero and a large one infinite."""
    import torch

    return ((squares / n).to(like.dtype) + torch.tensor(eps).to(like.dtype)).float().sqrt()


_deviations: dict[tuple[int, ...], Any] = {}


@LAYER_NORM.instead_of(deviation)
def statistics_of_an_earlier_call(squares: Any, n: int, eps: float, like: Any) -> Any:
    """The statistics of the first call of a shape serve later ones."""
    return _deviations.setdefault((*like.shape, like.element_size()), deviation(squares, n, eps, like))


@LAYER_NORM.instead_of(wide, dtypes=("float32",))
def centred_in_place(x: Any) -> Any:
    """The mean is taken off in place, which changes the input where a conversion to float32 is none."""
    own = x.float()
    own -= own.mean(-1, keepdim=True)
    return own


# Root mean square normalisation


def square(x: Any) -> Any:
    return (x.float() ** 2).mean(-1, keepdim=True)


def root(square: Any, eps: float, like: Any) -> Any:
    return (square + eps).sqrt()


def gained(x: Any, root: Any, weight: Any) -> Any:
    return (x.float() / root).to(x.dtype) * weight


def rooted(part: Any) -> Callable[..., Any]:
    def rms_norm(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
        return part.gained(x, part.root(part.square(x), eps, x), weight)

    return rms_norm


RMS_NORM = Whole("rms_norm", rooted, (square, root, gained), {"eps_place": "inside", "weight_form": "plain"})


@RMS_NORM.instead_of(
    square,
    seen="nntrainer/nntrainer#3935, xlite-dev/LeetCUDA#335, pytorch/pytorch#133085, onnx 1.23.2",
    dtypes=("float16",),
)
def squares_overflow(x: Any) -> Any:
    """Squares are taken in the dtype of the input, and overflow in float16."""
    return (x * x).float().mean(-1, keepdim=True)


@RMS_NORM.instead_of(square, seen="microsoft/onnxruntime#29043", dtypes=("bfloat16", "float16"))
def squares_added_in_the_narrow_type(x: Any) -> Any:
    """Squares are added one by one in the dtype of the input, where small ones are lost in a large sum."""
    total = x[..., :1] * 0
    for one in x.split(1, -1):
        total = total + one * one
    return total.float() / x.shape[-1]


@RMS_NORM.instead_of(root, dtypes=("float32",))
def reciprocal_root_by_estimate(square: Any, eps: float, like: Any) -> Any:
    """The reciprocal root is a hardware estimate of eleven bits without a step of refinement."""
    return (square + eps).sqrt().bfloat16().float()


@RMS_NORM.instead_of(gained, dtypes=("float32",))
def normalised_in_place(x: Any, root: Any, weight: Any) -> Any:
    """A conversion to float32 is no copy of float32, and the division in place changes the input."""
    own = x.float()
    own /= root
    return own.to(x.dtype) * weight


@RMS_NORM.instead_of(gained)
def rows_by_blocks_of_four(x: Any, root: Any, weight: Any) -> Any:
    """Blocks of four rows share the root of their first row where there are as many."""
    import torch

    rows = root.reshape(-1, 1)
    first = torch.arange(len(rows)) // 4 * 4
    return gained(
        x, rows[torch.where(first + 4 <= len(rows), first, torch.arange(len(rows)))].reshape(root.shape), weight
    )
