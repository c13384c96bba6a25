"""Models of Hugging Face transformers with a window in some layers: Ministral and Qwen2, as whole models.

Sources: transformers/models/ministral/modeling_ministral.py, transformers/models/qwen2/modeling_qwen2.py and
transformers/masking_utils.py. Every module stores its result in the dtype of the inputs; norms and the tables of the
rotation are computed in single precision. What fills a row up in front is told by `attention_mask`.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..torch.layers import new_layer
from .decoder import CONVENTIONS, DTYPES, WEIGHTS, fill

WIDE = 4096
"""The window of a configuration none of whose layers has one, which has to be given all the same."""
declared = functools.partial(
    adapter,
    "windowed_decoder",
    dtypes=DTYPES,
    conventions=CONVENTIONS,
    package="transformers",
    extra="transformers",
)


def language_model(kind: str, backend: str, embedding: Any, weights: Any, windowed: Any, **options: Any) -> Any:
    """A whole model with these weights, its output tied to its embedding, and without tokens of special meaning."""
    import torch
    import transformers

    stacked, final_norm = dict(zip(WEIGHTS, weights[:-1], strict=True)), weights[-1]
    heads, window = options["heads"], options["window"]
    if stacked["wq"].shape[-1] % heads:
        raise ValueError("all heads are equally wide")
    kinds = ["sliding_attention" if there and window is not None else "full_attention" for there in windowed.tolist()]
    more = {"use_sliding_window": True} if kind == "Qwen2" else {"head_dim": stacked["wq"].shape[-1] // heads}
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=stacked["wq"].shape[-2],
        intermediate_size=stacked["w_gate"].shape[-1],
        num_attention_heads=heads,
        num_key_value_heads=heads if options["kv_heads"] is None else options["kv_heads"],
        num_hidden_layers=len(kinds),
        layer_types=kinds,
        sliding_window=WIDE if window is None else window,
        rms_norm_eps=options["eps"],
        rope_parameters={"rope_type": "default", "rope_theta": options["base"]},
        vocab_size=len(embedding),
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **more,
    )
    config._attn_implementation = backend
    module = new_layer(getattr(transformers, f"{kind}ForCausalLM"), config).eval()
    module.model.embed_tokens.weight = torch.nn.Parameter(embedding, requires_grad=False)
    module.lm_head.weight = module.model.embed_tokens.weight
    module.model.norm.weight = torch.nn.Parameter(final_norm, requires_grad=False)
    for index, layer in enumerate(module.model.layers):
        fill(layer, {name: weight[index] for name, weight in stacked.items()})
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            if projection.bias is not None:
                projection.bias = torch.nn.Parameter(embedding.new_zeros(len(projection.bias)), requires_grad=False)
    return module


def model(kind: str, backend: str, says: str) -> None:
    """Declare a model by its name in transformers, with one of its ways of attention."""

    def call(
        tokens: Any,
        embedding: Any,
        *weights: Any,
        present: Any = None,
        heads: int,
        kv_heads: int | None = None,
        window: int | None = None,
        eps: float = 1e-6,
        base: float = 10000.0,
    ) -> Any:
        *own, windowed = weights
        options = {"heads": heads, "kv_heads": kv_heads, "window": window, "eps": eps, "base": base}
        module = language_model(kind, backend, embedding, own, windowed, **options)
        return module(tokens, attention_mask=None if present is None else present.long(), use_cache=False).logits

    call.__doc__ = says
    call.__name__ = f"{kind.lower()}_{backend}"
    declared(name=call.__name__)(call)


for kind in ("Ministral", "Qwen2"):
    model(kind, "eager", f"{kind}ForCausalLM of transformers, with its own attention.")
    model(kind, "sdpa", f"{kind}ForCausalLM of transformers, with torch's scaled dot-product attention.")
