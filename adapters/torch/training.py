"""The operations that PyTorch counts while Llama of Hugging Face transformers is trained on one sequence.

Source: torch/utils/flop_counter.py (FlopCounterMode), which counts two operations for every product of two numbers in
matrix products, forwards and backwards, and nothing else.
Attention is composed of its products, so that what a causal mask hides is counted as well.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .layers import new_layer

LIMITS = {
    "layers": range(1, 9),
    "heads": (1, 2, 3, 4),
    "kv_heads": (None, 1, 2, 3, 4),
    "head_dim": (None, 2, 4, 6, 8, 12, 16, 24),
    "dim": (8, 16, 24),
    "hidden": range(1, 30),
    "vocab": range(1, 60),
    "length": range(1, 30),
}


@adapter(
    "model_flops",
    conventions={"counted": "products"},
    limits=LIMITS,
    fixed={"gated": True},
    package="transformers",
    extra="transformers",
)
def torch_flop_counter(
    *,
    layers: int,
    heads: int,
    dim: int,
    hidden: int,
    vocab: int,
    length: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
) -> Any:
    """FlopCounterMode over a training step of LlamaForCausalLM, for each token."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import LlamaConfig, LlamaForCausalLM

    size = head_dim or dim // heads
    if size % 2:
        raise Unsupported("channels are rotated in pairs")
    config = LlamaConfig(
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads or heads,
        hidden_size=dim,
        head_dim=size,
        intermediate_size=hidden,
        vocab_size=vocab,
        tie_word_embeddings=True,
        use_cache=False,
        pad_token_id=None,
        bos_token_id=0,
        eos_token_id=0,
    )
    config._attn_implementation = "eager"
    model = new_layer(LlamaForCausalLM, config)
    tokens = torch.zeros(1, length, dtype=torch.int64)
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        model(tokens).logits.sum().backward()
    return counter.get_total_flops() // length
