"""Attention over pages of latents on the CPU, as vLLM has compiled it.

Source: https://github.com/vllm-project/vllm (csrc/cpu/mla_decode.cpp)
It has rows of 576 channels, of which 512 are the value, and pages of 16 tokens.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .modules import compiled


@adapter(
    "latent_pages",
    dtypes=("float32", "bfloat16", "float16"),
    limits={"q_len": (1,), "width": (576,), "value_dim": (512,), "page_size": (16,)},
    package="vllm",
)
def vllm_cpu_mla_decode(
    q: Any, rows: Any, table: Any, k_lens: Any, *, value_dim: int = 512, scale: float | None = None
) -> Any:
    """mla_decode_kvcache of single queries."""
    import torch

    if len(q) != len(table) or len(q) != len(k_lens) or q.shape[-1] != rows.shape[-1]:
        raise ValueError("every item has a table and a length, and queries are as wide as rows")
    out = torch.zeros(*q[:, 0].shape[:2], value_dim, dtype=q.dtype)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    compiled().mla_decode_kvcache(
        out, q[:, 0].contiguous(), rows.contiguous(), factor, table.int().contiguous(), k_lens.int()
    )
    return out[:, None]
