"""Multi-head latent attention in mlx-lm: DeepSeek-V3, whose single queries are absorbed, and several are not.

Source: mlx_lm/models/deepseek_v3.py and mla.py.
The module makes queries, latents and rope parts of hidden states by maps of its own. Here a hidden state holds them
already, side by side, and the maps pick them out, which is exact; the norm of the latents is left out, and the output
map is the identity. Tokens before the queries go through the module first, into its cache of latents.
Rope channels are in neighbouring pairs, and the scores of the rope parts are a mask in the dtype of the inputs.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


def layer(q_nope: Any, q_rope: Any, w_uk: Any, w_uv: Any, base: float | None, scale: float | None) -> Any:
    """The attention of a layer: maps that pick out what a hidden state holds, and the up-projections."""
    import mlx.core as mx
    from mlx_lm.models.deepseek_v3 import DeepseekV3Attention, ModelArgs

    (heads, rank, value_dim), rope_dim = w_uv.shape, q_rope.shape[3]
    of_queries = heads * (q_nope.shape[3] + rope_dim)
    width = max(of_queries + rank + rope_dim, heads * value_dim)
    arguments = ModelArgs(
        hidden_size=width,
        num_attention_heads=heads,
        q_lora_rank=None,  # pyright: ignore[reportArgumentType] - as the class reads it
        kv_lora_rank=rank,
        qk_nope_head_dim=q_nope.shape[3],
        qk_rope_head_dim=rope_dim,
        v_head_dim=value_dim,
        rope_theta=10000.0 if base is None else base,
    )
    module: Any = DeepseekV3Attention(arguments)
    channels = mx.eye(width, dtype=w_uk.dtype)
    module.q_proj.weight = channels[:of_queries]
    module.kv_a_proj_with_mqa.weight = channels[of_queries : of_queries + rank + rope_dim]
    module.embed_q.weight = w_uk
    module.unembed_out.weight = w_uv.swapaxes(1, 2)
    module.o_proj.weight = channels[:, : heads * value_dim]
    module.kv_a_layernorm = lambda x: x
    module.scale = module.scale if scale is None else scale
    if base is None:
        module.rope = lambda x, offset: x
    return module


@adapter(
    "latent_attention",
    framework="mlx",
    dtypes=("float32", "bfloat16", "float16"),
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"},
    fixed={"causal": True},
    requires=("base == none or interleaved",),
    package="mlx_lm",
    extra="mlx-lm",
)
def mlx_lm_deepseek_v3(
    q_nope: Any,
    q_rope: Any,
    latent: Any,
    k_rope: Any,
    w_uk: Any,
    w_uv: Any,
    *,
    scale: float | None = None,
    base: float | None = None,
    interleaved: bool = False,
) -> Any:
    """mlx_lm.models.deepseek_v3.DeepseekV3Attention."""
    import mlx.core as mx
    from mlx_lm.models.base import create_attention_mask
    from mlx_lm.models.cache import KVCache

    module, cache = layer(q_nope, q_rope, w_uk, w_uv, base, scale), KVCache()
    (batch, heads, q_len, _), k_len = q_nope.shape, latent.shape[1]
    queries = mx.concatenate([q_nope, q_rope], 3).swapaxes(1, 2).reshape(batch, q_len, -1)
    queries = mx.pad(queries, [(0, 0), (k_len - q_len, 0), (0, 0)])
    x = mx.concatenate([queries, latent, k_rope], 2)
    x = mx.pad(x, [(0, 0), (0, 0), (0, module.hidden_size - x.shape[2])])
    out: Any = None
    for start, stop in ((0, k_len - q_len), (k_len - q_len, k_len)):
        if start < stop:
            own = x[:, start:stop]
            out = module(own, mask=create_attention_mask(own, cache, return_array=True), cache=cache)
    out = out[..., : heads * w_uv.shape[2]]
    return out.reshape(batch, q_len, heads, -1).swapaxes(1, 2)
