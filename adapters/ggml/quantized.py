"""Attention of ggml over keys and values in blocks of q8_0 and q4_0, called by ctypes.

Source: https://github.com/ggml-org/ggml (src/ggml-cpu/ops.cpp: ggml_compute_forward_flash_attn_ext)
A block has 32 channels of a token, as integers of eight or four bits, and a scale in float16; what float16 lacks of a
scale is in queries and outputs, and channels are filled up to whole blocks. Queries are coded in q8_0 whatever the keys
are in, and values are read as numbers.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .kernels import Blocks, computed, library

BLOCK = 32
CODES: dict[str, Any] = {
    "framework": "numpy",
    "dtypes": ("float32",),
    "grade": {"float32": "int8_scores"},
    "conventions": {"grouping": "block"},
    "limits": {"kv_dtype": ("int8",), "batch": range(1, 1 << 16)},
    "package": "ggml",
    "extra": "ggml",
}
WHOLE = (
    "size(k_scale, -1) == 1 and size(v_scale, -1) == 1",
    "size(k_scale, -2) == 1 and size(v_scale, -2) == 1",
)


def attended(q: Any, sides: Any, form: str, mask: Any, scale: float | None, softcap: float | None) -> Any:
    """ggml_flash_attn_ext with keys and values, and the scales of each, in blocks of a form."""
    import numpy as np

    ggml = library()

    (k, k_scale), (v, v_scale) = sides
    group = q.shape[1] // k.shape[1]
    keys, left = blocks(k, k_scale, form)
    values, rest = blocks(v, v_scale, form)
    queries = np.pad(q * np.repeat(left, group, 1), [(0, 0)] * 3 + [(0, -q.shape[3] % BLOCK)]).astype(np.float32)
    given: list[Any] = [queries]
    if mask is not None:
        hidden = np.where(mask, 0.0, -np.inf).astype(np.float16)
        given.append(np.broadcast_to(hidden, (*q.shape[:3], k.shape[2])))
    factor = q.shape[3] ** -0.5 if scale is None else scale

    def build(context: Any, keys: Any, values: Any, q: Any, mask: Any = None) -> Any:
        sizes = (k.shape[2], k.shape[1], k.shape[0])
        keys, values = (ggml.ggml_reshape_4d(context, x, x.contents.ne[0], *sizes) for x in (keys, values))
        return ggml.ggml_flash_attn_ext(context, q, keys, values, mask, factor, 0.0, softcap or 0.0)

    out = computed(build, keys, values, *given).reshape(q.shape[0], q.shape[2], q.shape[1], values.columns)
    return np.swapaxes(out, 1, 2)[..., : v.shape[3]] * np.repeat(rest, group, 1)


@adapter("attention", requires=WHOLE, **CODES)
def ggml_flash_attn_q8_0(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    kv_dtype: str,
    mask: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """ggml_flash_attn_ext with keys and values in q8_0."""
    return attended(q, ((k, k_scale), (v, v_scale)), "q8_0", mask, scale, softcap)


@adapter("attention", requires=(*WHOLE, "all(k >= -8) and all(k <= 7)", "all(v >= -8) and all(v <= 7)"), **CODES)
def ggml_flash_attn_q4_0(
    q: Any,
    k: Any,
    v: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    kv_dtype: str,
    mask: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """ggml_flash_attn_ext with keys and values in q4_0, whose codes are from -8 to 7."""
    return attended(q, ((k, k_scale), (v, v_scale)), "q4_0", mask, scale, softcap)


def blocks(codes: Any, scale: Any, form: str) -> tuple[Blocks, Any]:
    """Codes with a scale for each head as blocks, and what float16 lacks of it: [batch, heads, 1, 1].

    In q4_0 the first sixteen codes of a block are in the lower halves of its bytes, with eight added.
    """
    import numpy as np

    whole = np.broadcast_to(scale, (*codes.shape[:2], 1, 1)).astype(np.float32)
    near: Any = whole.astype(np.float16)
    near[near == 0] = 1
    filled = np.pad(codes, [(0, 0)] * 3 + [(0, -codes.shape[3] % BLOCK)]).astype(np.int8)
    rows = filled.reshape(*filled.shape[:3], -1, BLOCK).view(np.uint8)
    if form == "q4_0":
        raised = rows + np.uint8(8)
        rows = raised[..., : BLOCK // 2] | raised[..., BLOCK // 2 :] << 4
    data = np.empty((*rows.shape[:4], 2 + rows.shape[4]), np.uint8)
    data[..., :2] = np.broadcast_to(near[..., None], (*rows.shape[:4], 1)).copy().view(np.uint8)
    data[..., 2:] = rows
    tokens, columns = int(np.prod(filled.shape[:3])), filled.shape[3]
    return Blocks(form, tokens, columns, data.tobytes()), whole / near.astype(np.float32)
