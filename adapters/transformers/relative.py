"""Attention with relative positions of XLNet, and of the Conformers of FastSpeech 2 and Parakeet.

Source: transformers/models/xlnet/modeling_xlnet.py (rel_attn_core), fastspeech2_conformer/
modeling_fastspeech2_conformer.py and parakeet/modeling_parakeet.py of
https://github.com/huggingface/transformers/tree/main/src
Vectors for distances are projected by each layer; here the projections return what they are given.
The Conformers attend to the tokens of their queries, in both directions; XLNet has a row more than there are distances.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..controls.relative import fitting, hidden
from ..torch.layers import given

DECLARED: dict[str, Any] = {
    "fixed": {"scale": None},
    "dtypes": ("float32", "bfloat16", "float64"),
    "grade": {"float32": "fp32", "bfloat16": "bf16_naive", "float64": "fp64"},
    "package": "transformers",
    "extra": "transformers",
}
WITHOUT_PAST = {
    **DECLARED,
    "fixed": {"scale": None, "causal": False},
    "requires": ("q_len == k_len", "value_dim == head_dim"),
}


def flat(x: Any) -> Any:
    """[batch, length, heads * dim] of [batch, heads, length, dim]."""
    return x.transpose(1, 2).flatten(2)


def biases(module: Any, **arrays: Any) -> None:
    """Set the biases of a module."""
    import torch

    for name, x in arrays.items():
        setattr(module, name, torch.nn.Parameter(x, requires_grad=False))


@adapter("relative_attention", layout="sbhd", **DECLARED)
def transformers_xlnet(
    q: Any, k: Any, v: Any, r: Any, content_bias: Any, position_bias: Any, *, causal: bool = False
) -> Any:
    """rel_attn_core of XLNetRelativeAttention."""
    import torch
    from transformers import XLNetConfig
    from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention

    own = [x.permute(1, 2, 0, 3) for x in (q, k, v)]
    fitting(own[0], own[1], own[2], r.transpose(0, 1))
    length, batch, heads, dim = q.shape
    module = XLNetRelativeAttention(XLNetConfig(d_model=heads * dim, n_head=heads, n_layer=1, d_inner=1)).eval()
    biases(module, r_w_bias=content_bias, r_r_bias=position_bias)
    rows = torch.cat((torch.zeros_like(r[:1]), r))[:, None].expand(-1, batch, -1, -1)
    mask = hidden(length, len(k)).to(q.dtype)[..., None, None].expand(-1, -1, batch, 1) if causal else None
    return module.rel_attn_core(q, k, v, rows, attn_mask=mask)


@adapter("relative_attention", **WITHOUT_PAST)
def transformers_fastspeech2_conformer(q: Any, k: Any, v: Any, r: Any, content_bias: Any, position_bias: Any) -> Any:
    """FastSpeech2ConformerAttention."""
    import torch
    from transformers import FastSpeech2ConformerConfig
    from transformers.models.fastspeech2_conformer.modeling_fastspeech2_conformer import FastSpeech2ConformerAttention

    fitting(q, k, v, r)
    heads, dim = q.shape[1], q.shape[3]
    counts = {"encoder_num_attention_heads": heads, "decoder_num_attention_heads": heads}
    config = FastSpeech2ConformerConfig(hidden_size=heads * dim, **counts)
    with torch.device("meta"):
        module: Any = FastSpeech2ConformerAttention(
            config, {"num_attention_heads": heads, "attention_dropout_rate": 0.0}
        )
    module.eval()
    module.linear_q, module.linear_k, module.linear_v = (given(flat(x)) for x in (q, k, v))
    module.linear_pos = module.linear_out = torch.nn.Identity()
    biases(module, pos_bias_u=content_bias, pos_bias_v=position_bias)
    out, _ = module(flat(q), pos_emb=flat(r[None]))
    return out.unflatten(2, (heads, dim)).transpose(1, 2)


@adapter("relative_attention", **WITHOUT_PAST)
def transformers_parakeet(q: Any, k: Any, v: Any, r: Any, content_bias: Any, position_bias: Any) -> Any:
    """ParakeetEncoderAttention with the attention of torch."""
    import torch
    from transformers import ParakeetEncoderConfig
    from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderAttention

    fitting(q, k, v, r)
    batch, heads, _, dim = q.shape
    sizes: dict[str, Any] = {"hidden_size": heads * dim, "num_attention_heads": heads, "attn_implementation": "sdpa"}
    config = ParakeetEncoderConfig(**sizes)
    with torch.device("meta"):
        module: Any = ParakeetEncoderAttention(config, 0).eval()
    module.q_proj, module.k_proj, module.v_proj = (given(flat(x)) for x in (q, k, v))
    module.relative_k_proj = module.o_proj = torch.nn.Identity()
    biases(module, bias_u=content_bias, bias_v=position_bias)
    out, _ = module(flat(q), flat(r[None]).expand(batch, -1, -1))
    return out.unflatten(2, (heads, dim)).transpose(1, 2)
