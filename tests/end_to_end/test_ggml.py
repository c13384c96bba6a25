"""The operators of ggml are what they are called, on its CPU backend."""

import pytest

pytest.importorskip("ggml")

import attnspec

ADAPTERS = (
    "ggml_soft_max",
    "ggml_norm",
    "ggml_rms_norm",
    "ggml_rope_ext",
    "ggml_flash_attn_ext",
    "ggml_get_rows",
    "ggml_flash_attn_q8_0",
    "ggml_flash_attn_q4_0",
)


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_operator_of_ggml_keeps_the_laws_of_its_own(name):
    assert attnspec.check(name, profile="smoke").conformant
