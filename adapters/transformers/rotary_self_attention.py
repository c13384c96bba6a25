"""Attention layers of Hugging Face transformers: of Llama, and of Qwen3, which normalises queries and keys.

Source: transformers/models/llama/modeling_llama.py (LlamaAttention), transformers/models/qwen3/modeling_qwen3.py
(Qwen3Attention). Every module stores its result in the dtype of the inputs; norms and the tables of the rotation are
computed in single precision. The library keeps its matrices transposed, and pairs the halves of a head.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..torch.layers import new_layer
from .feed_forward import loaded

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {"pairing": "halves"}
declared = functools.partial(
    adapter, dtypes=DTYPES, conventions=CONVENTIONS, package="transformers", extra="transformers"
)


def configured(
    kind: Any, x: Any, wq: Any, wk: Any, *, heads: int, kv_heads: int | None, backend: str, base: float, **more: Any
) -> Any:
    """The configuration of a model for matrices of these shapes."""
    groups = heads if kv_heads is None else kv_heads
    if wq.shape[-1] % heads or wk.shape[-1] * heads != wq.shape[-1] * groups:
        raise ValueError("all heads are equally wide")
    config = kind(
        hidden_size=x.shape[-1],
        num_attention_heads=heads,
        num_key_value_heads=groups,
        head_dim=wq.shape[-1] // heads,
        rope_parameters={"rope_type": "default", "rope_theta": base},
        **more,
    )
    config._attn_implementation = backend
    return config


def called(module: Any, tables: Any, x: Any) -> Any:
    """A layer with the mask and the tables of the rotation that the model hands to it."""
    import torch

    positions = torch.arange(x.shape[1])[None]
    hidden = torch.full((x.shape[1], x.shape[1]), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
    return module(x, attention_mask=hidden[None, None], position_embeddings=tables(x, positions))[0]


def llama(backend: str, x: Any, weights: dict[str, Any], heads: int, kv_heads: int | None, base: float) -> Any:
    """LlamaAttention with these weights, on tokens."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    config = configured(
        LlamaConfig, x, weights["wq"], weights["wk"], heads=heads, kv_heads=kv_heads, backend=backend, base=base
    )
    module = new_layer(LlamaAttention, config, 0).eval()
    for name in ("wq", "wk", "wv", "wo"):
        loaded(module.get_submodule(f"{name[1]}_proj"), weights[name])
    return called(module, LlamaRotaryEmbedding(config), x)


@declared("rotary_self_attention", requires="dim % heads == 0")
def llama_attention(
    x: Any, wq: Any, wk: Any, wv: Any, wo: Any, *, heads: int, kv_heads: int | None = None, base: float = 10000.0
) -> Any:
    """LlamaAttention of transformers.models.llama, with its own attention."""
    return llama("eager", x, {"wq": wq, "wk": wk, "wv": wv, "wo": wo}, heads, kv_heads, base)


@declared("rotary_self_attention", requires="dim % heads == 0")
def llama_attention_sdpa(
    x: Any, wq: Any, wk: Any, wv: Any, wo: Any, *, heads: int, kv_heads: int | None = None, base: float = 10000.0
) -> Any:
    """LlamaAttention of transformers.models.llama, with torch's scaled dot-product attention."""
    return llama("sdpa", x, {"wq": wq, "wk": wk, "wv": wv, "wo": wo}, heads, kv_heads, base)


@declared("rotary_self_attention", requires=("not single(q_norm)", "not single(k_norm)"))
def qwen3_attention(
    x: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    q_norm: Any,
    k_norm: Any,
    heads: int,
    kv_heads: int | None = None,
    base: float = 10000.0,
    eps: float = 1e-6,
) -> Any:
    """Qwen3Attention of transformers.models.qwen3, with its own attention."""
    import torch
    from transformers import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3RotaryEmbedding

    config = configured(
        Qwen3Config, x, wq, wk, heads=heads, kv_heads=kv_heads, backend="eager", base=base, rms_norm_eps=eps
    )
    module = new_layer(Qwen3Attention, config, 0).eval()
    for name, weight in {"q": wq, "k": wk, "v": wv, "o": wo}.items():
        loaded(module.get_submodule(f"{name}_proj"), weight)
    module.q_norm.weight = torch.nn.Parameter(q_norm, requires_grad=False)
    module.k_norm.weight = torch.nn.Parameter(k_norm, requires_grad=False)
    return called(module, Qwen3RotaryEmbedding(config), x)
