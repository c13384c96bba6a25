"""What works row by row: norms, softmax, rotation, filters of logits, quantization, biases by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fault
from .parts import shares

Array = Any


@fault(
    "LayerNorm with epsilon beside the deviation",
    "layer_norm",
    names=("eps_place = outside",),
    when="",
    conventions={"eps_place": "inside", "variance": "biased"},
)
def deviation_plus_epsilon(x: Array, weight: Array, bias: Array, *, eps: float = 1e-5) -> Array:
    out = np.empty_like(x)
    for i, row in enumerate(x):
        centred = row - row.mean()
        out[i] = centred / (np.sqrt((centred * centred).mean()) + np.float32(eps))
    return out * weight + bias


@fault(
    "131250208/TPlinker-joint-extraction#37",
    "layer_norm",
    names=("layer_norm.square_for_root",),
    when="",
    conventions={"eps_place": "inside", "variance": "biased"},
)
def squared_where_root_is_meant(x: Array, weight: Array, bias: Array, *, eps: float = 1e-5) -> Array:
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / (var + np.float32(eps)) ** 2 * weight + bias


@fault(
    "ml-explore/mlx#2238",
    "layer_norm",
    names=("layer_norm.one_pass", "fault:moments_in_one_pass"),
    when="",
    conventions={"eps_place": "inside", "variance": "biased"},
)
def mean_square_less_square(x: Array, weight: Array, bias: Array, *, eps: float = 1e-5) -> Array:
    x = x.astype(np.float32)
    mean = x.mean(-1, keepdims=True)
    var = np.maximum((x * x).mean(-1, keepdims=True) - mean * mean, 0)
    return (x - mean) / np.sqrt(var + np.float32(eps)) * weight + bias


@fault("torchcvnn/torchcvnn#32", "rms_norm", names=("rms_norm.epsilon_ignored",), when="")
def epsilon_unused(x: Array, weight: Array, *, eps: float = 1e-5) -> Array:
    root = np.sqrt((x * x).mean(-1, keepdims=True))
    with np.errstate(all="ignore"):
        return x / root * weight


@fault("RMSNorm whose .float() is no copy", "rms_norm", names=("fault:normalised_in_place",), when="")
def normalised_where_it_lies(x: Array, weight: Array, *, eps: float = 1e-5) -> Array:
    y = x.astype(np.float32, copy=False)
    y /= np.sqrt((y * y).mean(-1, keepdims=True) + np.float32(eps))
    return y * weight


@fault("keras-team/keras#22393", "rms_norm", names=("rms_norm.variance_for_square",), when="")
def variance_in_rms(x: Array, weight: Array, *, eps: float = 1e-5) -> Array:
    return x / np.sqrt(x.var(-1, keepdims=True) + np.float32(eps)) * weight


@fault(
    "a norm that loses the lanes of a short last vector",
    "rms_norm",
    names=("rms_norm.tail_lost",),
    line="square",
    when="n % 4 != 0",
)
def sums_in_fours(x: Array, weight: Array, *, eps: float = 1e-5) -> Array:
    n = x.shape[-1]
    whole = n // 4 * 4 if n >= 4 else n
    lanes = x[:, :whole]
    total = (lanes * lanes).sum(-1, keepdims=True)
    return x / np.sqrt(total / np.float32(n) + np.float32(eps)) * weight


@fault("EleutherAI/gpt-neox#834", "rotary", names=("rotary.angles_of_the_other_pairing",), when="dim > 2")
def table_of_the_other_pairing(
    x: Array, positions: Array, *, base: float = 10000.0, interleaved: bool = False
) -> Array:
    d = x.shape[-1]
    angle = np.outer(positions.astype(np.float64), float(base) ** (-2.0 * np.arange(d // 2) / d))
    if interleaved:
        table = np.concatenate([angle, angle], axis=-1)
        turned = np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    else:
        table = np.repeat(angle, 2, axis=-1)
        turned = np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], axis=-1)
    return (x * np.cos(table) + turned * np.sin(table)).astype(x.dtype)


@fault(
    "a GPU kernel of the interleaved mode without positions",
    "rotary",
    names=("rotary.positions_ignored",),
    when="interleaved",
    conventions={"pair_place": "kept"},
)
def interleaved_without_positions(
    x: Array, positions: Array, *, base: float = 10000.0, interleaved: bool = False
) -> Array:
    d = x.shape[-1]
    places = np.arange(x.shape[-2]) if interleaved else positions
    angle = np.outer(places.astype(np.float64), float(base) ** (-2.0 * np.arange(d // 2) / d))
    c, s = np.cos(angle), np.sin(angle)
    out = np.empty_like(x)
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., : d // 2], x[..., d // 2 :])
    first, second = a * c - b * s, b * c + a * s
    if interleaved:
        out[..., ::2], out[..., 1::2] = first, second
    else:
        out[..., : d // 2], out[..., d // 2 :] = first, second
    return out


@fault("keras-team/keras-hub#1544", "rotary", names=("rotary.positions_ignored",), when="")
def offset_of_the_cache_ignored(x: Array, positions: Array, *, base: float = 10000.0) -> Array:
    d = x.shape[-1]
    out = np.empty_like(x)
    for t in range(x.shape[-2]):
        for i in range(d // 2):
            angle = t * float(base) ** (-2.0 * i / d)
            a, b = x[..., t, i], x[..., t, i + d // 2]
            out[..., t, i] = a * np.cos(angle) - b * np.sin(angle)
            out[..., t, i + d // 2] = b * np.cos(angle) + a * np.sin(angle)
    return out


@fault("huggingface/transformers#29285", "rotary", names=("rotary.rounded_positions", "rounding.positions"), when="")
def positions_in_bfloat16(x: Array, positions: Array, *, base: float = 10000.0) -> Array:
    d = x.shape[-1]
    bits = positions.astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)
    angle = np.outer(rounded.astype(np.float64), float(base) ** (-2.0 * np.arange(d // 2) / d))
    c, s = np.cos(angle), np.sin(angle)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)


@fault(
    "linkedin/Liger-Kernel#342, of the first token",
    "rotary",
    names=("rotary.first_item_alone",),
    when="batch >= 2",
)
def later_items_by_zero(x: Array, positions: Array, *, base: float = 10000.0) -> Array:
    """ml-explore/mlx#3494: batch rows beyond the first come back as zeros for a single token."""
    d = x.shape[-1]
    angle = np.outer(positions.astype(np.float64), float(base) ** (-2.0 * np.arange(d // 2) / d))
    c, s = np.cos(angle), np.sin(angle)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    out = np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)
    out[1:] = x[1:]
    return out


@fault(
    "ALiBi slopes in one series",
    "alibi_slopes",
    names=("slopes = geometric",),
    when="",
    conventions={"slopes": "interleaved"},
)
def one_series_of_slopes(*, heads: int) -> Array:
    return np.array([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)], np.float32)


@fault("paiml/aprender#2143", "alibi_slopes", names=("alibi_slopes.from_zero",), when="")
def slopes_from_zero(*, heads: int) -> Array:
    def power_of_two(n: int) -> list[float]:
        return [2.0 ** (-8.0 * i / n) for i in range(n)]

    closest = 1 << (heads.bit_length() - 1)
    slopes = power_of_two(closest)
    if closest < heads:
        slopes += power_of_two(2 * closest)[0::2][: heads - closest]
    return np.array(slopes, np.float32)


@fault("meta-pytorch/attention-gym#86", "alibi_bias", names=("alibi_bias.growing",), when="")
def bias_that_grows(*, heads: int, q_len: int, k_len: int) -> Array:
    closest = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (i + 1) / closest) for i in range(closest)]
    slopes += [2.0 ** (-4.0 * (2 * i + 1) / closest) for i in range(heads - closest)]
    i, j = np.arange(q_len)[:, None] + k_len - q_len, np.arange(k_len)
    return (np.array(slopes, np.float32)[:, None, None] * np.abs(i - j)).astype(np.float32)


@fault("skyzh/tiny-llm#32", "top_p_filter", names=("top_p_filter.unsorted",), when="")
def nucleus_without_sorting(logits: Array, *, p: float) -> Array:
    chance = shares(logits.astype(np.float64))
    before = np.cumsum(chance, axis=-1) - chance
    keep = before < p
    keep[..., 0] = True
    return np.where(keep, logits, -np.inf).astype(logits.dtype)


@fault("top-p with the nucleus of the first row", "top_p_filter", names=("top_p_filter.first_row",), when="rows >= 2")
def nucleus_of_the_first_row(logits: Array, *, p: float) -> Array:
    order = np.argsort(-logits, axis=-1, kind="stable")
    chance = np.take_along_axis(shares(logits.astype(np.float64)), order, axis=-1)
    before = np.cumsum(chance, axis=-1) - chance
    count = int((before[:1] < p).sum()) or 1
    out = np.full_like(logits, -np.inf)
    for i, row in enumerate(order):
        out[i, row[:count]] = logits[i, row[:count]]
    return out


@fault("kingoflolz/mesh-transformer-jax#164", "top_k_filter", names=("top_k_filter.one_too_many",), when="k < n")
def one_more_than_k(logits: Array, *, k: int) -> Array:
    order = np.argsort(-logits, axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    return np.where(rank > k, -np.inf, logits).astype(logits.dtype)


@fault("karpathy/minGPT#10", "top_k_filter", names=("top_k_filter.zeros",), when="k < n")
def zeros_for_what_is_removed(logits: Array, *, k: int) -> Array:
    order = np.argsort(-logits, axis=-1, kind="stable")
    out = np.zeros_like(logits)
    for i, row in enumerate(order):
        out[i, row[:k]] = logits[i, row[:k]]
    return out


@fault(
    "ModelCloud/GPTQModel#2350",
    "quantize",
    names=("quantize.zero_point_off_by_one",),
    when="",
    conventions={"quantized_range": "with_zero", "zero_point_form": "integer"},
)
def zero_point_stored_less_one(x: Array, *, bits: int = 8) -> tuple[Array, float, float]:
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    top = 2**bits - 1
    scale = (high - low) / top or 1.0
    zero = np.rint(-low / scale)
    codes = np.clip(np.rint(x / scale + zero), 0, top)
    return codes.astype(np.int64), scale, float(zero - 1)


@fault(
    "kekzl/imp#91",
    "quantize",
    names=("fault:range_of_the_memory",),
    when="",
    conventions={"zero_point_form": "integer"},
)
def range_over_padded_columns(x: Array, *, bits: int = 8) -> tuple[Array, float, float]:
    fill = -x.shape[-1] % 16
    padded = np.pad(x, ((0, 0), (0, fill)))
    low, high, top = float(padded.min()), float(padded.max()), 2**bits - 1
    scale = (high - low) / top or 1.0
    zero = np.rint(-low / scale)
    return np.clip(np.rint(x / scale + zero), 0, top).astype(np.int64), scale, float(zero)


@fault("sgl-project/sglang-jax#1598", "quantize", names=("quantize.towards_zero",), line="codes", when="")
def codes_cut_off(x: Array, *, bits: int = 8) -> tuple[Array, float, float]:
    low, high, top = min(float(x.min()), 0.0), max(float(x.max()), 0.0), 2**bits - 1
    scale = (high - low) / top or 1.0
    zero = np.rint(-low / scale)
    codes = (x.astype(np.float64) / scale).astype(np.int64) + zero
    return np.clip(codes, 0, top).astype(np.int64), scale, float(zero)


@fault("pytorch/executorch#20655", "dequantize", names=("dequantize.wraps_around",), when="")
def difference_in_unsigned_bytes(codes: Array, scale: Array, zero_point: Array) -> Array:
    steps = (codes.astype(np.int64) - np.asarray(zero_point).astype(np.int64)) & 0xFF
    return (steps * scale).astype(np.float32)


@fault("PetrochukM/PyTorch-NLP#2", "softmax", names=("softmax.wrong_axis",), when="")
def shares_of_columns(x: Array) -> Array:
    top = x.max(axis=0, keepdims=True)
    with np.errstate(all="ignore"):
        e = np.exp(x - np.where(np.isfinite(top), top, 0))
        return e / e.sum(axis=0, keepdims=True)


@fault("NVIDIA/FasterTransformer#43", "softmax", names=("softmax.unshifted",), when="")
def exponentials_without_maximum(x: Array) -> Array:
    with np.errstate(all="ignore"):
        e = np.exp(x)
        total = e.sum(-1, keepdims=True)
        return np.where(total > 0, e / total, 0).astype(x.dtype)


@fault(
    "a row's tail behind whole vectors of eight",
    "softmax",
    names=("softmax.tail_lost",),
    line="terms",
    when="n % 8 != 0",
)
def sum_of_whole_vectors(x: Array) -> Array:
    top = x.max(-1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    whole = x.shape[-1] // 8 * 8 or x.shape[-1]
    total = e[:, :whole].sum(-1, keepdims=True)
    with np.errstate(all="ignore"):
        return np.where(total > 0, e / total, 0).astype(x.dtype)


@fault("luhengshiwo/LLMForEverybody, sinusoidal table", "sinusoidal", names=("sinusoidal.cosine_by_column",), when="")
def cosines_by_their_own_column(*, length: int, dim: int, base: float = 10000.0, offset: int = 0) -> Array:
    table = np.zeros((length, dim), np.float32)
    for t in range(length):
        for i in range(dim):
            if i % 2 == 0:
                table[t, i] = np.sin((t + offset) / base ** (i / dim))
            else:
                table[t, i] = np.cos((t + offset) / base ** (i / dim))
    return table
