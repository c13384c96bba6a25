"""Weights of blocks as transformers makes numbers of them where no kernel takes the codes.

Source: https://github.com/huggingface/transformers (src/transformers/integrations/mxfp4.py, finegrained_fp8.py
and gguf/dequant.py)
The first is for experts, whose weights come back transposed, and the second for any weight with a grid of scales.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter

DECLARED: dict[str, Any] = {"dtypes": ("float32",), "package": "transformers", "extra": "transformers"}
PLAIN: dict[str, Any] = {"swizzled": False}


@adapter(
    "dequantize_blocks", fixed={"block_format": "mxfp4", **PLAIN}, conventions={"last_scale": "infinite"}, **DECLARED
)
def transformers_mxfp4(codes: Any, scales: Any) -> Any:
    """convert_moe_packed_tensors of one expert."""
    import torch
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    blocks = codes.unflatten(1, (-1, 16))[None]
    return convert_moe_packed_tensors(blocks, scales[None], dtype=torch.float32)[0].T.contiguous()


@adapter(
    "dequantize_blocks",
    fixed=PLAIN,
    requires=("block_format != nvfp4",),
    conventions={"last_scale": "infinite"},
    **DECLARED,
)
def transformers_fp8_dequantize(codes: Any, scales: Any, *, block_format: str = "mxfp8_e4m3") -> Any:
    """Fp8Dequantize of one weight, with scales as bytes."""
    import torch
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    kinds = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2, "mxfp4": torch.int8}
    return Fp8Dequantize(None)._dequantize_one(codes.contiguous().view(kinds[block_format]), scales, torch.float32)


@adapter("dequantize_gguf", **DECLARED)
def transformers_gguf(data: Any, *, block_format: str = "q4_0") -> Any:
    """`dequantize` of transformers.integrations.gguf."""
    import torch
    from transformers.integrations.gguf import dequant

    kinds = {"q4_0": dequant.GGML_Q4_0, "q4_1": dequant.GGML_Q4_1, "q8_0": dequant.GGML_Q8_0}
    if not len(data):
        raise Unsupported("there is a row")
    return dequant.dequantize(data.contiguous(), kinds[block_format], torch.float32).reshape(len(data), -1)
