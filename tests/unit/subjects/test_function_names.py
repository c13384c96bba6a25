"""What the names of functions say beside an operator."""

import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms.loader import library
from attnspec.subjects.function_names import check_name, said_by, words_of


def test_words_are_those_of_operators():
    assert "_fused_rms_norm_function_" == words_of("FusedRMSNormFunction")
    assert "_group_norm_" == words_of("group_normalisation")
    assert "_apply_rotary_" == words_of("apply_rope")


def test_the_longest_operator_is_the_one_that_is_said():
    assert "linear_attention" == said_by("chunk_linear_attention", library())
    assert "" == said_by("step", library())


OTHERWISE = {
    "is_attention": ("attention", "is, and no more than that about attention"),
    "_has_rms_norm": ("rms_norm", "has, and"),
    "replace_softmax": ("softmax", "replace, and"),
    "sdpa_quantize": ("attention", "that codes are made or read for attention"),
    "attention_dequantize": ("attention", "that codes are made or read for attention"),
    "router_z_loss": ("moe_routing", "loss, and moe_routing is none"),
    "gumbel_softmax": ("softmax", "gumbel, which softmax is not"),
    "hard_softmax_backward": ("softmax_gradient", "hard, which softmax_gradient is not"),
    "expected_grouped_matmul_output_shape": ("grouped_matmul", "shape, and no more than that about grouped_matmul"),
    "sigmoid_cross_entropy": ("cross_entropy", "sigmoid, which cross_entropy is not"),
    "naive_stickbreaking_attn": ("attention", "stickbreaking, which attention is not"),
    "lightning_attention": ("attention", "lightning, which attention is not"),
    "mla_decode_attention": ("paged_attention", "mla, which paged_attention is not"),
    "quantize_4bit": ("quantize_blocks", "4bit, and quantize_blocks has codes of eight bits"),
    "dynamic_ntk_cos_sin_cache": ("rotary_frequencies", "what is passed to rotary"),
    "rotary_parameters": ("rotary_frequencies", "parameters, and no more than that about rotary_frequencies"),
    "tril_softmax": ("softmax", "tril, which softmax is not"),
    "_fake_rmsnorm": ("rms_norm", "fake, as of what computes nothing"),
    "rope_cos_sin": ("rotary", "what is passed to rotary"),
    "axial_rope": ("rotary", "axial, which rotary is not"),
    "quantize_ternary": ("quantize_blocks", "ternary, and quantize_blocks has codes of eight bits"),
    "hqq_quantize": ("quantize", "hqq, and quantize has whole numbers as codes"),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_name_that_says_more_than_the_operator_is_told_with_what_to_do(name):
    operator, says = OTHERWISE[name]
    with pytest.raises(UsageError) as caught:
        check_name(name, library()[operator], ["x"])
    assert f"the name {name!r} says {says}" in str(caught.value)
    assert f"add --operator {operator} if that is what it computes" in str(caught.value)


SAID = {
    "custom_attention": "attention",
    "mixed_precision_attention": "attention",
    "quantize": "quantize",
    "apply_rope_cos_sin": "rotary",
    "fused_dequantize": "dequantize",
    "softmax_cross_entropy_loss": "cross_entropy",
    "kl_divergence_loss": "distillation_loss",
    "compute_yarn_parameters": "rotary_frequencies",
    "compute_default_rope_parameters": "rotary_frequencies",
    "rope_cos_sin": "rotary_tables",
    "tvd_loss": "total_variation",
    "attention_quantized": "attention",
}


@pytest.mark.parametrize("name", SAID)
def test_a_name_that_says_the_operator_alone_is_taken(name):
    check_name(name, library()[SAID[name]], ["x"])
