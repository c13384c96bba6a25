"""Known interfaces: each is data that says what its parameters are passed, and a function fits one or none."""

import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms import signatures as module
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.signatures import fitting, signature_named, signatures


def beyond(one):
    return one.beyond(library()[one.operator])


@pytest.mark.parametrize(
    ("function", "taken", "like"),
    [
        ("mine", ["q", "k", "v", "softmax_scale", "window_size", "causal"], "flash_attn_func"),
        ("mine", ["qkv", "softmax_scale", "causal"], "flash_attn_qkvpacked_func"),
        ("mine", ["query", "key", "value", "attn_mask", "is_causal", "scale"], "scaled_dot_product_attention"),
        ("dot_product_attention", ["query", "key", "value"], "jax_dot_product_attention"),
        ("mine", ["q", "k", "v", "causal", "sm_scale"], ""),
        ("mine", ["q", "k", "v", "softmax_scale", "strange"], ""),
        ("flash_attn_func", ["q", "k", "v", "softmax_scale", "strange"], "flash_attn_func"),
        ("mine", ["query", "key", "value"], ""),
    ],
)
def test_a_function_fits_one_interface_or_none(function, taken, like):
    found = fitting(function, taken, taken[:1], None, beyond=beyond)
    assert like == (found.name if found else "")


@pytest.mark.parametrize("function", ["selective_state_update_ref", "mine"])
def test_what_writes_to_what_it_is_passed_is_known_by_a_name_that_says_the_same(function):
    named, taken = function != "mine", ["state", "x", "dt", "A", "B", "C"]
    found = fitting(function, [*taken, "D", "z"], taken, None)
    assert ("selective_state_update" if named else "") == (found.name if found else "")
    one = signatures()["selective_state_update"]
    assert (named, False) == (one.is_like(function), one.is_called(function))


def test_what_further_mechanisms_add_does_not_count_for_how_well_an_interface_fits():
    one, m = signatures()["flash_attn_varlen_func"], library()["packed_attention"]
    codes = {"q_descale", "k_descale", "v_descale"}
    assert {"alibi_slopes", "seqused_q", "seqused_k", "s_aux", *codes} == one.beyond(m)
    taken = ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"]
    assert fitting("mine", taken, taken, None) is None
    assert fitting("mine", taken, taken, None, beyond=beyond) is one


def test_an_interface_is_found_by_the_names_of_its_functions():
    assert "torch_rms_norm" == signature_named("rms_norm").name
    with pytest.raises(UsageError, match="no known interface is called 'flash_attn'; did you mean 'flash_attn_func'"):
        signature_named("flash_attn")
    with pytest.raises(UsageError, match=r"'sliding_window' is a mechanism, .*; to check it, add --operator attention"):
        signature_named("sliding_window")


def test_every_interface_of_another_package_says_where_it_is_documented():
    assert {path.stem for path in (module.spec_folder() / "signatures").glob("*.yaml")} == {*signatures()}
