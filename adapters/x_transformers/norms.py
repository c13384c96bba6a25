"""The normalisation of x-transformers.

Source: https://github.com/lucidrains/x-transformers, x_transformers/x_transformers.py (RMSNorm).
It divides by the length of the row, times the root of the number of channels, and has no epsilon beside the least
length that torch.nn.functional.normalize divides by.
Every step is stored in the dtype of the input. In float16 the quotient by the length of a long row is below the least
normal number, and the least length is zero; that dtype is not claimed.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float64")
GRADE = {"bfloat16": "bf16_naive"}


def applied(x: Any, weight: Any, unit_offset: bool) -> Any:
    """The module with the given weight, applied."""
    import torch
    from x_transformers.x_transformers import RMSNorm

    module = RMSNorm(x.shape[-1], unit_offset=unit_offset)
    module.g = torch.nn.Parameter(weight, requires_grad=False)
    return module(x)


@adapter(
    "rms_norm",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    fixed={"eps": 0.0},
    grade=GRADE,
    package="x_transformers",
    extra="x-transformers",
)
def x_transformers_rms_norm(x: Any, weight: Any) -> Any:
    """RMSNorm of x_transformers."""
    return applied(x, weight, unit_offset=False)


@adapter(
    "rms_norm",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "one_plus"},
    fixed={"eps": 0.0},
    grade=GRADE,
    package="x_transformers",
    extra="x-transformers",
)
def x_transformers_rms_norm_unit_offset(x: Any, weight: Any) -> Any:
    """RMSNorm of x_transformers with its unit offset."""
    return applied(x, weight, unit_offset=True)
