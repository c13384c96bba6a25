"""Right, but different: codes with scales as kernels read them, in ways none of which any law may accuse.

Scales have the axes of the codes, each of full length or 1; a block of tokens shares one where `scale_block` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from .attention import CONVENTIONS, DTYPES, online

FORMATS = {"kv_dtype": ("e4m3fn", "e5m2", "int8")}
QUERIES = {"dtypes": ("bfloat16",), "limits": {**FORMATS, "q_dtype": ("q_e4m3fn", "q_int8")}}
"""What is declared of those whose queries are codes as well."""


def declared_for_codes(operator: str, **further: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An adapter of what takes codes, in the dtypes and formats of all of them where nothing else is said."""
    return adapter(operator, **{"dtypes": DTYPES, "conventions": CONVENTIONS, "limits": FORMATS, **further})


def written_out(scale: Any, tokens: int, block: int | None) -> Any:
    """A scale with an entry for each token where it has one for each block."""
    if block is None or scale.shape[-2] == 1:
        return scale
    return scale.repeat_interleave(block, -2)[..., :tokens, :]


@declared_for_codes("attention")
def control_codes_in_the_dtype_of_queries(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    mask: Any = None,
    bias: Any = None,
    sink: Any = None,
    scale_block: int | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Codes times scales, rounded to the dtype of the queries, as factors of products are."""
    k, v = ((x.float() * written_out(s, x.shape[2], scale_block)).to(q.dtype) for x, s in ((k, k_scale), (v, v_scale)))
    out, lse = online(
        q,
        k,
        v,
        mask=mask,
        bias=bias,
        sink=sink,
        causal=causal,
        window_left=window_left,
        window_right=window_right,
        scale=scale,
        softcap=softcap,
    )
    return out.to(q.dtype) if sink is not None else {"out": out.to(q.dtype), "lse": lse}


@declared_for_codes(
    "attention",
    requires=(
        "size(k_scale, -1) == 1 or size(k_scale, -2) == 1",
        "size(v_scale, -1) == 1 or size(v_scale, -2) == 1",
    ),
)
def control_scales_apart(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    mask: Any = None,
    scale_block: int | None = None,
    scale: float | None = None,
) -> Any:
    """Products of codes, with the scales of channels in queries and output, those of tokens in scores and weights."""
    import torch

    factor = q.shape[3] ** -0.5 if scale is None else scale
    k_scale, v_scale = (written_out(s, k.shape[2], scale_block) for s in (k_scale, v_scale))
    wide = [x.expand(-1, k.shape[1], -1, -1).repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k_scale, v_scale)]
    keys, values = (x.float().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    k_tokens, v_tokens = (x.mT if x.shape[-2] > 1 else torch.ones(1) for x in wide)
    k_channels, v_channels = (x if x.shape[-2] == 1 else torch.ones(1) for x in wide)
    s = (q.float() * k_channels * factor) @ keys.mT * k_tokens
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    p = torch.softmax(s, -1).nan_to_num(0.0) * v_tokens
    return (p @ values * v_channels).to(q.dtype)


@declared_for_codes("attention", framework="numpy", dtypes=("float64", "float32"), limits=FORMATS)
def control_codes_by_table(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    scale_block: int | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Codes as bytes that are looked up in a table of 256 numbers, and one softmax in double precision."""
    import numpy as np

    def read(codes: Any, scales: Any) -> Any:
        table = np.arange(256, dtype=np.uint8).view(codes.dtype).astype(np.float64)
        numbers = table[np.ascontiguousarray(codes).view(np.uint8)]
        tokens = np.arange(codes.shape[2]) // (scale_block or 1)
        return numbers * np.asarray(scales, np.float64)[:, :, np.minimum(tokens, scales.shape[2] - 1)]

    group, ahead = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    keys, values = (np.repeat(read(*x), group, 1) for x in ((k, k_scale), (v, v_scale)))
    s = np.float64(q) @ keys.swapaxes(-1, -2) * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:]), ahead) > 0, s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = p.sum(-1, keepdims=True)
    return (p @ values / np.where(total > 0, total, 1)).astype(q.dtype)


@declared_for_codes("attention", dtypes=("bfloat16",), limits={**FORMATS, "q_dtype": ("q_int8", "q_e4m3fn")})
def control_codes_throughout(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    q_scale: Any = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Queries are codes as well, and integers are multiplied as integers where no channel has a scale of its own."""
    import torch

    factor, group = q.shape[3] ** -0.5 if scale is None else scale, q.shape[1] // k.shape[1]
    k_scale, v_scale = (x.expand(-1, k.shape[1], -1, -1).repeat_interleave(group, 1) for x in (k_scale, v_scale))
    keys, values = (x.repeat_interleave(group, 1) for x in (k, v))
    whole = q.dtype == keys.dtype == torch.int8 and k_scale.shape[3] == 1
    s = q.int() @ keys.int().mT * k_scale.mT if whole else q.float() @ (keys.float() * k_scale).mT
    s = s * factor * (1.0 if q_scale is None else q_scale)
    if causal:
        row = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        s = s.masked_fill(torch.arange(k.shape[2]) > row, -torch.inf)
    return (torch.softmax(s, -1).nan_to_num(0.0) @ (values.float() * v_scale)).bfloat16()
