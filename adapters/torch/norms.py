"""PyTorch's normalisations, as functions and as modules.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html and
https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
Both add epsilon under the root; the variance is the biased one.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
LAYER = {"eps_place": "inside", "variance": "biased"}
ROOT_MEAN_SQUARE = {"eps_place": "inside", "weight_form": "plain"}


def with_parameters(module: Any, **parameters: Any) -> Any:
    """A module whose parameters are the given tensors."""
    import torch

    for name, value in parameters.items():
        setattr(module, name, torch.nn.Parameter(value, requires_grad=False))
    return module


@adapter("layer_norm", dtypes=DTYPES, conventions=LAYER, package="torch")
def torch_layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """torch.nn.functional.layer_norm over the last axis."""
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


@adapter("layer_norm", dtypes=DTYPES, conventions=LAYER, package="torch")
def torch_layer_norm_module(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """torch.nn.LayerNorm over the last axis."""
    import torch

    return with_parameters(torch.nn.LayerNorm(x.shape[-1], eps=eps), weight=weight, bias=bias)(x)


@adapter("rms_norm", dtypes=DTYPES, conventions=ROOT_MEAN_SQUARE, package="torch")
def torch_rms_norm(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """torch.nn.functional.rms_norm over the last axis."""
    import torch

    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


@adapter("rms_norm", dtypes=DTYPES, conventions=ROOT_MEAN_SQUARE, package="torch")
def torch_rms_norm_module(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """torch.nn.RMSNorm over the last axis."""
    import torch

    return with_parameters(torch.nn.RMSNorm(x.shape[-1], eps=eps), weight=weight)(x)


@adapter("group_norm", dtypes=DTYPES, conventions={"grouping": "block"}, fixed={"silu": False}, package="torch")
def torch_group_norm(x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-5) -> Any:
    """torch.nn.functional.group_norm."""
    import torch

    return torch.nn.functional.group_norm(x, groups, weight, bias, eps)


@adapter("group_norm", dtypes=DTYPES, conventions={"grouping": "block"}, fixed={"silu": False}, package="torch")
def torch_group_norm_module(x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-5) -> Any:
    """torch.nn.GroupNorm."""
    import torch

    return with_parameters(torch.nn.GroupNorm(groups, x.shape[1], eps=eps), weight=weight, bias=bias)(x)
