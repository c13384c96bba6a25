"""Multi-head latent attention in the models of Hugging Face transformers: DeepSeek-V2 and DeepSeek-V3.

Source: transformers/models/deepseek_v2/modeling_deepseek_v2.py and deepseek_v3/modeling_deepseek_v3.py.
A module makes queries, latents and rope parts of hidden states by maps of its own. Here a hidden state holds them
already, side by side, and the maps pick them out, which is exact; the norm of the latents is left out, and the output
map is the identity. Tokens before the queries go through the module first, into its cache of latents.
V2 has rope channels in neighbouring pairs, and V3 also in halves, with sines and cosines in the dtype of the inputs.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
NAIVE = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"}


def configuration(version: str, backend: str, q_nope: Any, q_rope: Any, w_uv: Any, base: float | None) -> Any:
    """The configuration of a layer of these sizes, whose hidden states hold queries, latent and rope part."""
    import transformers

    (heads, rank, value_dim), rope_dim = w_uv.shape, q_rope.shape[3]
    made: Any = transformers.DeepseekV3Config if version == "v3" else transformers.DeepseekV2Config
    width = max(heads * (q_nope.shape[3] + rope_dim) + rank + rope_dim, heads * value_dim)
    return made(
        num_hidden_layers=1,
        hidden_size=-(-width // heads) * heads,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        q_lora_rank=None,
        kv_lora_rank=rank,
        qk_nope_head_dim=q_nope.shape[3],
        qk_rope_head_dim=rope_dim,
        v_head_dim=value_dim,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0 if base is None else base},
        attn_implementation=backend,
    )


def layer(made: type[Any], config: Any, w_uk: Any, w_uv: Any) -> Any:
    """The attention of one layer: maps that pick out what a hidden state holds, and the up-projections."""
    import torch

    with torch.device("meta"):
        module = made(config, layer_idx=0).eval()
    module.kv_a_layernorm = torch.nn.Identity()
    channels = torch.eye(config.hidden_size, dtype=w_uk.dtype, device=w_uk.device)
    of_queries = config.num_attention_heads * module.qk_head_dim
    rows = config.kv_lora_rank + config.qk_rope_head_dim
    weights = {
        "q_proj.weight": channels[:of_queries],
        "kv_a_proj_with_mqa.weight": channels[of_queries : of_queries + rows],
        "kv_b_proj.weight": torch.cat([w_uk, w_uv], 2).mT.flatten(0, 1),
        "o_proj.weight": channels[:, : config.num_attention_heads * config.v_head_dim],
    }
    module.load_state_dict({name: weight.contiguous() for name, weight in weights.items()}, assign=True)
    return module


def hidden(config: Any, q_nope: Any, q_rope: Any, latent: Any, k_rope: Any) -> Any:
    """The hidden states of all tokens: queries of the last of them, latents, rope parts, and zeros."""
    import torch

    if latent.shape[2] != config.kv_lora_rank or k_rope.shape[2] != config.qk_rope_head_dim:
        raise ValueError("latents and rope parts do not have the channels that the maps read")
    queries = torch.cat([q_nope, q_rope], 3).transpose(1, 2).flatten(2)
    queries = torch.nn.functional.pad(queries, (0, 0, latent.shape[1] - queries.shape[1], 0))
    held = torch.cat([queries, latent, k_rope], 2)
    return torch.nn.functional.pad(held, (0, config.hidden_size - held.shape[2]))


def angles(version: str, config: Any, x: Any, positions: Any, base: float | None) -> Any:
    """How rope parts are turned, as the module reads it; not at all without a base."""
    import torch
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2RotaryEmbedding
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding

    made = DeepseekV3RotaryEmbedding if version == "v3" else DeepseekV2RotaryEmbedding
    found = made(config)(x, positions)
    if base is not None:
        return found
    if version == "v2":
        return torch.ones_like(found)
    return torch.ones_like(found[0]), torch.zeros_like(found[1])


def attended(
    version: str,
    backend: str,
    inputs: tuple[Any, ...],
    scale: float | None,
    causal: bool,
    base: float | None,
    interleaved: bool,
) -> Any:
    """The attention of a model, its earlier tokens through a cache: [batch, heads, q_len, value_dim]."""
    import torch
    from transformers import DynamicCache
    from transformers.masking_utils import create_causal_mask
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention

    q_nope, q_rope, latent, k_rope, w_uk, w_uv = inputs
    config = configuration(version, backend, q_nope, q_rope, w_uv, base)
    config.rope_interleave = interleaved
    module = layer(DeepseekV3Attention if version == "v3" else DeepseekV2Attention, config, w_uk, w_uv)
    module.is_causal = causal
    module.scaling = module.scaling if scale is None else scale
    x, cache = hidden(config, q_nope, q_rope, latent, k_rope), DynamicCache(config=config)
    positions = torch.arange(x.shape[1], device=x.device)[None]
    before = x.shape[1] - q_nope.shape[2]
    out: Any = None
    for part in (slice(0, before), slice(before, x.shape[1])):
        if part.start == part.stop and part.start == 0:
            continue
        own, places = x[:, part], positions[:, part]
        mask = None
        if causal:
            mask = create_causal_mask(config, own, None, cache, position_ids=places)
        turns = angles(version, config, own, places, base)
        out, _ = module(own, attention_mask=mask, position_embeddings=turns, past_key_values=cache)
    return out[..., : w_uv.shape[0] * w_uv.shape[2]].unflatten(2, (w_uv.shape[0], -1)).transpose(1, 2)


@adapter(
    "latent_attention",
    dtypes=DTYPES,
    grade=NAIVE,
    package="transformers",
    extra="transformers",
)
def transformers_deepseek_v3(
    q_nope: Any,
    q_rope: Any,
    latent: Any,
    k_rope: Any,
    w_uk: Any,
    w_uv: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    base: float | None = None,
    interleaved: bool = False,
) -> Any:
    """DeepseekV3Attention with sdpa_attention_forward."""
    return attended("v3", "sdpa", (q_nope, q_rope, latent, k_rope, w_uk, w_uv), scale, causal, base, interleaved)


@adapter(
    "latent_attention",
    dtypes=DTYPES,
    grade=NAIVE,
    package="transformers",
    extra="transformers",
)
def transformers_deepseek_v3_eager(
    q_nope: Any,
    q_rope: Any,
    latent: Any,
    k_rope: Any,
    w_uk: Any,
    w_uv: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    base: float | None = None,
    interleaved: bool = False,
) -> Any:
    """DeepseekV3Attention with eager_attention_forward."""
    return attended("v3", "eager", (q_nope, q_rope, latent, k_rope, w_uk, w_uv), scale, causal, base, interleaved)


@adapter(
    "latent_attention",
    dtypes=DTYPES,
    requires=("rope_dim % 2 == 0 and nope_dim % 2 == 0 and rank % 2 == 0", "base == none or interleaved"),
    package="transformers",
    extra="transformers",
)
def transformers_deepseek_v2(
    q_nope: Any,
    q_rope: Any,
    latent: Any,
    k_rope: Any,
    w_uk: Any,
    w_uv: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    base: float | None = None,
    interleaved: bool = False,
) -> Any:
    """DeepseekV2Attention with sdpa_attention_forward."""
    return attended("v2", "sdpa", (q_nope, q_rope, latent, k_rope, w_uk, w_uv), scale, causal, base, interleaved)
