"""Conversions to float8 in Triton's interpreter.

Left to itself it loses the carry where rounding reaches the next power of two, rounds ties up and cuts subnormal
numbers off. Devices round to the nearest, ties to even, and store the largest number of what lies beyond the range.
"""

from __future__ import annotations

import functools
from typing import Any


def mend_float8(interpreter: Any, language: Any) -> None:
    """Have the interpreter round what it converts to float8 as devices do; after `mend_bfloat16`."""
    import ml_dtypes
    import numpy as np

    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    formats = {language.float8e4nv: ml_dtypes.float8_e4m3fn, language.float8e5: ml_dtypes.float8_e5m2}
    convert = builder.create_fp_to_fp

    @functools.wraps(convert)
    def call(self: Any, x: Any, to: Any, *given: Any) -> Any:
        if to.scalar not in formats or x.dtype.scalar.primitive_bitwidth <= 8:
            return convert(self, x, to, *given)
        if x.dtype.scalar != language.float32:
            x = convert(self, x, language.float32, *given)
        largest = float(ml_dtypes.finfo(formats[to.scalar]).max)
        codes = np.clip(x.data, -largest, largest).astype(formats[to.scalar])
        return handle(codes.view(np.uint8), to.scalar)

    builder.create_fp_to_fp = call
