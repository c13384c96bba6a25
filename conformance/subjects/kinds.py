"""The weights of operators and their common names: parts of a class, by the names of its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..execution.survey import Weight

HEADS, KV_HEADS, HEAD_DIM, DIM, HIDDEN, VOCAB, LAYERS = 6, 2, 10, 60, 88, 47, 2
"""Sizes at which a class is built: no two are the same, so that a shape says what its axes are."""

PARTS = {
    "qkv": "in_proj c_attn qkv wqkv qkv_proj query_key_value to_qkv attn_qkv w_qkv proj_qkv qkv_linear b_qkv w_pack",
    "kv": "kv kv_proj wkv to_kv w_kv key_value b_kv",
    "gate_up": "gate_up_proj gate_up w12 w_gate_up wi",
    "q": "q_proj wq query to_q q q_linear query_proj linear_q w_q q_lin w_query proj_q fc_q bq b_q qproj query_linear",
    "k": "k_proj wk key to_k k k_linear key_proj linear_k w_k k_lin w_key proj_k fc_k bk b_k kproj key_linear keys",
    "v": "v_proj wv value to_v v v_linear value_proj linear_v w_v v_lin w_value proj_v fc_v bv b_v vproj value_linear "
    "values",
    "o": "o_proj out_proj wo c_proj dense out to_out proj output fc_out o out_lin w_o w_out fc_o linear_out "
    "output_proj bo b_o proj_out oproj o_linear output_linear",
    "gate": "gate_proj w1 gate wg w_gate fc_gate wi_0 linear_gate gate_linear",
    "up": "up_proj w3 up wu w_up fc_up wi_1 linear_up up_linear",
    "down": "down_proj w2 down wd w_down fc_down linear_down down_linear",
    "attention_norm": "attention_norm input_layernorm ln_1 ln1 norm1 attn_norm norm_1 pre_attention_norm ln_attn "
    "pre_attn_norm input_norm norm_attn rms_1 rms1 rmsnorm1 attn_rmsnorm att_norm sa_norm",
    "mlp_norm": "mlp_norm post_attention_layernorm ln_2 ln2 norm2 ffn_norm norm_2 pre_mlp_norm ln_mlp "
    "post_attention_norm post_attn_norm norm_mlp norm_ffn ff_norm ln_ffn rms_2 rms2 rmsnorm2 mlp_rmsnorm",
    "q_norm": "q_norm norm_q query_norm q_layernorm q_layer_norm query_layernorm q_ln ln_q qnorm",
    "k_norm": "k_norm norm_k key_norm k_layernorm k_layer_norm key_layernorm k_ln ln_k knorm",
    "norm": "norm ln layer_norm layernorm rms_norm",
    "embedding": "tok_embeddings embed_tokens wte token_embedding tok_emb embed embedding embeddings token_embed emb "
    "tok_embedding word_embeddings token_embeddings token_emb embed_in token_embedding_table input_embedding tok_embed",
    "head": "lm_head output head unembed out_head to_logits unembedding logits out embed_out output_layer vocab_proj "
    "output_proj out_proj proj fc_out",
    "final_norm": "norm ln_f norm_f final_norm final_layernorm ln_final norm_final out_norm norm_out output_norm rms_f "
    "rms_final rms_norm rmsnorm final_ln ln",
}
ROOMS = {
    "attn attention self_attn self_attention sa att mha mixer": {"attention_norm": "norm ln layer_norm rms_norm"},
    "mlp feed_forward feedforward ffn ff ffwd": {
        "gate": "fc_1 fc1",
        "up": "fc_2 fc2",
        "down": "c_proj proj out dense out_proj output fc_out w_o w_out fc_3 fc3",
        "mlp_norm": "norm ln layer_norm rms_norm",
    },
}
"""What parameters are called within one half of a block, beside their usual names."""
HALVES = (("qkv", "kv", "q", "k", "v", "o", "attention_norm"), ("gate_up", "gate", "up", "down", "mlp_norm"))
"""The parts that either half has."""
ONCE = ("embedding", "head", "final_norm")
"""The parts of a model that no layer has."""
POSITIONS = (
    *("wpe", "pos_emb", "pos_embed", "pos_embedding", "pos_embeddings", "embed_positions", "positional_embedding"),
    *("position_embedding", "position_embeddings", "position_embedding_table", "positional_encoding"),
)
"""What a table of positions is called."""
BIASES = ("bias", "beta")
SECTIONS = {"head": ("embedding",), "qkv": ("q", "k", "v"), "kv": ("k", "v"), "gate_up": ("gate", "up")}
MASKS = ("mask", "attn_mask", "attention_mask", "key_padding_mask", "padding_mask", "pad_mask")
CAUSAL = ("causal", "is_causal")
CONTEXTS = ("context", "encoder_hidden_states", "key_value_states", "memory", "kv", "cond")
LAST = ("weight", "bias", "kernel", "scale")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a class of one operator may be built from, and what it is to hold."""

    sizes: Mapping[str, tuple[str, int | float | str]]
    """By role, as it is written in sizes of a case, and its value at which the class is built."""
    weights: Mapping[str, tuple[str, tuple[str, ...]]]
    """By weight, the part that it is and its axes."""
    epsilon: bool = False


ATTENTION = {"heads": ("heads", HEADS), "kv_heads": ("kv_heads or heads", KV_HEADS), "width": ("dim", DIM)}
BIAS = {"bias": ("False", False)}
OPENED = {"activation": ('"silu"', "silu")}
ATTENDING = {
    "wq": ("q", ("dim", "width")),
    "wk": ("k", ("dim", "kv_width")),
    "wv": ("v", ("dim", "kv_width")),
    "wo": ("o", ("width", "dim")),
    "bq": ("q", ("width",)),
    "bk": ("k", ("kv_width",)),
    "bv": ("v", ("kv_width",)),
    "bo": ("o", ("dim",)),
}
FEED_FORWARD = {"w_gate": ("gate", ("dim", "hidden")), "w_up": ("up", ("dim", "hidden"))} | {
    "w_down": ("down", ("hidden", "dim"))
}
BLOCK = {
    "hidden": ("hidden", HIDDEN),
    **ATTENTION,
    "head_dim": ("dim // heads", HEAD_DIM),
    "eps": ("eps", 1e-5),
    "base": ("base", 10000.0),
    **BIAS,
    **OPENED,
}
HALVES_OF_BLOCK = {
    "attention_norm": ("attention_norm", ("dim",)),
    "wq": ("q", ("dim", "dim")),
    "wk": ("k", ("dim", "kv_dim")),
    "wv": ("v", ("dim", "kv_dim")),
    "wo": ("o", ("dim", "dim")),
    "mlp_norm": ("mlp_norm", ("dim",)),
    **FEED_FORWARD,
}
KINDS = {
    "multi_head": Kind(
        {**ATTENTION, "head_dim": ("dim // heads", HEAD_DIM), "length": ("q_len", 64)},
        ATTENDING,
    ),
    "rotary_self_attention": Kind(
        {
            **ATTENTION,
            "head_dim": ("width // heads", HEAD_DIM),
            "eps": ("eps", 1e-5),
            "base": ("base", 10000.0),
            "rotary_dim": ("rotary_dim or width // heads", 4),
            "rotary_share": ("(rotary_dim or width // heads) * heads / width", 0.4),
            "length": ("length", 64),
        },
        {
            **ATTENDING,
            "q_norm": ("q_norm", ("head_dim",)),
            "k_norm": ("k_norm", ("head_dim",)),
        },
    ),
    "swiglu": Kind({"hidden": ("hidden", HIDDEN), "width": ("dim", DIM), **BIAS, **OPENED}, FEED_FORWARD),
    "feed_forward": Kind(
        {"hidden": ("hidden", HIDDEN), "width": ("dim", DIM), "activation": ('"gelu"', "gelu"), "expansion": ("4", 4)},
        {**FEED_FORWARD, "b_gate": ("gate", ("hidden",)), "b_up": ("up", ("hidden",)), "b_down": ("down", ("dim",))},
    ),
    "rms_norm": Kind({"width": ("n", DIM), "eps": ("eps", 1e-5)}, {"weight": ("norm", ("n",))}, epsilon=True),
    "layer_norm": Kind(
        {"width": ("n", DIM), "eps": ("eps", 1e-5)},
        {"weight": ("norm", ("n",)), "bias": ("norm", ("n",))},
        epsilon=True,
    ),
    "transformer_block": Kind({**BLOCK, "length": ("length", 64)}, HALVES_OF_BLOCK, epsilon=True),
    "decoder": Kind(
        {**BLOCK, "length": ("length", 64), "vocab": ("vocab", VOCAB), "layers": ("layers", LAYERS)},
        {"embedding": ("embedding", ("vocab", "dim")), **HALVES_OF_BLOCK, "final_norm": ("final_norm", ("dim",))},
        epsilon=True,
    ),
}
"""The operators for which a mapping is proposed."""


def part_of(path: str, wanted: Iterable[str]) -> str:
    """The one of some parts that a path names, its last segment first; that of the half of a block where it says which.

    Of a model, `layers.*.norm1.weight` is of a layer, and `norm.weight` is not.
    """
    wanted, segments = [*wanted], path.lower().split(".")
    if "embedding" in wanted:
        wanted = [part for part in wanted if (part in ONCE) != ("*" in segments)]
    room = next((at for at, words in enumerate(ROOMS) if {*words.split()} & {*segments[:-1]}), None)
    more: Mapping[str, str] = {}
    if room is not None and "attention_norm" in wanted:
        wanted, more = [part for part in wanted if part in HALVES[room]], [*ROOMS.values()][room]
    for segment in reversed(segments):
        bare = segment
        for last in LAST:
            bare = bare.removesuffix(f"_{last}")
        for part in wanted:
            if bare in f"{PARTS[part]} {more.get(part, '')}".split():
                return part
    return ""


def is_bias(path: str) -> bool:
    """Whether a parameter is a bias by its name."""
    last = path.lower().rpartition(".")[2]
    return last in BIASES or last.endswith("_bias") or last.startswith(("bias_", "b_"))


def outputs_first(weight: Weight) -> bool:
    """Whether a matrix is held as torch's Linear has it, output channels first."""
    return "Linear" in weight.holder or weight.holder == "MultiheadAttention"
