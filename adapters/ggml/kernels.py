"""The operators of ggml on its CPU backend, called by ctypes; ggml-python builds the library from its own source.

Source: https://github.com/ggml-org/ggml (include/ggml.h: ggml_soft_max, ggml_norm, ggml_rms_norm, ggml_rope_ext,
ggml_flash_attn_ext).
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import adapter

ROOM = 16 << 20
"""Bytes of a context beside its arrays."""
COPIES = 8
"""How many times the bytes of its inputs a graph may need for outputs and work."""


def library() -> Any:
    """The module of ggml-python, whose functions are those of the library."""
    return importlib.import_module("ggml")


@dataclass(frozen=True)
class Blocks:
    """A matrix of quantized blocks, as the bytes of its rows."""

    format: str
    rows: int
    columns: int
    data: bytes

    @property
    def nbytes(self) -> int:
        return len(self.data)


def computed(build: Callable[..., Any], *inputs: Any) -> Any:
    """What a graph gives that is built of inputs in float32, float16, int32 or blocks, as an array row by row."""
    import numpy as np

    ggml = library()

    room = ROOM + COPIES * sum(x.nbytes for x in inputs)
    context = ggml.ggml_init(ggml.ggml_init_params(mem_size=room, mem_buffer=None, no_alloc=False))
    try:
        last = build(context, *(_tensor(context, x) for x in inputs))
        graph = ggml.ggml_new_graph(context)
        ggml.ggml_build_forward_expand(graph, last)
        ggml.ggml_graph_compute_with_ctx(context, graph, 1)
        shape = tuple(last.contents.ne[: ggml.GGML_MAX_DIMS])[::-1]
        data = ctypes.string_at(ggml.ggml_get_data(last), ggml.ggml_nbytes(last))
        return np.frombuffer(data, np.float32).reshape(shape)
    finally:
        ggml.ggml_free(context)


def _tensor(context: Any, x: Any) -> Any:
    """An array as a tensor of ggml, whose first axis is the last one of NumPy."""
    import numpy as np

    ggml = library()

    kinds = {np.float32: ggml.GGML_TYPE_F32, np.float16: ggml.GGML_TYPE_F16, np.int32: ggml.GGML_TYPE_I32}
    if isinstance(x, Blocks):
        made = ggml.ggml_new_tensor_2d(context, getattr(ggml, f"GGML_TYPE_{x.format.upper()}"), x.columns, x.rows)
        ctypes.memmove(ggml.ggml_get_data(made), x.data, x.nbytes)
        return made
    x = np.ascontiguousarray(x)
    kind = kinds[x.dtype.type]
    made = ggml.ggml_new_tensor(context, kind, x.ndim, (ctypes.c_int64 * x.ndim)(*x.shape[::-1]))
    ctypes.memmove(ggml.ggml_get_data(made), x.ctypes.data, x.nbytes)
    return made


@adapter("softmax", framework="numpy", package="ggml", extra="ggml")
def ggml_soft_max(x: Any) -> Any:
    """ggml_soft_max over the last axis."""
    ggml = library()

    return computed(ggml.ggml_soft_max, x).reshape(x.shape)


@adapter(
    "layer_norm",
    framework="numpy",
    conventions={"eps_place": "inside", "variance": "biased"},
    package="ggml",
    extra="ggml",
)
def ggml_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """ggml_norm, ggml_mul and ggml_add."""
    ggml = library()

    def build(context: Any, x: Any, weight: Any, bias: Any) -> Any:
        normed = ggml.ggml_mul(context, ggml.ggml_norm(context, x, eps), weight)
        return ggml.ggml_add(context, normed, bias)

    return computed(build, x, weight, bias).reshape(x.shape)


@adapter(
    "rms_norm",
    framework="numpy",
    conventions={"eps_place": "inside", "weight_form": "plain"},
    package="ggml",
    extra="ggml",
)
def ggml_rms_norm(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """ggml_rms_norm and ggml_mul."""
    ggml = library()

    def build(context: Any, x: Any, weight: Any) -> Any:
        return ggml.ggml_mul(context, ggml.ggml_rms_norm(context, x, eps), weight)

    return computed(build, x, weight).reshape(x.shape)


@adapter(
    "attention",
    framework="numpy",
    conventions={"grouping": "block"},
    limits={"batch": range(1, 1 << 16)},  # it divides by the number of rows
    package="ggml",
    extra="ggml",
)
def ggml_flash_attn_ext(
    q: Any, k: Any, v: Any, *, mask: Any = None, scale: float | None = None, softcap: float | None = None
) -> Any:
    """ggml_flash_attn_ext; a mask is added to the scores as zeros and minus infinities in float16."""
    import numpy as np

    ggml = library()

    given = [q, k, v]
    if mask is not None:
        hidden = np.where(mask, 0.0, -np.inf).astype(np.float16)
        given.append(np.broadcast_to(hidden, (*q.shape[:3], k.shape[2])))
    factor = q.shape[3] ** -0.5 if scale is None else scale

    def build(context: Any, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return ggml.ggml_flash_attn_ext(context, q, k, v, mask, factor, 0.0, softcap or 0.0)

    return np.swapaxes(computed(build, *given).reshape(q.shape[0], q.shape[2], q.shape[1], v.shape[3]), 1, 2)


@adapter("rotary", framework="numpy", layout="bshd", conventions={"pair_place": "kept"}, package="ggml", extra="ggml")
def ggml_rope_ext(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """ggml_rope_ext, with pairs side by side or in the order of GPT-NeoX, and no scaling of frequencies."""
    import numpy as np

    ggml = library()

    width, mode = rotary_dim or x.shape[-1], 0 if interleaved else ggml.GGML_ROPE_TYPE_NEOX

    def build(context: Any, x: Any, positions: Any) -> Any:
        return ggml.ggml_rope_ext(context, x, positions, None, width, mode, 0, base, 1.0, 0.0, 1.0, 32.0, 1.0)

    return computed(build, x, positions.astype(np.int32)).reshape(x.shape)


LENGTHS = {"q4_0": 18, "q4_1": 20, "q8_0": 34}
"""The bytes of a block of 32 numbers."""


@adapter("dequantize_gguf", framework="numpy", package="ggml", extra="ggml")
def ggml_get_rows(data: Any, *, block_format: str = "q4_0") -> Any:
    """ggml_get_rows of all rows, in their order."""
    import numpy as np

    ggml = library()

    rows, columns = len(data), data.shape[1] // LENGTHS[block_format] * 32
    if data.shape[1] % LENGTHS[block_format]:
        raise ValueError("blocks are whole")
    blocks = Blocks(block_format, rows, columns, np.ascontiguousarray(data).tobytes())
    return computed(ggml.ggml_get_rows, blocks, np.arange(rows, dtype=np.int32)).reshape(rows, columns)
