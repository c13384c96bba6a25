"""Kernels as people write them are checked by one command without an adapter, and their faulty variants are refuted."""

from pathlib import Path

import pytest

import attnspec

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
TABLE = [
    ("torch", "flash_attn_func", "flash_attn_func", "attention", "(place < 0)", "(place <= 0)"),
    ("torch", "flash_attn_qkvpacked_func", "flash_attn_qkvpacked_func", "attention", "unbind(2)", "unbind(2)[::-1]"),
    ("torch", "sdpa", "scaled_dot_product_attention", "attention", ".tril()", ".tril(-1)"),
    ("torch", "eager_attention_forward", "transformers_attention", "attention", "+ attention_mask", "- attention_mask"),
    ("torch", "unified_attention", "unified_attention", "paged_attention", "length - len(own)", "length"),
    ("torch", "flash_mla_with_kvcache", "flash_mla_with_kvcache", "latent_pages", ":head_dim_v", "-head_dim_v:"),
    ("torch", "apply_rotary_emb", "apply_rotary_emb", "rotary", "first * cos - second", "first * cos + second"),
    ("torch", "fused_add_rms_norm", "fused_add_rms_norm", "residual_rms_norm", "+ eps", "+ 0 * eps"),
    ("torch", "fused_topk", "fused_topk", "moe_routing", "ids.int()", "ids.int().sort(-1).values"),
    ("numpy", "single_prefill_with_kv_cache", "single_prefill_with_kv_cache", "attention", "** -0.5", "** -1.0"),
    (
        "numpy",
        "flash_attn_varlen_func",
        "flash_attn_varlen_func",
        "packed_attention",
        "k[seen], v[seen]",
        "k[own], v[own]",
    ),
    ("jax", "apply_rotary_pos_emb", "apply_rotary_pos_emb", "rotary", "-second, first", "second, first"),
    ("numpy", "dot_product_attention", "jax_dot_product_attention", "attention", "scores + bias", "scores - bias"),
]


def checked(path, function, operator):
    named = (operator, "causal_mask") if operator == "attention" else (operator,)
    laws = [f"{name}.{law}" for name in named for law in ("definition", "contract.inputs_unchanged")]
    return attnspec.check(f"{path}:{function}", laws=laws, profile="smoke", explain_time=0)


FURTHER = [
    ("if sinks is not None:", "if sinks is ...:", "sunk_pages.ignored"),
    ("- alibi_slopes", "+ alibi_slopes", "alibi_pages.rising"),
    ("(1 if k_descale is None else k_descale[0, 0])", "1", "quantized_pages.key_scale_ignored"),
    ("read if v_descale is None else read * v_descale[0, 0]", "read", "quantized_pages.value_scale_ignored"),
    ("if attn_sink is not None:", "if attn_sink is ...:", "sunk_latent_pages.ignored"),
]
"""Lines of a kernel that serve one further mechanism, what is wrong in their place, and the mistake that it is."""
FUNCTIONS = {"sunk_latent_pages": "flash_mla_with_kvcache"}


@pytest.mark.parametrize(("right", "wrong", "name"), FURTHER, ids=[name for _, _, name in FURTHER])
def test_a_known_interface_passes_what_further_mechanisms_add(right, wrong, name, tmp_path):
    text, mechanism = (KERNELS / "torch_kernels.py").read_text(), name.partition(".")[0]
    assert 1 == text.count(right)
    source, faulty = (tmp_path / f"{one}.py" for one in ("right", "faulty"))
    source.write_text(text)
    faulty.write_text(text.replace(right, wrong))
    law, function = f"{mechanism}.definition", FUNCTIONS.get(mechanism, "unified_attention")
    report = attnspec.check(f"{source}:{function}", laws=law, isolate=False)
    assert {function: "conformant"} == report.verdicts, report
    report = attnspec.check(f"{faulty}:{function}", laws=law, isolate=False)
    assert {function: "violated"} == report.verdicts
    assert f"Like      {name}:" in str(report)


@pytest.mark.parametrize(("framework", "function", "like", "operator", "right", "wrong"), TABLE)
def test_a_kernel_is_checked_without_an_adapter_and_its_fault_is_found(
    framework, function, like, operator, right, wrong, tmp_path
):
    pytest.importorskip(framework)
    source = KERNELS / f"{framework}_kernels.py"
    report = checked(source, function, operator)
    first = str(report).splitlines()[0]
    assert f"{function} is treated as {like} (spec/signatures/{like}.yaml)" == first.partition(";")[0]
    assert {function: "conformant"} == report.verdicts, report
    text = source.read_text()
    start = text.index(f"def {function}(")
    assert right in text[start:]
    faulty = tmp_path / "faulty.py"
    faulty.write_text(text[:start] + text[start:].replace(right, wrong, 1))
    assert {function: "violated"} == checked(faulty, function, operator).verdicts
