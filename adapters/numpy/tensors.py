"""NumPy's einsum and its broadcasting of shapes.

Documentation: https://numpy.org/doc/stable/reference/generated/numpy.einsum.html and
https://numpy.org/doc/stable/reference/generated/numpy.broadcast_shapes.html
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "float64")


@adapter("einsum", framework="numpy", dtypes=DTYPES, package="numpy")
def numpy_einsum(a: Any, b: Any, *, equation: str = "ij,jk->ik") -> Any:
    """numpy.einsum of two operands, by its own loops."""
    import numpy as np

    return np.einsum(equation, a, b)


@adapter("einsum", framework="numpy", dtypes=DTYPES, package="numpy")
def numpy_einsum_optimized(a: Any, b: Any, *, equation: str = "ij,jk->ik") -> Any:
    """numpy.einsum of two operands, which may hand the sum to a product of matrices."""
    import numpy as np

    return np.einsum(equation, a, b, optimize=True)


@adapter("broadcast_shapes", framework="numpy", package="numpy")
def numpy_broadcast_shapes(first: Any, second: Any) -> Any:
    """numpy.broadcast_shapes of two shapes."""
    import numpy as np

    return np.array(np.broadcast_shapes(tuple(first.tolist()), tuple(second.tolist())), np.int64)
