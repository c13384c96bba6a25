"""Products of groups of rows with a matrix each, and what goes wrong with tiles, memory and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.grouped_matmul import bounds, checked
from .whole import Whole

TILE = 16
ALONE: Any = {"dtypes": ("float32",)}


def begun(x: Any, w: Any) -> Any:
    """Where results go: [rows, outs] in single precision."""
    return x.new_zeros(len(x), w.shape[2]).float()


def matrix(w: Any, g: int) -> Any:
    """The matrix of a group in single precision."""
    return w[g].float()


def rows_of(x: Any, start: int, stop: int) -> Any:
    """The rows of a tile in single precision, which are none of the next group."""
    return x[start:stop].float()


def product(left: Any, right: Any) -> Any:
    """The products of a tile."""
    return left @ right


def stored(out: Any, start: int, stop: int, tile: Any) -> None:
    """Store a tile of rows of a group, of which not all may be used."""
    out[start:stop] = tile[: stop - start]


def tiles(a: int, b: int) -> list[tuple[int, int]]:
    """The tiles of a group."""
    return [(start, min(start + TILE, b)) for start in range(a, b, TILE)]


def grouped(part: Any) -> Callable[..., Any]:
    def grouped_matmul(x: Any, w: Any, lens: Any, bias: Any = None) -> Any:
        out = part.begun(x, w)
        for g, (a, b) in enumerate(bounds(x, w, lens)):
            own = part.matrix(w, g)
            for start, stop in part.tiles(a, b):
                tile = part.product(part.rows_of(x, start, stop), own)
                part.stored(out, start, stop, tile if bias is None else tile + bias[g].float())
        return out.to(x.dtype)

    return grouped_matmul


GROUPED = Whole("grouped_matmul", grouped, (begun, matrix, rows_of, product, stored, tiles))


@GROUPED.instead_of(tiles, **ALONE)
def tiles_of_the_whole(a: int, b: int) -> list[tuple[int, int]]:
    """Tiles begin at multiples of sixteen, so that one which a group begins within is left out."""
    first = -(-a // TILE) * TILE if a % TILE and b - a > TILE else a
    return [(start, min(start + TILE, b)) for start in range(first, b, TILE)]


@GROUPED.instead_of(tiles, **ALONE)
def rest_of_a_tile_left_out(a: int, b: int) -> list[tuple[int, int]]:
    """A last tile that is not whole is left out where there are whole ones."""
    found = tiles(a, b)
    return [(start, stop) for start, stop in found if stop - start == TILE or len(found) == 1]


@GROUPED.instead_of(stored, seen="huggingface/kernels-community#1153", **ALONE)
def columns_beyond_the_last(out: Any, start: int, stop: int, tile: Any) -> None:
    """Tiles of sixteen columns are stored whole, over the first columns of the next row."""
    import torch

    rows, outs = stop - start, out.shape[1]
    wide = torch.zeros(rows, -(-outs // TILE) * TILE)
    wide[:, :outs] = tile
    flat = out.view(-1)
    for at in reversed(range(rows)):
        place = (start + at) * outs
        part = wide[at][: len(flat) - place]
        flat[place : place + len(part)] = part


@GROUPED.instead_of(rows_of, **ALONE)
def inputs_beyond_the_last(x: Any, start: int, stop: int) -> Any:
    """The last of the inputs of a row are read from the next row where their number is no multiple of sixteen."""
    import torch

    found = x[start:stop].float().clone()
    rest = x.shape[1] % TILE
    if rest and x.shape[1] > TILE:
        found[:, -rest:] = torch.roll(x.float(), -1, 0)[start:stop, :rest]
    return found


@GROUPED.instead_of(matrix, **ALONE)
def matrices_of_memory(w: Any, g: int) -> Any:
    """Matrices are read row by row however they lie in memory."""
    import torch

    flat = torch.as_strided(w, (w.numel(),), (1,))
    return flat.reshape(w.shape)[g].float()


KEPT: dict[tuple[int, ...], Any] = {}


@GROUPED.instead_of(matrix, **ALONE)
def matrices_of_an_earlier_call(w: Any, g: int) -> Any:
    """Matrices are kept by their shape, and those of an earlier call are used again."""
    return KEPT.setdefault((g, *w.shape), w[g].float().clone())


PLACES: dict[tuple[int, ...], Any] = {}


@GROUPED.instead_of(begun, seen="pytorch/FBGEMM#4314", **ALONE)
def results_of_an_earlier_call(x: Any, w: Any) -> Any:
    """Results of the same shape are written over those of an earlier call."""
    return PLACES.setdefault((len(x), w.shape[2]), begun(x, w))


@GROUPED.instead_of(product)
def sums_of_a_group_in_bfloat16(left: Any, right: Any) -> Any:
    """Sums are kept in bfloat16 from one input to the next."""
    total = (left[:, :1] * right[:1]).bfloat16()
    for at in range(1, left.shape[1]):
        total = total + (left[:, at : at + 1] * right[at : at + 1]).bfloat16()
    return total.float()


@GROUPED.instead_of(stored, **ALONE)
def whole_tiles_stored(out: Any, start: int, stop: int, tile: Any) -> None:
    """A last tile that is not whole is moved back to be so, and what it covers is lost."""
    out[start:stop] = tile
    if stop - start < TILE and start >= TILE:
        out[start - (TILE - (stop - start)) : start] = 0


def begun_gradients(w: Any) -> Any:
    """Where the gradients of matrices go: zeros, for a group may have no rows."""
    import torch

    return torch.zeros(w.shape)


def added(total: Any, part: Any) -> Any:
    """The sum of the products of tiles of a group."""
    return total + part


def passed_back(own: Any, w: Any, g: int) -> Any:
    """The gradient of a tile of rows."""
    return own @ w[g].float().T


def gradients(part: Any) -> Callable[..., Any]:
    def grouped_matmul_gradient(x: Any, w: Any, lens: Any, d_out: Any, bias: Any = None) -> Any:
        import torch

        d_x, d_w = torch.zeros(x.shape), part.begun_gradients(w)
        d_bias = torch.zeros(len(w), w.shape[2])
        for g, (a, b) in enumerate(checked(x, w, lens, d_out)):
            total = torch.zeros(w.shape[1:])
            for start, stop in tiles(a, b):
                own = d_out[start:stop].float()
                d_x[start:stop] = part.passed_back(own, w, g)
                total = part.added(total, x[start:stop].float().T @ own)
                d_bias[g] += own.sum(0)
            if b > a:
                d_w[g] = total
        return d_x.to(x.dtype), d_w.to(x.dtype), None if bias is None else d_bias.to(x.dtype)

    return grouped_matmul_gradient


GRADIENTS = Whole("grouped_matmul_gradient", gradients, (begun_gradients, added, passed_back))


@GRADIENTS.instead_of(begun_gradients, **ALONE)
def gradients_of_no_rows_unwritten(w: Any) -> Any:
    """The gradient of the matrix of a group without rows is whatever its memory holds."""
    import torch

    return torch.empty(w.shape)


GRADIENTS_KEPT: dict[tuple[int, ...], Any] = {}


@GRADIENTS.instead_of(begun_gradients, **ALONE)
def gradients_of_no_rows_kept(w: Any) -> Any:
    """The gradient of the matrix of a group without rows is that of an earlier call of the same shape."""
    return GRADIENTS_KEPT.setdefault(tuple(w.shape), begun_gradients(w))


@GRADIENTS.instead_of(added, **ALONE)
def last_tile_of_a_matrix_alone(total: Any, part: Any) -> Any:
    """The products of the last tile of a group take the place of those before."""
    return part


@GRADIENTS.instead_of(added)
def gradients_added_in_bfloat16(total: Any, part: Any) -> Any:
    """Sums of tiles are kept in bfloat16."""
    return (total.bfloat16() + part.bfloat16()).float()


@GRADIENTS.instead_of(passed_back, **ALONE)
def transposed_in_memory(own: Any, w: Any, g: int) -> Any:
    """Matrices are transposed by strides of contiguous memory, however they lie in it."""
    import torch

    n, outs = w.shape[1:]
    return own @ torch.as_strided(w, (outs, n), (1, outs), w.storage_offset() + g * n * outs).float()
