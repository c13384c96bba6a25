"""Products of float8 codes with scales in torchao.

Source: https://github.com/pytorch/ao/blob/main/torchao/float8/inference.py, addmm_float8_unwrapped_inference
It calls torch._scaled_mm, and adds a bias itself where the result is in float32.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.products import FLOAT8


@adapter("scaled_matmul", dtypes=("float32",), **{**FLOAT8, "package": "torchao"}, extra="torchao")
def torchao_addmm_float8(a: Any, b: Any, a_scale: Any, b_scale: Any, bias: Any = None) -> Any:
    """addmm_float8_unwrapped_inference with results in float32."""
    import torch
    from torchao.float8.inference import addmm_float8_unwrapped_inference

    single = a_scale.numel() == b_scale.numel() == 1
    scales = [s.reshape(()) if single else s.new_empty(s.shape).copy_(s) for s in (a_scale, b_scale)]
    return addmm_float8_unwrapped_inference(a, scales[0], b, scales[1], torch.float32, bias=bias)
