"""Differential attention of DiffLlama, between its projections.

Source: https://github.com/huggingface/transformers/blob/main/src/transformers/models/diffllama/modeling_diffllama.py
Heads of the first half and of the second one are pairs, and half of the channels of a value lie with each half of the
key heads. Projections return what they are given, and positions turn nothing.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .. import adapter
from ..controls.differential import fitting, hidden
from ..torch.layers import given, new_layer

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16", "float64"),
    "grade": {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"},
    "conventions": {"head_pairs": "halves"},
    "package": "transformers",
    "extra": "transformers",
    "requires": ("value_dim == 2 * head_dim", "head_dim % 2 == 0"),
}


def attended(
    kind: str,
    q: Any,
    k: Any,
    v: Any,
    lambdas: tuple[Any, ...],
    *,
    depth: int,
    causal: bool,
    eps: float,
) -> Any:
    """DiffLlamaAttention with one of its functions; keys and values are what a cache has."""
    import torch
    from transformers import DiffLlamaConfig
    from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention

    fitting(q, k, v)
    batch, heads, length, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    sizes: dict[str, Any] = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": dim}
    sizes["attn_implementation"] = kind
    config = DiffLlamaConfig(hidden_size=heads * dim, rms_norm_eps=eps, **sizes)
    with torch.device("meta"):
        module = new_layer(DiffLlamaAttention, config, depth).eval()
    module.q_proj = given(q.transpose(1, 2).flatten(2))
    module.k_proj = module.v_proj = given(q.new_zeros(batch, length, kv_heads * dim))
    module.o_proj = torch.nn.Identity()
    module.is_causal = causal
    for name, x in zip(("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"), lambdas, strict=True):
        setattr(module, name, torch.nn.Parameter(x, requires_grad=False))
    cached = k, torch.cat(v.split(dim, 3), 1)
    mask = None
    if causal and (kind == "eager" or length < keys):
        mask = torch.zeros(length, keys, dtype=q.dtype).masked_fill(hidden(length, keys), -torch.inf)[None, None]
    turned = q.new_ones(1, 1, dim), q.new_zeros(1, 1, dim)
    cache = SimpleNamespace(update=lambda *_, **__: cached)
    out, _ = module(q.new_zeros(batch, length, 1), turned, mask, cache)
    return out.unflatten(2, (heads // 2, 2 * dim)).transpose(1, 2)


@adapter("differential_attention", **DECLARED)
def transformers_diffllama_eager(
    q: Any,
    k: Any,
    v: Any,
    lambda_q1: Any,
    lambda_k1: Any,
    lambda_q2: Any,
    lambda_k2: Any,
    *,
    depth: int = 0,
    causal: bool = False,
    eps: float = 1e-5,
) -> Any:
    """DiffLlamaAttention with its eager function."""
    lambdas = (lambda_q1, lambda_k1, lambda_q2, lambda_k2)
    return attended("eager", q, k, v, lambdas, depth=depth, causal=causal, eps=eps)


@adapter("differential_attention", **DECLARED)
def transformers_diffllama_sdpa(
    q: Any,
    k: Any,
    v: Any,
    lambda_q1: Any,
    lambda_k1: Any,
    lambda_q2: Any,
    lambda_k2: Any,
    *,
    depth: int = 0,
    causal: bool = False,
    eps: float = 1e-5,
) -> Any:
    """DiffLlamaAttention with the attention of torch."""
    lambdas = (lambda_q1, lambda_k1, lambda_q2, lambda_k2)
    return attended("sdpa", q, k, v, lambdas, depth=depth, causal=causal, eps=eps)
