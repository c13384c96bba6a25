"""The bias of relative positions in the windows of MONAI's Swin transformer.

Source: https://github.com/Project-MONAI/MONAI (monai/networks/nets/swin_unetr.py, WindowAttention)
The module adds the bias to its scores, which are zeros for tokens of zeros; what its softmax is given is the bias.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated

DECLARED: dict[str, Any] = {"dtypes": ("float32", "bfloat16", "float16"), "package": "monai", "extra": "monai"}


def module(height: int, width: int, heads: int) -> tuple[Any, list[Any]]:
    """A module with one channel for each head, and what its softmax was given last."""
    import torch
    from monai.networks.nets.swin_unetr import WindowAttention

    given: list[Any] = []

    class Kept(torch.nn.Module):
        def forward(self, scores: Any) -> Any:
            given[:] = [scores]
            return scores

    with torch.random.fork_rng(devices=[]):
        made: Any = WindowAttention(heads, heads, (height, width))
    made.softmax = Kept()
    return made, given


def placed(table: Any, height: int, width: int) -> Any:
    """The bias of a window with this table."""
    import torch

    attention, given = module(height, width, table.shape[1])
    weights = {name: x.detach().to(table.dtype) for name, x in attention.named_parameters()}
    tokens = torch.zeros(1, height * width, table.shape[1], dtype=table.dtype)
    torch.func.functional_call(attention, weights | {"relative_position_bias_table": table}, (tokens, None))
    return given.pop()[0]


@adapter("window_bias", **DECLARED)
def monai_swin_bias(table: Any, *, height: int, width: int) -> Any:
    """The bias of WindowAttention."""
    return placed(table, height, width)


@adapter("window_bias_gradient", **DECLARED)
def monai_swin_bias_gradient(table: Any, d_out: Any, *, height: int, width: int) -> dict[str, Any]:
    """The bias of WindowAttention, by automatic differentiation."""
    return differentiated(lambda table: placed(table, height, width), d_out, table=table)
