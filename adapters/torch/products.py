"""Products with quantized matrices in PyTorch, on the CPU.

Source: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/LinearAlgebra.cpp, _weight_int4pack_mm_for_cpu
Codes of four bits are packed by a function of its own; a weight is its code less eight, times the scale, plus a number.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "quantized_matmul",
    dtypes=("float32",),
    fixed={"bits": 4, "transpose_weights": True},
    limits={"outs": range(16, 4097, 16)},
    requires=("all(scales != 0) and all(offsets == -scales * round(-offsets / scales))",),
    package="torch",
)
def torch_int4pack_mm(x: Any, codes: Any, scales: Any, offsets: Any, *, group_size: int = 32) -> Any:
    """torch._weight_int4pack_mm_for_cpu."""
    import torch

    if codes.shape[1] % group_size or x.shape[1] != codes.shape[1]:
        raise ValueError("groups are whole, and every weight has an input")
    packed = torch._convert_weight_to_int4pack_for_cpu(codes.to(torch.int32), 1)
    pairs = torch.stack((scales, offsets + 8 * scales), -1).transpose(0, 1).contiguous()
    return torch._weight_int4pack_mm_for_cpu(x.contiguous(), packed, group_size, pairs)
