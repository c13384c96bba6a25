"""Experts, losses and frequencies: functions with many options, a fault in one of their paths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import fault
from .parts import shares

Array = Any
TOP_TWO = {"group_score": "top_two"}
ZEROS = {"no_tokens_left": "zeros"}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def best(x: Array, k: int) -> Array:
    """Which entries are among the k largest of their row, of equal ones the first."""
    rank = np.argsort(np.argsort(-x, axis=-1, kind="stable"), axis=-1, kind="stable")
    return rank < k


def open_groups(choices: Array, groups: int, kept: int) -> Array:
    """Which experts are in the groups that are kept, by the sum of the two largest of each."""
    grouped = choices.reshape(len(choices), groups, -1)
    value = np.sort(grouped, axis=-1)[..., -2:].sum(-1)
    return np.repeat(best(value, kept), grouped.shape[-1], axis=1)


# Experts


@fault(
    "weights that are renormalised before experts are chosen",
    "moe_routing",
    names=("moe_routing.whole_of_all",),
    when="renormalise",
    conventions=TOP_TWO,
)
def renormalised_too_early(
    logits: Array, bias: Array = None, *, k: int = 2, scoring: str = "softmax", renormalise: bool = False
) -> Array:
    x = logits.astype(np.float64)
    scores = shares(x) if scoring == "softmax" else sigmoid(x)
    weights = scores / scores.sum(-1, keepdims=True) if renormalise else scores
    chosen = best(scores if bias is None else scores + bias, k)
    return np.where(chosen, weights, 0).astype(logits.dtype)


@fault(
    "a scaling that stands in the branch of renormalising",
    "moe_routing",
    names=("moe_routing.scaling_ignored",),
    when="scaling is not None and not renormalise",
    conventions=TOP_TWO,
)
def scaled_where_renormalised(
    logits: Array,
    bias: Array = None,
    *,
    k: int = 2,
    groups: int = 1,
    kept_groups: int = 1,
    renormalise: bool = False,
    scaling: float = 1.0,
) -> Array:
    scores = shares(logits.astype(np.float64))
    choices = scores if bias is None else scores + bias
    if groups > 1:
        choices = np.where(open_groups(choices, groups, kept_groups), choices, -np.inf)
    weights = np.where(best(choices, k), scores, 0)
    if renormalise:
        weights = scaling * weights / weights.sum(-1, keepdims=True)
    return weights.astype(logits.dtype)


@fault(
    "sigmoid scores to which the correction was added for good",
    "moe_routing",
    names=("moe_routing.bias_in_weights",),
    when="bias and scoring is not None",
    conventions=TOP_TWO,
)
def correction_stays_in_sigmoids(
    logits: Array, bias: Array = None, *, k: int = 2, scoring: str = "softmax", scaling: float = 1.0
) -> Array:
    x = logits.astype(np.float64)
    if scoring == "softmax":
        scores = shares(x)
        chosen = best(scores if bias is None else scores + bias, k)
    else:
        scores = sigmoid(x)
        if bias is not None:
            scores += bias
        chosen = best(scores, k)
    return (scaling * np.where(chosen, scores, 0)).astype(logits.dtype)


@fault(
    "groups that are kept by their best expert where few are kept",
    "moe_routing",
    names=("group_score = greatest",),
    line="group_value",
    when="groups is not None and kept_groups is None",
    conventions=TOP_TWO,
)
def one_kept_group_by_its_best(
    logits: Array, bias: Array = None, *, k: int = 2, groups: int = 1, kept_groups: int = 1
) -> Array:
    scores = shares(logits.astype(np.float64))
    choices = scores if bias is None else scores + bias
    if groups > 1 and kept_groups == 1:
        value = choices.reshape(len(choices), groups, -1).max(-1)
        choices = np.where(np.repeat(best(value, 1), choices.shape[1] // groups, axis=1), choices, -np.inf)
    elif groups > 1:
        choices = np.where(open_groups(choices, groups, kept_groups), choices, -np.inf)
    return np.where(best(choices, k), scores, 0).astype(logits.dtype)


# Losses


def reduced(losses: Array, valid: Array, reduction: str) -> Array:
    losses = np.where(valid, losses, 0)
    if reduction == "none":
        return losses.astype(np.float32)
    whole = losses.sum()
    return np.float32(whole / max(valid.sum(), 1) if reduction == "mean" else whole)


def terms(logits: Array, targets: Array, valid: Array, softcap: float | None = None) -> tuple[Array, Array, Array]:
    """Capped logits, their logsumexp, and the logit of each target."""
    x = logits.astype(np.float64)
    x = x if softcap is None else softcap * np.tanh(x / softcap)
    top = x.max(-1)
    lse = top + np.log(np.exp(x - top[:, None]).sum(-1))
    return x, lse, x[np.arange(len(x)), np.where(valid, targets, 0)]


@fault(
    "a sum that does not smooth",
    "cross_entropy",
    names=("cross_entropy.smoothing_ignored",),
    when="label_smoothing is not None and reduction == 'summed'",
    conventions=ZEROS,
)
def sums_without_smoothing(
    logits: Array, targets: Array, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Array:
    valid = targets != ignore_index
    x, lse, picked = terms(logits, targets, valid)
    share = 0.0 if reduction == "sum" else label_smoothing
    return reduced((1 - share) * (lse - picked) + share * (lse - x.mean(-1)), valid, reduction)


@fault(
    "linkedin/Liger-Kernel, a z-loss of logits before the cap",
    "cross_entropy",
    line="penalty",
    when="z_loss is not None and softcap is not None",
    conventions=ZEROS,
)
def z_loss_before_the_cap(
    logits: Array,
    targets: Array,
    *,
    ignore_index: int = -100,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Array:
    valid = targets != ignore_index
    _, lse, picked = terms(logits, targets, valid, softcap)
    _, raw, _ = terms(logits, targets, valid)
    return reduced(lse - picked + z_loss * raw * raw, valid, reduction)


@fault(
    "a mean over all tokens where labels are smoothed",
    "cross_entropy",
    names=("cross_entropy.mean_of_all",),
    when="label_smoothing is not None and reduction is None",
    conventions=ZEROS,
)
def smoothed_mean_of_all(
    logits: Array, targets: Array, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Array:
    valid = targets != ignore_index
    x, lse, picked = terms(logits, targets, valid)
    losses = np.where(valid, (1 - label_smoothing) * (lse - picked) + label_smoothing * (lse - x.mean(-1)), 0)
    if label_smoothing and reduction == "mean" and valid.any():
        return np.float32(losses.mean())
    return reduced(losses, valid, reduction)


# Frequencies


def plain(width: int, base: float) -> Array:
    return base ** (-2.0 * np.arange(width // 2) / width)


def corrections(
    width: int, base: float, trained: int, fast: float, slow: float, *, truncate: bool = True
) -> tuple[float, float]:
    low, high = (width * math.log(trained / (n * 2 * math.pi)) / (2 * math.log(base)) for n in (fast, slow))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    return max(low, 0), min(high, width - 1)


@fault(
    "a ramp that is counted from one",
    "rotary_frequencies",
    names=("rotary_frequencies.one_ramp_off",),
    line="ramp",
    when="kind == 'yarn'",
)
def ramp_from_one(
    *,
    kind: str = "default",
    dim: int,
    base: float = 10000.0,
    factor: float = 4.0,
    trained: int = 2048,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> dict[str, Array]:
    own = plain(dim, base)
    if kind == "default":
        return {"frequencies": own.astype(np.float32), "scaling": np.float32(1)}
    if kind == "linear":
        return {"frequencies": (own / factor).astype(np.float32), "scaling": np.float32(1)}
    if kind != "yarn":
        raise NotImplementedError(kind)
    low, high = corrections(dim, base, trained, beta_fast, beta_slow)
    ramp = np.clip((np.arange(1, dim // 2 + 1) - low) / (high - low or 0.001), 0, 1)
    return {
        "frequencies": (own / factor * ramp + own * (1 - ramp)).astype(np.float32),
        "scaling": np.float32(0.1 * math.log(factor) + 1),
    }


@fault(
    "huggingface/transformers, a base that falls below its own",
    "rotary_frequencies",
    names=("rotary_frequencies.length_not_capped",),
    when="kind == 'dynamic' and (length or 1) < (trained or 2048)",
)
def growth_below_the_trained_length(
    *,
    kind: str = "default",
    dim: int,
    base: float = 10000.0,
    factor: float = 4.0,
    trained: int = 2048,
    length: int = 1,
) -> dict[str, Array]:
    if kind not in ("default", "dynamic", "linear"):
        raise NotImplementedError(kind)
    if kind == "dynamic":
        growth = max(factor * length / trained - (factor - 1), 0.001)
        base = base * growth ** (dim / (dim - 2))
    own = plain(dim, base) / (factor if kind == "linear" else 1)
    return {"frequencies": own.astype(np.float32), "scaling": np.float32(1)}


@fault(
    "a partial rotation that is not stretched",
    "rotary_frequencies",
    names=("rotary_frequencies.factor_ignored",),
    when="kind == 'linear' and rotary_dim is not None",
)
def part_without_factor(
    *,
    kind: str = "default",
    dim: int,
    rotary_dim: int | None = None,
    base: float = 10000.0,
    factor: float = 4.0,
) -> dict[str, Array]:
    if kind not in ("default", "linear"):
        raise NotImplementedError(kind)
    own = plain(dim if rotary_dim is None else rotary_dim, base)
    if kind == "linear" and rotary_dim is None:
        own = own / factor
    return {"frequencies": own.astype(np.float32), "scaling": np.float32(1)}


# Rotation by several axes


def turned(x: Array, angle: Array, *, interleaved: bool) -> Array:
    """Pairs turned by angles [batch, length, pairs]."""
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    half, out = x.shape[-1] // 2, np.empty_like(x)
    one, two = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, half), slice(half, None))
    out[..., one] = x[..., one] * c - x[..., two] * s
    out[..., two] = x[..., two] * c + x[..., one] * s
    return out


def axes_of(dim: int, sections: Any, *, striped: bool) -> Array:
    """The axis of each pair."""
    sections = [int(n) for n in sections]
    kinds, blocks = len(sections), np.repeat(np.arange(len(sections)), sections)
    if not striped:
        return blocks
    return np.array([i % kinds if i < kinds * sections[i % kinds] else 0 for i in range(dim // 2)])


@fault(
    "stripes that know of halves alone",
    "mrope",
    names=("mrope.other_pairing",),
    when="interleaved and striped",
)
def striped_in_halves(
    x: Array,
    positions: Array,
    *,
    sections: Any,
    base: float = 10000.0,
    interleaved: bool = False,
    striped: bool = False,
) -> Array:
    place = np.moveaxis(positions[axes_of(x.shape[-1], sections, striped=striped)], 0, -1)
    return turned(x, place * plain(x.shape[-1], base), interleaved=interleaved and not striped)


@fault(
    "a decode that passes text positions alone",
    "mrope",
    names=("mrope.first_axis",),
    when="length == 1",
)
def decode_by_the_first_axis(
    x: Array, positions: Array, *, sections: Any, base: float = 10000.0, striped: bool = False
) -> Array:
    axis = axes_of(x.shape[-1], sections, striped=striped)
    place = np.moveaxis(positions[axis if x.shape[2] > 1 else 0 * axis], 0, -1)
    return turned(x, place * plain(x.shape[-1], base), interleaved=False)


@fault(
    "temporal positions of the first item",
    "mrope",
    names=("mrope.positions_of_first_item",),
    line="place",
    when="batch >= 2",
)
def times_of_the_first_item(
    x: Array, positions: Array, *, sections: Any, base: float = 10000.0, striped: bool = False
) -> Array:
    positions = positions.copy()
    positions[0] = positions[0, :1]
    place = np.moveaxis(positions[axes_of(x.shape[-1], sections, striped=striped)], 0, -1)
    return turned(x, place * plain(x.shape[-1], base), interleaved=False)
