"""The rotary embeddings of models of Hugging Face transformers, as their attention layers apply them.

Source: transformers/models/*/modeling_*.py, the classes *RotaryEmbedding and the functions apply_rotary_pos_emb (of
halves in Llama, GPT-NeoX, OLMo and gpt-oss; interleaved in Cohere, GLM, ERNIE 4.5, GPT-J, CodeGen and RoFormer),
apply_rotary_emb (by complex numbers, in Llama 4 and DeepSeek-V2) and apply_rotary_pos_emb_interleave (of DeepSeek-V3,
whose pairs come back in halves).
Qwen2-VL, Qwen3-VL and GLM-4V take a position on each of three axes, and have the pairs of an axis in sections.
Angles are reckoned in float32 and most sines and cosines are rounded to the dtype of the inputs, in which most of them
are multiplied and added; OLMo and ERNIE 4.5 multiply in float32.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter
from ..torch.gradients import differentiated
from ..torch.layers import new_layer
from .norms import applied

DTYPES = ("float32", "bfloat16", "float16", "float64")
SINGLE = {"float64": "fp32"}
NARROW = {"bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"}
declared = functools.partial(adapter, dtypes=DTYPES, package="transformers", extra="transformers")


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


def both_turned(
    model: str, part: str, q: Any, k: Any, positions: Any, base: float, width: int | None = None
) -> dict[str, Any]:
    """Queries and keys as the attention of a model turns them, by positions [batch, length]."""
    import importlib

    cos, sin = embedding(model, part, q.shape[-1], base, width or q.shape[-1])(q, positions)
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    return dict(zip(("q_out", "k_out"), modeling.apply_rotary_pos_emb(q, k, cos, sin), strict=True))


@declared("rotary_pair", grade=NARROW)
def llama_rotary_pair(q: Any, k: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb of transformers.models.llama."""
    return both_turned("llama", "Llama", q, k, positions, base)


@declared("rotary_pair", grade=NARROW)
def gpt_neox_rotary_pair(
    q: Any, k: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Any:
    """apply_rotary_pos_emb of transformers.models.gpt_neox."""
    return both_turned("gpt_neox", "GPTNeoX", q, k, positions, base, rotary_dim)


@declared("rotary_pair", grade=NARROW, fixed={"interleaved": True})
def glm_rotary_pair(q: Any, k: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """apply_rotary_pos_emb of transformers.models.glm."""
    return both_turned("glm", "Glm", q, k, positions, base, rotary_dim)


def normed_and_turned(
    model: str,
    part: str,
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    eps: float,
    base: float,
    width: int | None = None,
) -> dict[str, Any]:
    """Queries and keys with the norms of a model's attention, and then turned by it."""
    import importlib

    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    norm = getattr(modeling, f"{part}RMSNorm")
    q, k = (applied(norm(x.shape[-1], eps=eps), x, weight) for x, weight in ((q, q_weight), (k, k_weight)))
    return both_turned(model, part, q, k, positions, base, width)


@declared("qk_norm_rotary", grade=NARROW)
def qwen3_qk_norm_rotary(
    q: Any, k: Any, q_weight: Any, k_weight: Any, positions: Any, *, eps: float = 1e-6, base: float = 10000.0
) -> Any:
    """What Qwen3Attention of transformers.models.qwen3 does to queries and keys."""
    return normed_and_turned("qwen3", "Qwen3", q, k, q_weight, k_weight, positions, eps, base)


@declared("qk_norm_rotary", grade=NARROW)
def glm4_moe_qk_norm_rotary(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    *,
    eps: float = 1e-6,
    base: float = 10000.0,
    rotary_dim: int | None = None,
) -> Any:
    """What Glm4MoeAttention of transformers.models.glm4_moe does to queries and keys."""
    return normed_and_turned("glm4_moe", "Glm4Moe", q, k, q_weight, k_weight, positions, eps, base, rotary_dim)


@declared("rotary", grade=NARROW)
def llama_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb of transformers.models.llama."""
    return turned("llama", "Llama", "apply_rotary_pos_emb", x, positions, base)


@declared("rotary", grade=NARROW)
def gpt_neox_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """apply_rotary_pos_emb of transformers.models.gpt_neox."""
    return turned("gpt_neox", "GPTNeoX", "apply_rotary_pos_emb", x, positions, base, rotary_dim)


@declared("rotary", grade=SINGLE)
def olmo_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb of transformers.models.olmo."""
    return turned("olmo", "Olmo", "apply_rotary_pos_emb", x, positions, base)


@declared("rotary", grade=NARROW)
def gpt_oss_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb of transformers.models.gpt_oss."""
    return turned("gpt_oss", "GptOss", "apply_rotary_pos_emb", x, positions, base)


@declared("rotary", grade=NARROW, fixed={"interleaved": True}, conventions={"pair_place": "kept"})
def cohere_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb of transformers.models.cohere."""
    return turned("cohere", "Cohere", "apply_rotary_pos_emb", x, positions, base)


@declared("rotary", grade=SINGLE, fixed={"interleaved": True}, conventions={"pair_place": "kept"})
def ernie_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb of transformers.models.ernie4_5."""
    return turned("ernie4_5", "Ernie4_5", "apply_rotary_pos_emb", x, positions, base)


@declared("rotary", grade=NARROW, fixed={"interleaved": True}, conventions={"pair_place": "kept"})
def glm_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """apply_rotary_pos_emb of transformers.models.glm."""
    return turned("glm", "Glm", "apply_rotary_pos_emb", x, positions, base, rotary_dim)


@declared("rotary", grade=NARROW, fixed={"interleaved": True}, conventions={"pair_place": "parted"})
def deepseek_v3_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_pos_emb_interleave of transformers.models.deepseek_v3."""
    return turned("deepseek_v3", "DeepseekV3", "apply_rotary_pos_emb_interleave", x, positions, base)


@declared("rotary", grade=SINGLE, fixed={"interleaved": True}, conventions={"pair_place": "kept"})
def deepseek_v2_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_emb of transformers.models.deepseek_v2, on complex numbers."""
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import apply_rotary_emb

    angles = embedding("deepseek_v2", "DeepseekV2", x.shape[-1], base, x.shape[-1])(x, positions[None])
    return apply_rotary_emb(x, x, angles)[0]


@declared("rotary", grade=SINGLE, fixed={"interleaved": True}, conventions={"pair_place": "kept"})
def llama4_rotary(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    """apply_rotary_emb of transformers.models.llama4, on complex numbers and in [batch, length, heads, dim]."""
    from transformers.models.llama4.modeling_llama4 import apply_rotary_emb

    angles = embedding("llama4", "Llama4Text", x.shape[-1], base, x.shape[-1])(x, positions[None])
    x = x.transpose(1, 2)
    return apply_rotary_emb(x, x, angles)[0].transpose(1, 2)


@declared(
    "rotary",
    requires="all(positions >= 0)",
    grade=NARROW,
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
)
def gptj_rotary(x: Any, positions: Any, *, rotary_dim: int | None = None) -> Any:
    """apply_rotary_pos_emb of transformers.models.gptj, from a table of positions, in [batch, length, heads, dim]."""
    from transformers.models.gptj import modeling_gptj

    return turned_by_table(modeling_gptj, x, positions, rotary_dim)


@declared(
    "rotary",
    requires="all(positions >= 0)",
    grade=NARROW,
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
)
def codegen_rotary(x: Any, positions: Any, *, rotary_dim: int | None = None) -> Any:
    """apply_rotary_pos_emb of transformers.models.codegen, likewise."""
    from transformers.models.codegen import modeling_codegen

    return turned_by_table(modeling_codegen, x, positions, rotary_dim)


def turned_by_table(modeling: Any, x: Any, positions: Any, rotary_dim: int | None) -> Any:
    """`x` with its first channels turned by rows of a table, as the attention layers of GPT-J and CodeGen do it."""
    import torch

    if len(positions) and positions.min() < 0:
        raise Unsupported("a table has no positions below zero")
    width = x.shape[-1] if rotary_dim is None else rotary_dim
    rows = int(positions.max()) + 1 if len(positions) else 1
    table = modeling.create_sinusoidal_positions(rows, width).to(x.dtype)
    sin, cos = table[positions][None].split(width // 2, dim=-1)
    x = x.transpose(1, 2)
    first = modeling.apply_rotary_pos_emb(x[..., :width], sin, cos)
    return torch.cat((first, x[..., width:]), -1).transpose(1, 2)


@declared(
    "rotary",
    requires="all(positions >= 0) and all(positions < 4096)",
    grade=NARROW,
    fixed={"interleaved": True},
    conventions={"pair_place": "kept"},
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

    return new_layer(RoFormerSinusoidalPositionalEmbedding, 4096, head_dim).create_weight()


@functools.cache
def of_axes(model: str, part: str, head_dim: int, base: float, sections: tuple[int, ...]) -> Any:
    """The module of a model's rotary embedding for positions of several axes."""
    import importlib

    import transformers

    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    rope = {"rope_type": "default", "rope_theta": base, "mrope_section": list(sections)}
    sizes = {"hidden_size": head_dim, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": head_dim}
    config = getattr(transformers, f"{part.removesuffix('Text')}TextConfig")(**sizes, rope_parameters=rope)
    return getattr(modeling, f"{part}RotaryEmbedding")(config)


def turned_by_axes(model: str, part: str, x: Any, positions: Any, sections: Any, base: float) -> Any:
    """`x` as a model turns its queries, by positions of several axes."""
    import importlib

    sections = tuple(int(n) for n in sections)
    cos, sin = of_axes(model, part, x.shape[-1], base, sections)(x, positions)
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    return modeling.apply_rotary_pos_emb(x, x, cos, sin)[0]


@declared("mrope", grade=NARROW, fixed={"interleaved": False, "striped": False}, requires="axes == 3")
def qwen2_vl_mrope(x: Any, positions: Any, *, sections: Any, base: float = 10000.0) -> Any:
    """Qwen2VLRotaryEmbedding and apply_rotary_pos_emb of transformers.models.qwen2_vl."""
    return turned_by_axes("qwen2_vl", "Qwen2VL", x, positions, sections, base)


@declared("mrope", grade=NARROW, fixed={"interleaved": False, "striped": True}, requires="axes == 3")
def qwen3_vl_mrope(x: Any, positions: Any, *, sections: Any, base: float = 10000.0, striped: bool = True) -> Any:
    """Qwen3VLTextRotaryEmbedding and apply_rotary_pos_emb of transformers.models.qwen3_vl."""
    return turned_by_axes("qwen3_vl", "Qwen3VLText", x, positions, sections, base)


@declared(
    "qk_norm_mrope",
    grade=NARROW,
    fixed={"interleaved": False, "striped": True},
    conventions={"weight_form": "plain"},
    requires="axes == 3",
)
def qwen3_vl_qk_norm_mrope(
    q: Any,
    k: Any,
    q_weight: Any,
    k_weight: Any,
    positions: Any,
    *,
    sections: Any,
    striped: bool = True,
    eps: float = 1e-6,
    base: float = 10000.0,
) -> dict[str, Any]:
    """What Qwen3VLTextAttention of transformers.models.qwen3_vl does to queries and keys."""
    from transformers.models.qwen3_vl import modeling_qwen3_vl as modeling

    norm = modeling.Qwen3VLTextRMSNorm
    q, k = (applied(norm(x.shape[-1], eps=eps), x, weight) for x, weight in ((q, q_weight), (k, k_weight)))
    part = of_axes("qwen3_vl", "Qwen3VLText", q.shape[-1], base, tuple(int(n) for n in sections))
    return dict(zip(("q_out", "k_out"), modeling.apply_rotary_pos_emb(q, k, *part(q, positions)), strict=True))


@declared("mrope", grade=NARROW, fixed={"interleaved": True, "striped": False}, requires="axes == 3")
def glm4v_mrope(x: Any, positions: Any, *, sections: Any, base: float = 10000.0, interleaved: bool = True) -> Any:
    """Glm4vTextRotaryEmbedding and apply_rotary_pos_emb of transformers.models.glm4v."""
    return turned_by_axes("glm4v", "Glm4vText", x, positions, sections, base)


def turned_back(model: str, part: str, apply: str, x: Any, positions: Any, d_out: Any, base: float) -> dict[str, Any]:
    """The gradient of what a model does to its queries."""
    return differentiated(lambda x: turned(model, part, apply, x, positions, base), d_out, x=x)


@declared("rotary_gradient", grade=NARROW)
def llama_rotary_gradient(x: Any, positions: Any, d_out: Any, *, base: float = 10000.0) -> Any:
    """Automatic differentiation of apply_rotary_pos_emb of transformers.models.llama."""
    return turned_back("llama", "Llama", "apply_rotary_pos_emb", x, positions, d_out, base)


@declared("rotary_gradient", grade=NARROW, fixed={"interleaved": True}, conventions={"pair_place": "kept"})
def cohere_rotary_gradient(x: Any, positions: Any, d_out: Any, *, base: float = 10000.0) -> Any:
    """Automatic differentiation of apply_rotary_pos_emb of transformers.models.cohere."""
    return turned_back("cohere", "Cohere", "apply_rotary_pos_emb", x, positions, d_out, base)


@declared("rotary_gradient", grade=NARROW, fixed={"interleaved": True}, conventions={"pair_place": "parted"})
def deepseek_v3_rotary_gradient(x: Any, positions: Any, d_out: Any, *, base: float = 10000.0) -> Any:
    """Automatic differentiation of apply_rotary_pos_emb_interleave of transformers.models.deepseek_v3."""
    return turned_back("deepseek_v3", "DeepseekV3", "apply_rotary_pos_emb_interleave", x, positions, d_out, base)
