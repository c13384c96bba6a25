"""The rotary embeddings of models of Hugging Face transformers, as their attention layers apply them.

Source: transformers/models/*/modeling_*.py, the classes *RotaryEmbedding and the functions apply_rotary_pos_emb (halves:
Llama, GPT-NeoX; interleaved: Cohere, GLM, GPT-J, RoFormer), apply_rotary_emb (complex numbers: Llama 4) and
apply_rotary_pos_emb_interleave (DeepSeek-V3, whose pairs come back in halves).
Angles are reckoned in float32 and most sines and cosines are rounded to the dtype of the inputs, in which most of them
are multiplied and added.
"""

from __future__ import annotations

import functools
from typing import Any

from . import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
SINGLE = {"float64": "fp32"}
NARROW = {"bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"}


@functools.cache
def embedding(model: str, part: str, head_dim: int, base: float, width: int) -> Any:
    """The module of a model's rotary embedding for heads of `head_dim` channels, `width` of which are turned."""
    import importlib

    import transformers

    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    config = getattr(transformers, f"{part.removesuffix('Text')}{'Text' * part.endswith('Text')}Config")(
        hidden_size=head_dim,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=head_dim,
        qk_rope_head_dim=head_dim,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": base,
            # a quarter of a channel more, for the share is rounded down
            "partial_rotary_factor": 1.0 if width == head_dim else (width + 0.25) / head_dim,
        },
    )
    return getattr(modeling, f"{part}RotaryEmbedding")(config)


def turned(model: str, part: str, apply: str, x: Any, positions: Any, base: float, width: int | None = None) -> Any:
    """`x` as a model turns its queries."""
    import importlib

    cos, sin = embedding(model, part, x.shape[-1], base, width or x.shape[-1])(x, positions[None])
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    return getattr(modeling, apply)(x, x, cos, sin)[0]


@adapter("rotary", dtypes=DTYPES, grade=NARROW, package="transformers", extra="transformers")
def llama_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb of transformers.models.llama."""
    return turned("llama", "Llama", "apply_rotary_pos_emb", x, positions, base)


@adapter("rotary", dtypes=DTYPES, grade=NARROW, package="transformers", extra="transformers")
def gpt_neox_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """apply_rotary_pos_emb of transformers.models.gpt_neox."""
    return turned("gpt_neox", "GPTNeoX", "apply_rotary_pos_emb", x, positions, base, rotary_dim)


@adapter(
    "rotary",
    dtypes=DTYPES,
    grade=NARROW,
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
    package="transformers",
    extra="transformers",
)
def cohere_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb of transformers.models.cohere."""
    return turned("cohere", "Cohere", "apply_rotary_pos_emb", x, positions, base)


@adapter(
    "rotary",
    dtypes=DTYPES,
    grade=NARROW,
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
    package="transformers",
    extra="transformers",
)
def glm_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """apply_rotary_pos_emb of transformers.models.glm."""
    return turned("glm", "Glm", "apply_rotary_pos_emb", x, positions, base, rotary_dim)


@adapter(
    "rotary",
    dtypes=DTYPES,
    grade=NARROW,
    fixed={"interleaved": True},
    conventions={"pair_place": "parted"},
    package="transformers",
    extra="transformers",
)
def deepseek_v3_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb_interleave of transformers.models.deepseek_v3."""
    return turned("deepseek_v3", "DeepseekV3", "apply_rotary_pos_emb_interleave", x, positions, base)


@adapter(
    "rotary",
    dtypes=DTYPES,
    grade=SINGLE,
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
    package="transformers",
    extra="transformers",
)
def llama4_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_emb of transformers.models.llama4, on complex numbers and in [batch, length, heads, dim]."""
    from transformers.models.llama4.modeling_llama4 import apply_rotary_emb

    angles = embedding("llama4", "Llama4Text", x.shape[-1], base, x.shape[-1])(x, positions[None])
    x = x.transpose(1, 2)
    return apply_rotary_emb(x, x, angles)[0].transpose(1, 2)


@adapter(
    "rotary",
    dtypes=DTYPES,
    grade=NARROW,
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
    package="transformers",
    extra="transformers",
)
def gptj_rotary(x: Any, positions: Any, *, rotary_dim: int | None = None) -> Any:
    """apply_rotary_pos_emb of transformers.models.gptj, from a table of positions, in [batch, length, heads, dim]."""
    import torch
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    if len(positions) and positions.min() < 0:
        raise Unsupported("a table has no positions below zero")
    width = x.shape[-1] if rotary_dim is None else rotary_dim
    table = create_sinusoidal_positions(int(positions.max()) + 1 if len(positions) else 1, width).to(x.dtype)
    sin, cos = table[positions][None].split(width // 2, dim=-1)
    x = x.transpose(1, 2)
    return torch.cat((apply_rotary_pos_emb(x[..., :width], sin, cos), x[..., width:]), -1).transpose(1, 2)


@adapter(
    "rotary",
    dtypes=DTYPES,
    grade=NARROW,
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
    package="transformers",
    extra="transformers",
)
def roformer_rotary(x: Any, positions: Any) -> Any:
    """apply_rotary_position_embeddings of transformers.models.roformer, from a table of at most 4096 positions."""
    from transformers.models.roformer import modeling_roformer

    if len(positions) and not 0 <= positions.min() <= positions.max() < 4096:
        raise Unsupported("the table of the adapter has the positions from 0 to 4095")
    angles = roformer_table(x.shape[-1]).to(x.dtype)[positions][None, None]
    return modeling_roformer.RoFormerSelfAttention.apply_rotary_position_embeddings(angles, x, x)[0]


@functools.cache
def roformer_table(head_dim: int) -> Any:
    """The sines and cosines of RoFormer: [4096, head_dim]."""
    from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding

    return RoFormerSinusoidalPositionalEmbedding(4096, head_dim).create_weight()
