"""Products of groups of rows in JAX.

Documentation: https://docs.jax.dev/en/latest/_autosummary/jax.lax.ragged_dot.html
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "grouped_matmul",
    framework="jax",
    dtypes=("float32", "bfloat16", "float16"),
    compiled=True,
    conventions={"stray_nonfinite": "propagates"},
    differentiable=True,
    package="jax",
    extra="jax",
)
def jax_ragged_dot(x: Any, w: Any, lens: Any) -> Any:
    """ragged_dot in the precision of the inputs."""
    import jax

    if len(lens) != len(w):
        raise ValueError("every matrix has a length")
    return jax.lax.ragged_dot(x, w, lens.astype("int32"), precision="highest")
