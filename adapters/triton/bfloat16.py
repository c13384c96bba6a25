"""Bfloat16 in Triton's interpreter, which holds it as bits.

Left to itself it computes with the bits as with whole numbers, in products of matrices and sums as well, and cuts them
off where it converts to bfloat16. Devices compute in single precision and round to the nearest, ties to even.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

ARITHMETIC = {"binary_op": 0, "unary_op": 0, "create_erf": 0, "create_rsqrt": 0, "create_fma": 2, "create_dot": 2}
"""Methods of the interpreter, each with the place of the argument whose dtype its result has."""


def mend_bfloat16(interpreter: Any, language: Any) -> None:
    """Have the interpreter compute with bfloat16 in single precision, and round what it stores."""
    import ml_dtypes
    import numpy as np

    builder, handle, narrow_type = interpreter.InterpreterBuilder, interpreter.TensorHandle, language.bfloat16

    def is_narrow(x: Any) -> bool:
        return isinstance(x, handle) and x.dtype == narrow_type

    def widened(x: Any) -> Any:
        return handle(x.data.view(ml_dtypes.bfloat16).astype(np.float32), language.float32) if is_narrow(x) else x

    def narrowed(x: Any) -> Any:
        if x.data.dtype == np.bool_:  # of a comparison
            return handle(x.data, narrow_type)
        return handle(x.data.astype(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16), narrow_type)

    def in_single_precision(method: Callable[..., Any], place: int) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, *given: Any, **more: Any) -> Any:
            found = method(self, *map(widened, given), **more)
            return narrowed(found) if is_narrow(given[place]) else found

        return call

    def converting(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, x: Any, to: Any, *given: Any) -> Any:
            if to.scalar != narrow_type:
                return method(self, widened(x), to, *given)
            x = widened(x)
            return narrowed(x if x.dtype == language.float32 else method(self, x, language.float32, *given))

        return call

    def reducing(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, given: Any) -> Any:
            several = given if isinstance(given, tuple) else (given,)
            narrow = [is_narrow(x.handle) for x in several]
            if not any(narrow):
                return method(self, given)
            wide = [x.to(language.float32) if own else x for x, own in zip(several, narrow, strict=True)]
            found = method(self, tuple(wide))
            stored = [x.to(narrow_type) if own else x for x, own in zip(found, narrow, strict=True)]
            return tuple(stored) if isinstance(given, tuple) else stored[0]

        return call

    for name, place in ARITHMETIC.items():
        setattr(builder, name, in_single_precision(getattr(builder, name), place))
    for name in ("cast_impl", "create_fp_to_fp"):
        setattr(builder, name, converting(getattr(builder, name)))
    kind = interpreter.ReduceScanOpInterface
    kind.apply = reducing(kind.apply)
