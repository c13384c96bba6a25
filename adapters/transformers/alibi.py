"""The ALiBi biases that models of Hugging Face transformers build.

Source: transformers/models/{bloom,falcon}/modeling_*.py (build_alibi_tensor) and
transformers/models/mpt/modeling_mpt.py (build_mpt_alibi_tensor).
BLOOM and Falcon multiply the slope by the key's position and MPT by minus its distance from the last key; all give one
row, which serves every query, for they differ from the published form by a number in each row.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

declared = functools.partial(
    adapter, conventions={"slopes": "interleaved"}, package="transformers", extra="transformers"
)


@declared("alibi_bias", name="bloom_alibi")
def bloom(*, heads: int, q_len: int, k_len: int) -> Any:
    """build_alibi_tensor of transformers.models.bloom."""
    import torch
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    row = build_alibi_tensor(torch.ones(1, k_len), heads, torch.float32)  # [heads, 1, k_len]
    return row.repeat(1, q_len, 1)


@declared("alibi_bias", name="falcon_alibi")
def falcon(*, heads: int, q_len: int, k_len: int) -> Any:
    """build_alibi_tensor of transformers.models.falcon."""
    import torch
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    row = build_alibi_tensor(torch.ones(1, k_len, dtype=torch.int64), heads, torch.float32)  # [heads, 1, k_len]
    return row.repeat(1, q_len, 1)


@declared("alibi_bias", name="mpt_alibi")
def mpt(*, heads: int, q_len: int, k_len: int) -> Any:
    """build_mpt_alibi_tensor of transformers.models.mpt."""
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    row = build_mpt_alibi_tensor(heads, k_len)  # [heads, 1, k_len]
    return row.reshape(heads, 1, k_len).repeat(1, q_len, 1)
