"""Codes of MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html
Of the modes of microscaling, the scale of mxfp8 and mxfp4 is a power of two and that of nvfp4 in e4m3; its second scale
is passed as the largest number there may be, 2688 times as large. Of nvfp4 it takes an even number of blocks.
Of mxfp8, 32 numbers share a scale that is a power of two; codes are packed four to an integer of 32 bits, and are read
here as what they mean with a scale of one.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "quantize_blocks",
    framework="mlx",
    dtypes=("float32", "float16"),
    fixed={"code_dtype": "e4m3", "block_rows": 1, "block_columns": 32, "power_of_two": True},
    package="mlx",
    extra="mlx",
)
def mlx_mxfp8(x: Any) -> Any:
    """mlx.core.quantize in the mode mxfp8."""
    import mlx.core as mx

    codes, scales, *_ = mx.quantize(x, mode="mxfp8")
    numbers = mx.dequantize(codes, mx.full(scales.shape, 127, mx.uint8), mode="mxfp8")
    return {"codes": numbers.astype(mx.float32), "scale": mx.power(2.0, scales.astype(mx.float32) - 127.0)}


@adapter(
    "dequantize_blocks",
    framework="mlx",
    dtypes=("float32",),
    fixed={"swizzled": False},
    requires=("block_format != mxfp8_e5m2", "block_format != nvfp4 or rows * (size(codes) // 8) % 2 == 0"),
    package="mlx",
    extra="mlx",
)
def mlx_dequantize(codes: Any, scales: Any, tensor_scale: Any = None, *, block_format: str = "mxfp8_e4m3") -> Any:
    """mlx.core.dequantize in the modes mxfp8, mxfp4 and nvfp4."""
    import mlx.core as mx

    whole = {} if tensor_scale is None else {"global_scale": 2688.0 * tensor_scale[0]}
    mode = block_format.removesuffix("_e4m3")
    return mx.dequantize(mx.contiguous(codes).view(mx.uint32), scales, mode=mode, dtype=mx.float32, **whole)
