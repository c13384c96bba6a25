"""Attention of ggml over keys and values in blocks of q8_0, called by ctypes.

Source: https://github.com/ggml-org/ggml (src/ggml-cpu/ops.cpp: ggml_compute_forward_flash_attn_ext)
A block has 32 channels of a token and a scale in float16; what float16 lacks of a scale is in queries and outputs, and
channels are filled up to whole blocks. Queries are coded in q8_0 as well, and values are read as numbers.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .kernels import Blocks, computed, library

CODES: dict[str, Any] = {"kv_dtype": ("int8",), "batch": range(1, 1 << 16)}
BLOCK = 32


@adapter(
    "attention",
    framework="numpy",
    dtypes=("float32",),
    grade={"float32": "int8_scores"},
    conventions={"grouping": "block"},
    limits=CODES,
    requires=(
        "size(k_scale, -1) == 1 and size(v_scale, -1) == 1",
        "size(k_scale, -2) == 1 and size(v_scale, -2) == 1",
    ),
    package="ggml",
    extra="ggml",
)
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
    import numpy as np

    ggml = library()

    group = q.shape[1] // k.shape[1]
    keys, left = blocks(k, k_scale)
    values, rest = blocks(v, v_scale)
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


def blocks(codes: Any, scale: Any) -> tuple[Blocks, Any]:
    """Codes with a scale for each head as blocks of q8_0, and what float16 lacks of it: [batch, heads, 1, 1]."""
    import numpy as np

    whole = np.broadcast_to(scale, (*codes.shape[:2], 1, 1)).astype(np.float32)
    near: Any = whole.astype(np.float16)
    near[near == 0] = 1
    filled = np.pad(codes, [(0, 0)] * 3 + [(0, -codes.shape[3] % BLOCK)]).astype(np.int8)
    rows = filled.reshape(*filled.shape[:3], -1, BLOCK)
    data = np.empty((*rows.shape[:4], 2 + BLOCK), np.uint8)
    data[..., :2] = np.broadcast_to(near[..., None], (*rows.shape[:4], 1)).copy().view(np.uint8)
    data[..., 2:] = rows.view(np.uint8)
    tokens, columns = int(np.prod(filled.shape[:3])), filled.shape[3]
    return Blocks("q8_0", tokens, columns, data.tobytes()), whole / near.astype(np.float32)
