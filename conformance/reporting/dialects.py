"""How a program writes, compares and differentiates arrays in each framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the lines of a program are in one framework; `{x}` and `{y}` stand for arrays."""

    imports: dict[str, str]
    """The name that each import gives, and its line."""
    made: str
    """An array, given the same of NumPy as `{x}`; empty where it is written in another way."""
    flat: str
    """The entries in one row of double precision."""
    copied: str
    same: str
    zeros: str
    """An array of zeros of the same shape and dtype."""
    first: str = ""
    """The line that comes before all calls."""
    doubled: str = ""
    """The line that comes before calls in double precision."""
    quiet: str = ""
    """What a call stands under that nothing is differentiated of."""
    others: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Dtypes of which arrays are made in another way: in which dtype NumPy has them, and how."""
    strided: bool = False
    """Whether arrays have strides that are chosen."""


TORCH = Dialect(
    {"torch": "import torch"},
    made="",
    flat="torch.as_tensor({x}).double().flatten()",
    copied="{x}.clone()",
    same="torch.equal({x}, {y})",
    zeros="torch.zeros_like({x})",
    first="torch.set_num_threads(1)",
    quiet="with torch.no_grad():\n    ",
    strided=True,
)
NUMPY = Dialect(
    {"np": "import numpy as np"},
    made="{x}",
    flat='np.asarray({x}).astype("float64").ravel()',
    copied="{x}.copy()",
    same="np.array_equal({x}, {y})",
    zeros="np.zeros_like({x})",
    strided=True,
)
JAX = Dialect(
    {"jax": "import jax", "jnp": "import jax.numpy as jnp", **NUMPY.imports},
    made="jnp.asarray({x})",
    flat=NUMPY.flat,
    copied="{x}",
    same="bool(jnp.array_equal({x}, {y}))",
    zeros="jnp.zeros_like({x})",
    doubled='jax.config.update("jax_enable_x64", True)',
)
MLX = Dialect(
    {"mx": "import mlx.core as mx", **NUMPY.imports},
    made="mx.array({x})",
    flat='np.array({x}.astype(mx.float32) if {x}.dtype == mx.bfloat16 else {x}).astype("float64").ravel()',
    copied="mx.array({x})",
    same="bool(mx.array_equal({x}, {y}))",
    zeros="mx.zeros_like({x})",
    others={
        "bfloat16": ("float32", "mx.array({x}).astype(mx.bfloat16)"),
        "float64": ("float64", "mx.array({x}, mx.float64)"),
    },
)
DIALECTS = {"torch": TORCH, "numpy": NUMPY, "jax": JAX, "mlx": MLX}


def pulled_back(
    framework: str, made: str, leaves: Sequence[str], cotangents: Mapping[str, tuple[str, int]]
) -> Iterator[str]:
    """The lines that give `gradients` of a call, by these arrays; no framework but those that differentiate has any.

    Each of the cotangents is that of an output, which has a name and a place.
    """
    listed, given = ", ".join(leaves), ", ".join(cotangents)
    several = listed + ("," if len(leaves) == 1 else "")
    result = made if len(cotangents) == 1 else "outputs"
    taken = ", ".join(f'part({result}, "{name}", {at})' for name, at in cotangents.values())
    if framework == "torch":
        yield f"{several} = (x.requires_grad_() for x in ({several}))"
        taken, given = (taken, given) if result == made else (f"({taken})", f"({given})")
        if result != made:
            yield f"{result} = {made}"
        asked = f"({several}), {given}, allow_unused=True, materialize_grads=True"
        yield f"gradients = torch.autograd.grad({taken}, {asked})"
        return
    first = "" if result == made else f"    {result} = {made}\n"
    yield f"def forward({listed}):\n{first}    return {taken}\n"
    if framework == "jax":
        yield f"out, pull = jax.vjp(forward, {listed})"
        yield f"gradients = pull({given if result == made else f'({given})'})"
    else:
        yield f"out, gradients = mx.vjp(forward, [{listed}], [{given}])"
