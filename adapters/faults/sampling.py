"""Drawing from logits as kernels do, from candidates in falling order, and what goes wrong in a large vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.sampling import control_rows_by_one_sort, left
from .whole import Whole

TILE = 8192
DTYPES = ("float32", "bfloat16", "float16")


def looked_at(logits: Any) -> Any:
    """The logits that the filters see: [rows, n]."""
    return logits


def placed(places: Any) -> Any:
    """The places of candidates in their rows, as they are kept: [rows, n]."""
    return places


def drawing(part: Any) -> Callable[..., Any]:
    def sample(
        logits: Any, *, seed: int, count: int, temperature: float = 1.0, k: int | None = None, p: float | None = None
    ) -> Any:
        import torch

        x = left(part.looked_at(logits), temperature, k, p)
        ordered, places = torch.sort(x, dim=-1, descending=True, stable=True)
        chances, generator = torch.softmax(ordered.double(), -1), torch.Generator().manual_seed(seed)
        return part.placed(places).gather(-1, torch.multinomial(chances, count, replacement=True, generator=generator))

    return sample


SAMPLE = Whole("sample", drawing, (looked_at, placed))


@SAMPLE.instead_of(placed, dtypes=DTYPES)
def tokens_in_16_bits(places: Any) -> Any:
    """The places of candidates are kept in 16 bits with a sign, which is dropped, so that they fall from 32768 on."""
    import torch

    return places.to(torch.int16).long().abs()


@SAMPLE.instead_of(looked_at, dtypes=DTYPES)
def last_tile_of_the_vocabulary_lost(logits: Any) -> Any:
    """What a last tile of 8192 entries does not fill is never drawn, where there is a whole one before it."""
    whole, found = logits.shape[-1] // TILE * TILE or logits.shape[-1], logits.clone()
    found[:, whole:] = float("-inf")
    return found


def drawing_by_rows(part: Any) -> Callable[..., Any]:
    def sample_rows(
        logits: Any, seeds: Any, temperature: Any = None, k: Any = None, p: Any = None, *, count: int
    ) -> Any:
        import torch

        x = control_rows_by_one_sort(part.looked_at(logits).float(), temperature, k, p)
        ordered, places = torch.sort(x, dim=-1, descending=True, stable=True)
        found = torch.zeros((len(x), count), dtype=torch.int64)
        for row, (chances, seed) in enumerate(zip(torch.softmax(ordered.double(), -1), seeds, strict=True)):
            generator = torch.Generator().manual_seed(int(seed))
            drawn = torch.multinomial(chances, count, replacement=True, generator=generator)
            found[row] = part.placed(places)[row, drawn]
        return found

    return sample_rows


BY_ROWS = Whole("sample_rows", drawing_by_rows, (looked_at, placed))


@BY_ROWS.instead_of(looked_at, dtypes=DTYPES)
def rows_of_32768_entries(logits: Any) -> Any:
    """Rows are looked at up to their 32768th entry, and what is behind it is never drawn."""
    found = logits.clone()
    found[:, 32768:] = float("-inf")
    return found


@BY_ROWS.instead_of(placed, dtypes=DTYPES)
def tokens_of_rows_in_15_bits(places: Any) -> Any:
    """The tokens that are drawn keep their lower 15 bits."""
    return places % 32768
