"""Attention in which something outlives a call, or depends on chance."""

from __future__ import annotations

import random
from typing import Any

from ..controls.attention import positions
from .attention import COMPOSED, averaged, biased, capped, factor, loaded, masked, reached, weights

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


@COMPOSED.instead_of(
    averaged, seen="Dao-AILab/flash-attention#359, ggml-org/llama.cpp#13438, flashinfer-ai/flashinfer#5252"
)
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
