"""Symmetric quantization of blocks in torchao.

Source: https://github.com/pytorch/ao/blob/main/torchao/prototype/quantized_training/int8.py and
.../torchao/quantization/quant_primitives.py
Scales of integers are in the dtype of the numbers, and those of float8 in float32; a power of two is the nearest one.
Blocks of a single number are not divided into, and raise an error.
The noise of stochastic rounding comes from torch's own generator.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
declared = functools.partial(adapter, "quantize_blocks", dtypes=DTYPES, package="torchao", extra="torchao")


@declared(fixed={"code_dtype": "i8", "block_rows": 1, "block_columns": None, "power_of_two": False})
def torchao_int8_rowwise(x: Any, *, seed: int | None = None) -> Any:
    """quantize_int8_rowwise, with stochastic_rounding where there is a seed."""
    import torch
    from torchao.prototype.quantized_training.int8 import quantize_int8_rowwise

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed or 0)
        codes, scale = quantize_int8_rowwise(x, stochastic_rounding=seed is not None)
    return {"codes": codes, "scale": scale[:, None]}


@declared(
    fixed={"code_dtype": "e4m3"},
    conventions={"power_rounding": "nearest"},
    requires=("(rows if block_rows == none else block_rows) * (n if block_columns == none else block_columns) > 1",),
)
def torchao_float8(
    x: Any, *, block_rows: int | None = 1, block_columns: int | None = None, power_of_two: bool = False
) -> Any:
    """The float8 codes of quant_primitives, by scales of blocks."""
    import torch
    from torchao.quantization.quant_primitives import _choose_scale_float8, _quantize_affine_float8

    block = [block_rows or x.shape[0], block_columns or x.shape[1]]
    form = torch.float8_e8m0fnu if power_of_two else torch.float32
    scale = _choose_scale_float8(x, block, torch.float8_e4m3fn, form)
    return {"codes": _quantize_affine_float8(x, scale, torch.float8_e4m3fn), "scale": scale}
