"""Draft tokens verified as kernels do, and what goes wrong with tiles, state, numbers and places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.speculation import fitting
from .whole import Whole

TILE = 256
FLOAT32 = ("float32",)


def counted(batch: int) -> Any:
    """The counts of accepted drafts, before any is."""
    import torch

    return torch.zeros(batch, dtype=torch.int64)


def compared(uniform: Any, target: Any, draft: Any) -> Any:
    """Whether a draft is accepted."""
    return uniform * draft < target


def summed(rest: Any) -> Any:
    """The sum by which the chances of the further token are divided."""
    return rest.sum()


def searched(residual: Any, uniform: Any) -> Any:
    """The first token whose running sum of chances exceeds the uniform number."""
    return (residual.cumsum(-1) <= uniform).sum().clamp(max=len(residual) - 1)


def emitted(batch: int, steps: int) -> Any:
    """The tokens, before any is written."""
    import torch

    return torch.full((batch, steps + 1), -1, dtype=torch.int64)


def verifying(part: Any) -> Callable[..., Any]:
    def draft_verification(draft_probs: Any, target_probs: Any, drafts: Any, uniforms: Any, lens: Any = None) -> Any:
        import torch

        fitting(draft_probs, target_probs, drafts)
        batch, steps = drafts.shape
        tokens, accepted = part.emitted(batch, steps), part.counted(batch)
        residual = draft_probs.new_empty(batch, draft_probs.shape[-1])
        for item in range(batch):
            q, p, u = draft_probs[item], target_probs[item], uniforms[item]
            count, n = steps if lens is None else int(lens[item]), 0
            while n < count and (x := int(drafts[item, n])) >= 0 and part.compared(u[n], p[n, x], q[n, x]):
                tokens[item, n] = x
                n += 1
            accepted[item] += n
            rest = torch.relu(p[n] - q[n]) if n < count else p[n]
            residual[item] = rest / part.summed(rest)
            tokens[item, n] = part.searched(residual[item], u[steps])
        return {"tokens": tokens.clone(), "accepted": accepted.clone(), "residual": residual}

    return draft_verification


VERIFYING = Whole("draft_verification", verifying, (counted, compared, summed, searched, emitted))
_counters: dict[int, Any] = {}
_rows: dict[tuple[int, int], Any] = {}


@VERIFYING.instead_of(counted, dtypes=FLOAT32)
def counted_from_the_call_before(batch: int) -> Any:
    """The counts go on from those of the call before, as where a kernel adds to an array that is not set to zero."""
    return _counters.setdefault(batch, counted(batch))


@VERIFYING.instead_of(emitted, dtypes=FLOAT32)
def tokens_of_the_call_before(batch: int, steps: int) -> Any:
    """Behind the further token are the tokens of the call before."""
    return _rows.setdefault((batch, steps), emitted(batch, steps))


@VERIFYING.instead_of(summed, dtypes=FLOAT32)
def first_tile_summed(rest: Any) -> Any:
    """The chances of the further token are divided by the sum of their first tile."""
    return rest[:TILE].sum() if len(rest) > TILE else rest.sum()


@VERIFYING.instead_of(searched, dtypes=FLOAT32)
def sums_start_again_in_each_tile(residual: Any, uniform: Any) -> Any:
    """Running sums start again in each tile of the vocabulary, so that the last token is drawn where none exceeds."""
    import torch

    sums = torch.cat([tile.cumsum(-1) for tile in residual.split(TILE)])
    above = sums > uniform
    return above.int().argmax() if bool(above.any()) else torch.tensor(len(residual) - 1)


@VERIFYING.instead_of(compared, dtypes=FLOAT32)
def ratio_in_eight_bits(uniform: Any, target: Any, draft: Any) -> Any:
    """The uniform number and the ratio are compared in steps of a 256th."""
    return (uniform * 256).floor() < (target / draft * 256).floor()
