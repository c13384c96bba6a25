"""How pytorch-custom-utils divides parameters into those with and those without weight decay.

Source: https://github.com/lucidrains/pytorch-custom-utils, pytorch_custom_utils/get_adam_optimizer.py
(get_adam_optimizer).
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter("decay_groups", package="pytorch_custom_utils", extra="pytorch-custom-utils")
def custom_utils_adam(ranks: Any) -> Any:
    """The groups of the optimiser that get_adam_optimizer makes."""
    import torch
    from pytorch_custom_utils.get_adam_optimizer import get_adam_optimizer

    if (ranks < 0).any():
        raise ValueError("no parameter has fewer axes than none")
    parameters = [torch.nn.Parameter(torch.zeros((2,) * rank)) for rank in ranks.tolist()]
    optimizer = get_adam_optimizer(parameters, wd=0.1)
    decayed = {id(p) for group in optimizer.param_groups if group["weight_decay"] for p in group["params"]}
    return torch.tensor([id(p) in decayed for p in parameters], dtype=torch.bool)
