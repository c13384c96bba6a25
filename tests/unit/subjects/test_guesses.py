"""What a plain function is treated as."""

import pytest

from attnspec.adapters import Adapter
from attnspec.errors import TargetError, UsageError
from attnspec.mechanisms.loader import library
from attnspec.subjects.guesses import Asked, completed, guess_operator


def test_attention_of_several_heads_has_weights_unless_queries_are_asked_for():
    assert "multi_head" == guess_operator("multi_head_attention", needed=["x", "wq", "wk", "wv", "wo"])
    assert "attention" == guess_operator("multi_head_attention", needed=["query", "key", "value", "num_heads"])


def test_attention_of_several_heads_without_weights_is_packed_or_in_pages_as_its_parameters_say():
    asked = ["q", "k_cache", "v_cache", "kv_indptr", "kv_indices"]
    assert "attention" == guess_operator("gqa_decode", needed=asked)  # and by these of pages
    assert "packed_attention" == guess_operator("ref_mha_varlen", needed=["q", "k", "v", "cu_q", "cu_k", "scale"])
    assert "multi_head" == guess_operator("mha", needed=["query", "key", "value", "w_q", "w_k", "w_v", "w_o"])


def test_what_makes_a_mask_or_a_bias_is_no_attention():
    def guessed(name, function):
        return completed(Adapter(name, "", function, "numpy"), Asked(), None).operator

    with pytest.raises(UsageError, match="does not say which operator it is"):
        guess_operator("get_attn_bias", needed=["s_q", "s_k", "causal"])
    with pytest.raises(UsageError, match="does not say which operator it is"):
        guessed("lengths_to_attention_mask", lambda lengths: lengths)
    assert "attention_mask" == guessed("causal_attention_mask", lambda seq_len: seq_len)
    assert "attention" == guess_operator("attention_mask", needed=["q", "k", "v", "mask"])


def test_what_gives_pairs_to_a_rotary_function_is_none():
    def guessed(function):
        return completed(Adapter("mine_rope_rotate_half", "", function, "numpy"), Asked(), None).operator

    with pytest.raises(UsageError, match="says rotate_half, a step of rotary; add --operator rotary"):
        guessed(lambda x: x)
    assert "rotary" == guessed(lambda x, cos, sin: x)


def test_what_asks_for_a_residual_beside_a_norm_is_the_norm_of_a_sum():
    def guessed(name, function):
        return completed(Adapter(name, "", function, "numpy"), Asked(), None).operator

    assert "residual_rms_norm" == guessed("rmsnorm_ref", lambda x, residual, weight, eps: x)
    assert "residual_layer_norm" == guessed("my_layernorm", lambda x, res, weight, bias: x)
    assert "rms_norm" == guessed("rmsnorm_ref", lambda x, weight, eps: x)
    assert "rms_norm" == guessed("rmsnorm_ref", lambda x, weight, eps, residual=None: x)


def test_what_has_the_very_name_of_an_interface_is_that_though_its_parameters_fit_another_operator():
    def guessed(name):
        return completed(Adapter(name, "", lambda logits, top_k: logits, "numpy"), Asked(), None).operator

    assert ("filter_rows", "top_k_filter") == (guessed("top_k_mask_logits"), guessed("my_top_k_filtering"))


def test_bounds_may_have_a_short_name():
    assert "packed_attention" == guess_operator("reference_attention", needed=["q", "k", "v", "cu"])
    assert "attention" == guess_operator("reference_attention", needed=["q", "k", "v", "cut"])


def test_a_backward_pass_asks_for_more_than_its_forward_pass():
    assert "attention" == guess_operator("attention_without_vjp", needed=["q", "k", "v"])
    assert "attention_gradient" == guess_operator("attention_vjp", needed=["q", "k", "v", "do"])


def test_what_needs_queries_keys_values_and_a_gradient_is_the_backward_pass_of_attention():
    needed = ["dO", "query", "key", "value", "out", "lse"]
    assert "attention_gradient" == guess_operator("solve", needed=needed)
    assert "attention_gradient" == guess_operator("backward", needed=needed[:4])


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("softmax", "softmax"),
        ("my_fused_softmax_v2", "softmax"),
        ("Flash-Attention", "attention"),
        ("alibi_slopes_of_heads", "alibi_slopes"),
        ("softmax_of_attention", "attention"),
        ("fused_qk_norm_rope", "qk_norm_rotary"),
        ("my_silu_and_mul", "gated_activation"),
        ("naive_recurrent_linear_attn", "linear_attention"),
        ("naive_log_linear_attn", "log_linear_attention"),
        ("triton_rmsnorm", "rms_norm"),
        ("my_varlen_attn", "packed_attention"),
        ("route", "moe_routing"),
        ("per_token_quant_int8", "quantize_blocks"),
        ("flash_attention_backward", "attention_gradient"),
        ("rmsnorm_bwd", "rms_norm_gradient"),
        ("softmax_backward_kernel", "softmax_gradient"),
        ("attention_gradient", "attention_gradient"),
        ("attention_forward_backward", "attention"),
    ],
)
def test_a_name_says_its_operator(name, operator):
    assert operator == guess_operator(name)


def named_by_parameters(function):
    return completed(Adapter("my_kernel", "", function, "torch"), Asked(), None).operator


def test_parameters_say_the_operator_where_the_name_does_not():
    assert "merge_states" == named_by_parameters(lambda o1, lse1, o2, lse2: o1)
    assert "multi_head" == named_by_parameters(lambda x, wq, wk, wv, wo, n_heads: x)
    assert "swiglu" == named_by_parameters(lambda x, w1, w2, w3: x)
    assert "feed_forward" == named_by_parameters(lambda x, w1, b1, w2, b2: x)


def test_a_sampler_without_a_seed_may_be_the_filter_that_its_name_says():
    def of(name, function):
        return completed(Adapter(name, "", function, "torch"), Asked(), None).operator

    assert "sample" == of("sample_top_p", lambda logits, p, generator=None: logits)
    with pytest.raises(UsageError, match=r"says that tokens are drawn.*add --operator top_p_filter if that is what"):
        of("llama_sample_top_p", lambda logits, p, min_keep=1: logits)


def test_parameters_decide_between_operators_that_share_a_name():
    def of(name, function):
        return completed(Adapter(name, "", function, "torch"), Asked(), None).operator

    assert "gated_activation" == of("swiglu", lambda gate, up: gate)
    assert "swiglu" == of("swiglu", lambda x, w1, w2, w3: x)
    assert "swiglu" == of("swiglu", lambda h, m1, m2, m3: h)  # which say neither
    assert "gated_activation_gradient" == of("swiglu_bwd", lambda dy, gate, up: gate)
    assert "swiglu_gradient" == of("swiglu_bwd", lambda x, w_gate, w_up, w_down, dy: x)


@pytest.mark.parametrize("function", [lambda x: x, lambda x, w1, b1, b3: x, lambda x, shift, scale: x])
def test_parameters_of_no_operator_or_of_several_say_none(function):
    with pytest.raises(UsageError, match="does not say which operator it is"):
        named_by_parameters(function)


@pytest.mark.parametrize("name", ["kernel", "softmaxes", "alibi"])
def test_a_name_that_says_no_operator_is_no_guess(name):
    with pytest.raises(UsageError, match="does not say which operator it is"):
        guess_operator(name)


def test_a_layout_that_is_declared_leaves_the_names_of_parameters_what_they_are():
    def attention(query, key, value, sm_scale=None):
        """A kernel."""

    adapter = Adapter("attention", "", attention, "numpy", layout="bshd")
    found = completed(adapter, Asked(), None)
    assert ("attention(query=q, key=k, value=v, sm_scale=scale)", "bshd") == (found.like, found.layout)


def test_of_interfaces_of_one_name_that_is_taken_which_has_most_of_the_parameters():
    def kernel(query, key, value, attn_mask=None, is_causal=False, scale=None):
        return query

    found = completed(Adapter("scaled_dot_product_attention", "", kernel, "torch"), Asked(), None)
    assert "scaled_dot_product_attention" == found.like


@pytest.mark.parametrize(
    "name", ["chunk_gated_delta_rule", "torch_chunk_gated_delta_rule", "naive_recurrent_gated_delta_rule"]
)
def test_words_for_how_a_function_computes_do_not_tell_interfaces_apart(name):
    def kernel(query, key, value, g, beta, initial_state=None, output_final_state=False, tile=64):
        return query

    found = completed(Adapter(name, "", kernel, "torch"), Asked(), None)
    assert "chunk_gated_delta_rule" == found.like


def test_the_name_decides_between_interfaces_of_the_same_parameters():
    def kernel(q, k, v, g, scale=None):
        return q

    assert "chunk_simple_gla" == completed(Adapter("naive_simple_gla", "", kernel, "torch"), Asked(), None).like


def test_only_operators_of_interfaces_that_fit_are_read():
    read = set()

    class Watched:
        def __getitem__(self, name):
            read.add(name)
            return library()[name]

        def __getattr__(self, name):
            return getattr(library(), name)

    def attention(q, k, v, *, causal=False, scale=None):
        return q

    completed(Adapter("attention", "", attention, "torch"), Asked(), Watched())
    assert {"attention"} == read


def test_steps_of_attention_are_no_advice(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text("def program(query, key, value, seen):\n    return einsum(softmax(einsum(query, key)), value)\n")
    adapter = Adapter("program", "", lambda query, key, value, seen: None, "torch", place=f"{path}:1")
    with pytest.raises(UsageError, match="add --operator NAME"):
        completed(adapter, Asked(), None)


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda y: y, "gated_activation"),
        (lambda x, w_gate, w_up, w_down: x, "swiglu"),
        (lambda x, w1, w2, w3: x, "swiglu"),
    ],
)
def test_a_name_of_two_operators_is_that_of_the_one_that_takes_as_many_arrays(function, operator):
    assert operator == completed(Adapter("swiglu", "", function, "torch"), Asked(), None).operator


def test_options_that_a_function_asks_for_are_no_arrays_of_the_operator_that_its_name_says():
    assert (
        "gated_activation"
        == completed(Adapter("swiglu", "", lambda a, alpha, limit: a, "torch"), Asked(), None).operator
    )


def rope_tables_of(x, position_ids):
    return x.cos(), x.sin()


def turned_by_rope(x, position_ids):
    return x


def both_by_rope(first, second):
    return first, second


@pytest.mark.parametrize(
    ("function", "operator"), [(rope_tables_of, "rotary_tables"), (turned_by_rope, "rotary"), (both_by_rope, "rotary")]
)
def test_a_rotary_function_of_two_results_gives_tables_where_it_is_passed_what_these_take(function, operator):
    assert operator == completed(Adapter(function.__name__, "", function, "torch"), Asked(), None).operator


@pytest.mark.parametrize("function", [lambda x, weight: x, lambda input, weight, eps=1e-6: input])  # noqa: A006
@pytest.mark.parametrize("name", ["rmsnorm_silu", "fused_layer_norm_gelu", "softmax_relu"])
def test_a_norm_whose_name_says_an_activation_as_well_is_none(name, function):
    with pytest.raises(UsageError, match=r"says \w+ beside \w+, which has none; add --operator"):
        completed(Adapter(name, "", function, "torch"), Asked(), None)
    own = Asked(operator="rms_norm")
    assert "rms_norm" == completed(Adapter(name, "", lambda x, weight: x, "torch"), own, None).operator


def test_what_an_operator_computes_by_itself_is_not_beside_it():
    normed = Adapter("group_norm_silu", "", lambda x, num_groups, weight, bias, eps: x, "torch")
    assert "group_norm" == completed(normed, Asked(), None).operator
    assert "gated_activation" == completed(Adapter("silu_and_mul", "", lambda x: x, "torch"), Asked(), None).operator


@pytest.mark.parametrize("name", ["fp4_quantize", "quantize_nf4", "pseudo_quantize", "gptq_dequantize"])
def test_codes_that_are_no_whole_numbers_are_none_of_a_quantization(name):
    with pytest.raises(UsageError, match="has whole numbers as codes; add --operator"):
        completed(Adapter(name, "", lambda x, scale, zero_point: x, "torch"), Asked(), None)
    own = Asked(operator="dequantize")
    assert "dequantize" == completed(Adapter(name, "", lambda codes, scale, zero_point: 0, "torch"), own, None).operator


@pytest.mark.parametrize(
    ("name", "function", "says"),
    [
        ("quantize_fp8_asymmetric", lambda x: x, "says that numbers are shifted, and quantize_blocks"),
        ("quantize_fp8_mxfp8", lambda x: x, "says mxfp8, and quantize_blocks has codes of eight bits"),
        ("top_k_sampling", lambda probs, top_k: probs, "says that tokens are drawn, and"),
        ("rmsnorm_fp4quant", lambda x, weight: x, "says that codes are made beside rms_norm, which has none"),
        ("permute_to_match_rope", lambda arr: arr, "says permute, a step of rotary"),
        ("rope_cache_eligible", lambda x: True, "says eligible, and no more than that about rotary"),
        ("attention_flops", lambda q, k, v: 0, "says flops, and no more than that about attention"),
        ("allocate_attention", lambda q, k, v: q, "says allocate, and no more than that about attention"),
        ("quick_geglu", lambda x: x, "says quick, which gated_activation is not"),
        ("layernorm_mean_ref", lambda x: x, "says mean, which layer_norm is not"),
        ("make_attention_mask_3d", lambda source, target, pad: source, "does not say which operator it is"),
        ("logbetabinom", lambda n, a, b, x: x, "does not say which operator it is"),  # a and b are halves of x
    ],
)
def test_names_that_say_more_than_an_operator_are_none_of_it(name, function, says):
    with pytest.raises(UsageError, match=says):
        completed(Adapter(name, "", function, "torch"), Asked(), None)


def test_an_interface_of_which_the_name_has_no_word_is_found_by_three_parameters():
    def storage_shape(t): ...

    def stretched(limit, gate): ...

    def merged(v_a, s_a, v_b): ...

    for function in (storage_shape, stretched):
        with pytest.raises(UsageError, match="does not say which operator it is"):
            completed(Adapter(function.__name__, "", function, "torch"), Asked(), None)
    assert "merge_state" == completed(Adapter("merged", "", merged, "torch"), Asked(), None).like


def test_an_interface_is_that_of_functions_that_are_passed_all_inputs_of_it():
    def token_choice(hidden_states, gating_output, topk, renormalize): ...

    with pytest.raises(UsageError, match="does not say which operator it is"):
        completed(Adapter("token_choice", "", token_choice, "torch"), Asked(), None)


def test_parameters_that_are_no_arrays_by_their_names_are_not_passed_any():
    def ssd(x, a, b, c, block_len): ...

    def rope_embedding(tokens: int, device): ...

    def routing_map(topk_indices, num_experts): ...

    for function, says in (
        (ssd, "the parameter 'a' is at the place of dt, and its name says a; say what to pass"),
        (rope_embedding, "the parameter 'tokens' is at the place of x, and its name says length"),
        (routing_map, "the parameter 'topk_indices' is at the place of logits, and its name says indices"),
    ):
        with pytest.raises(TargetError, match=says):
            completed(Adapter(function.__name__, "", function, "torch"), Asked(), None)
