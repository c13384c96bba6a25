"""Llama of Hugging Face transformers: one of its layers, and the whole model.

Source: transformers/models/llama/modeling_llama.py (LlamaDecoderLayer, LlamaForCausalLM).
Every module stores its result in the dtype of the inputs; norms and the tables of the rotation are computed in single
precision. The library keeps its matrices transposed, and pairs the halves of a head.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..torch.layers import new_layer
from .feed_forward import loaded

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {"pairing": "halves"}
WEIGHTS = ("attention_norm", "wq", "wk", "wv", "wo", "mlp_norm", "w_gate", "w_up", "w_down")
MATRICES = {
    "wq": "self_attn.q_proj",
    "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj",
    "wo": "self_attn.o_proj",
    "w_gate": "mlp.gate_proj",
    "w_up": "mlp.up_proj",
    "w_down": "mlp.down_proj",
}
declared = functools.partial(
    adapter, dtypes=DTYPES, conventions=CONVENTIONS, package="transformers", extra="transformers"
)


def configuration(
    wq: Any, w_gate: Any, *, heads: int, kv_heads: int | None, eps: float, base: float, backend: str, **more: Any
) -> Any:
    """The configuration of Llama for weights of these shapes."""
    from transformers import LlamaConfig

    if wq.shape[-1] % heads:
        raise ValueError("all heads are equally wide")
    config = LlamaConfig(
        hidden_size=wq.shape[-2],
        intermediate_size=w_gate.shape[-1],
        num_attention_heads=heads,
        num_key_value_heads=heads if kv_heads is None else kv_heads,
        head_dim=wq.shape[-1] // heads,
        rms_norm_eps=eps,
        rope_parameters={"rope_type": "default", "rope_theta": base},
        **more,
    )
    config._attn_implementation = backend
    return config


def fill(module: Any, weights: dict[str, Any]) -> None:
    """Load one layer of Llama with weights by the operator's names."""
    import torch

    for name, path in MATRICES.items():
        loaded(module.get_submodule(path), weights[name])
    module.input_layernorm.weight = torch.nn.Parameter(weights["attention_norm"], requires_grad=False)
    module.post_attention_layernorm.weight = torch.nn.Parameter(weights["mlp_norm"], requires_grad=False)


def layer(
    backend: str, x: Any, weights: dict[str, Any], heads: int, kv_heads: int | None, eps: float, base: float
) -> Any:
    """One layer, with the mask and the tables of the rotation that the model hands to it."""
    import torch
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = configuration(
        weights["wq"], weights["w_gate"], heads=heads, kv_heads=kv_heads, eps=eps, base=base, backend=backend
    )
    module = new_layer(LlamaDecoderLayer, config, 0).eval()
    fill(module, weights)
    positions = torch.arange(x.shape[1])[None]
    hidden = torch.full((x.shape[1], x.shape[1]), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
    tables = LlamaRotaryEmbedding(config)(x, positions)
    return module(x, attention_mask=hidden[None, None], position_ids=positions, position_embeddings=tables)


@declared("transformer_block")
def llama_layer(
    x: Any, *weights: Any, heads: int, kv_heads: int | None = None, eps: float = 1e-6, base: float = 10000.0
) -> Any:
    """LlamaDecoderLayer of transformers.models.llama, with its own attention."""
    return layer("eager", x, dict(zip(WEIGHTS, weights, strict=True)), heads, kv_heads, eps, base)


@declared("transformer_block")
def llama_layer_sdpa(
    x: Any, *weights: Any, heads: int, kv_heads: int | None = None, eps: float = 1e-6, base: float = 10000.0
) -> Any:
    """LlamaDecoderLayer of transformers.models.llama, with torch's scaled dot-product attention."""
    return layer("sdpa", x, dict(zip(WEIGHTS, weights, strict=True)), heads, kv_heads, eps, base)


def language_model(
    backend: str,
    embedding: Any,
    weights: tuple[Any, ...],
    heads: int,
    kv_heads: int | None,
    eps: float,
    base: float,
) -> Any:
    """The whole model with these weights, its output tied to its embedding, and without tokens of special meaning."""
    import torch
    from transformers import LlamaForCausalLM

    stacked, final_norm = dict(zip(WEIGHTS, weights[:-1], strict=True)), weights[-1]
    config = configuration(
        stacked["wq"],
        stacked["w_gate"],
        heads=heads,
        kv_heads=kv_heads,
        eps=eps,
        base=base,
        backend=backend,
        vocab_size=len(embedding),
        num_hidden_layers=len(stacked["wq"]),
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    module = new_layer(LlamaForCausalLM, config).eval()
    module.model.embed_tokens.weight = torch.nn.Parameter(embedding, requires_grad=False)
    module.lm_head.weight = module.model.embed_tokens.weight
    module.model.norm.weight = torch.nn.Parameter(final_norm, requires_grad=False)
    for index, layer in enumerate(module.model.layers):
        fill(layer, {name: weight[index] for name, weight in stacked.items()})
    return module


@declared("decoder")
def llama(
    tokens: Any,
    embedding: Any,
    *weights: Any,
    heads: int,
    kv_heads: int | None = None,
    eps: float = 1e-6,
    base: float = 10000.0,
) -> Any:
    """LlamaForCausalLM of transformers, with its own attention."""
    return language_model("eager", embedding, weights, heads, kv_heads, eps, base)(tokens, use_cache=False).logits


@declared("decoder")
def llama_sdpa(
    tokens: Any,
    embedding: Any,
    *weights: Any,
    heads: int,
    kv_heads: int | None = None,
    eps: float = 1e-6,
    base: float = 10000.0,
) -> Any:
    """LlamaForCausalLM of transformers, with torch's scaled dot-product attention."""
    return language_model("sdpa", embedding, weights, heads, kv_heads, eps, base)(tokens, use_cache=False).logits
