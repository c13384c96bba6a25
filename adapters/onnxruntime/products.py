"""Products with quantized matrices by ONNX Runtime, on its CPU provider.

Documentation: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md, com.microsoft.MatMulNBits
Several codes are packed into a byte, the first one in the low bits, and so are zero points, which are codes.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .attention import run


def packed(codes: Any, bits: int) -> Any:
    """Bytes of codes along the last axis, the last ones filled up with zeros."""
    import numpy as np

    count = 8 // bits
    filled = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % count)])
    parts = filled.reshape(*filled.shape[:-1], -1, count) << (bits * np.arange(count, dtype=np.uint8))
    return np.bitwise_or.reduce(parts.astype(np.uint8), -1)


@adapter(
    "quantized_matmul",
    framework="numpy",
    dtypes=("float32",),
    fixed={"transpose_weights": True},
    requires=("all(scales != 0) and all(offsets == -scales * round(-offsets / scales))",),
    package="onnxruntime",
    extra="onnxruntime",
)
def onnxruntime_matmul_nbits(
    x: Any, codes: Any, scales: Any, offsets: Any, *, bits: int = 4, group_size: int = 32
) -> Any:
    """com.microsoft.MatMulNBits with zero points, in single precision throughout."""
    import numpy as np

    outs, n = codes.shape
    zeros = np.rint(-offsets / scales)
    if zeros.min() < 0 or zeros.max() >= 2**bits:
        raise Unsupported("zero points are codes")
    if n % group_size or x.shape[1] != n:
        raise ValueError("groups are whole, and every weight has an input")
    feeds = {"A": np.ascontiguousarray(x), "B": packed(codes, bits).reshape(outs, n // group_size, -1)}
    feeds |= {"scales": np.ascontiguousarray(scales), "zero_points": packed(zeros.astype(np.uint8), bits)}
    attributes = {"K": n, "N": outs, "bits": bits, "block_size": group_size, "accuracy_level": 1}
    return run("MatMulNBits", "com.microsoft", 21, feeds, 1, **attributes)[0]
