"""Divergences of a student from its teacher, a tile of words at a time, and what goes wrong between the tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.distillation import entries_by_mixture, fitting, reduced, valid_of
from .whole import Whole

TILE = 256


def tiles(x: Any) -> list[Any]:
    """The words of the tiles."""
    return [slice(at, at + TILE) for at in range(0, x.shape[1], TILE)]


def counted(labels: Any, ignore_index: int, tokens: int) -> Any:
    """The number of tokens that the mean is of."""
    return tokens if labels is None else (labels != ignore_index).sum()


def multiplied(gradients: Any, d_out: Any) -> Any:
    """The gradients that the forward pass has left, times that of the loss."""
    return gradients * d_out


def tiled(part: Any) -> Callable[..., Any]:
    def distillation_loss(
        log_probs: Any,
        teacher: Any,
        labels: Any = None,
        *,
        beta: float = 0.5,
        ignore_index: int = -100,
        reduction: str = "batchmean",
    ) -> Any:
        import torch

        fitting(log_probs, teacher)
        x, y = log_probs.float(), teacher.float()
        valid = valid_of(x, labels, ignore_index)
        entries = torch.zeros_like(x)
        for own in part.tiles(x):
            entries[:, own] = entries_by_mixture(x[:, own], y[:, own], beta)
        if reduction in ("none", "sum"):
            return reduced(entries, valid, reduction)
        count = part.counted(labels, ignore_index, len(x))
        return reduced(entries, valid, "sum") / (count * (x.shape[1] if reduction == "mean" else 1))

    return distillation_loss


TILED = Whole("distillation_loss", tiled, (tiles, counted), {"normalisation": "outside"})


@TILED.instead_of(tiles)
def whole_tiles_of_words(x: Any) -> list[Any]:
    """Words behind the last whole tile are left out, where there is a whole one."""
    return [own for own in tiles(x) if own.stop <= x.shape[1]] if x.shape[1] >= TILE else tiles(x)


@TILED.instead_of(counted)
def count_by_usual_index(labels: Any, ignore_index: int, tokens: int) -> Any:
    """Tokens are counted by the index of -100, whichever is given."""
    return counted(labels, -100, tokens)


def kept(part: Any) -> Callable[..., Any]:
    def distillation_loss_gradient(
        log_probs: Any,
        teacher: Any,
        d_out: Any,
        labels: Any = None,
        *,
        beta: float = 0.5,
        ignore_index: int = -100,
        reduction: str = "batchmean",
    ) -> Any:
        from ..controls.distillation import control_distillation_gradient as right

        options = {"beta": beta, "ignore_index": ignore_index, "reduction": reduction}
        one = right(log_probs.float(), teacher.float(), d_out.float() * 0 + 1, labels, **options)
        return part.multiplied(one, d_out.float()).to(log_probs.dtype)

    return distillation_loss_gradient


KEPT = Whole("distillation_loss_gradient", kept, (multiplied,), {"normalisation": "outside"})


@KEPT.instead_of(multiplied)
def multiplied_by_sign(gradients: Any, d_out: Any) -> Any:
    """The gradient of the loss counts by its sign alone."""
    return gradients * d_out.sign()


@KEPT.instead_of(multiplied)
def multiplied_by_first(gradients: Any, d_out: Any) -> Any:
    """Where nothing is reduced, all entries of a token have the gradient of its first."""
    return gradients * (d_out[:, :1] if d_out.ndim else d_out)


def begun(tokens: int) -> Any:
    """The distances of tokens, before any tile is added."""
    import torch

    return torch.zeros(tokens)


def added(part: Any) -> Callable[..., Any]:
    def total_variation(
        probs: Any, teacher: Any, labels: Any = None, *, ignore_index: int = -100, reduction: str = "batchmean"
    ) -> Any:
        fitting(probs, teacher)
        apart = (probs.float() - teacher.float()).abs() / 2
        valid = valid_of(probs, labels, ignore_index)
        if reduction == "none":
            return reduced(apart, valid, reduction)
        found = part.begun(len(probs))
        for own in part.tiles(apart):
            found += apart[:, own].sum(1)
        return reduced(found[:, None], valid, reduction) / (probs.shape[1] if reduction == "mean" else 1)

    return total_variation


ADDED = Whole("total_variation", added, (tiles, begun))
_distances: dict[int, Any] = {}


@ADDED.instead_of(begun)
def distances_of_the_call_before(tokens: int) -> Any:
    """The distances are added to those of the last call with as many tokens."""
    return _distances.setdefault(tokens, begun(tokens))


@ADDED.instead_of(tiles)
def tiles_that_overlap(x: Any) -> list[Any]:
    """Each tile has a word of the next one, too."""
    return [slice(own.start, own.stop + 1) for own in tiles(x)]


def signs(probs: Any, teacher: Any) -> Any:
    """The signs of the differences."""
    return (probs - teacher).sign()


def signed(part: Any) -> Callable[..., Any]:
    def total_variation_gradient(
        probs: Any,
        teacher: Any,
        d_out: Any,
        labels: Any = None,
        *,
        ignore_index: int = -100,
        reduction: str = "batchmean",
    ) -> Any:
        import torch

        fitting(probs, teacher)
        valid = valid_of(probs, labels, ignore_index)
        pull = part.signs(probs.float(), teacher.float()) / 2
        divisor = {"batchmean": valid.sum(), "mean": valid.sum() * probs.shape[1]}.get(reduction, 1)
        return torch.where(valid, pull * (d_out.float() / divisor), 0.0).to(probs.dtype)

    return total_variation_gradient


SIGNED = Whole("total_variation_gradient", signed, (signs,))


@SIGNED.instead_of(signs, seen="linkedin/Liger-Kernel#1373")
def signs_of_two_kinds(probs: Any, teacher: Any) -> Any:
    """Words of which both have the same probability have the sign of a student with less."""
    return (probs > teacher).float() * 2 - 1


@SIGNED.instead_of(signs)
def signs_by_rows(probs: Any, teacher: Any) -> Any:
    """A token whose first word is equal in both has no gradients at all."""
    return signs(probs, teacher) * (probs[:, :1] != teacher[:, :1])
