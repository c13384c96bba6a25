"""The einsum of the package einops.

Documentation: https://einops.rocks/api/einsum/
Letters are set apart by blanks, and every equation has an arrow.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter


@adapter(
    "einsum",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    package="einops",
    extra="einops",
    name="einops_einsum",
)
def einsum(a: Any, b: Any, *, equation: str = "ij,jk->ik") -> Any:
    """einops.einsum of two operands."""
    import einops

    inputs, arrow, output = equation.replace("...", "*").partition("->")
    if not arrow:
        raise Unsupported("an equation has an arrow")
    pattern = f"{', '.join(map(' '.join, inputs.split(',')))} -> {' '.join(output)}"
    return einops.einsum(a, b, pattern.replace("*", "..."))
