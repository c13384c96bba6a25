"""Kernels of interfaces of their own: each is checked by one command, told for what it is, and refuted when faulty."""

from pathlib import Path

import pytest

import attnspec

KERNELS = Path(__file__).parents[1] / "kernels"
FLASH = "varlen_attention is treated as flash_attn_varlen_func (spec/signatures/flash_attn_varlen_func.yaml)"
TABLE = {
    "decode_attention": (
        "numpy",
        "paged_attention",
        "decode_attention is treated as attention_with_kvcache (spec/signatures/attention_with_kvcache.yaml)",
        ("+ n - s", "+ n"),
    ),
    "paged_attention_v1": (
        "numpy",
        "paged_attention",
        'paged_attention_v1 reads [batch, heads, dim]: declare layout = "bhd_nhd"',
        ("[:n].repeat(h // g, 1)\n        v", "[: n - 1].repeat(h // g, 1)\n        v"),
    ),
    "attention_online": (
        "numpy",
        "attention",
        "attention_online is treated as attention: `is_causal` for `causal`, `sm_scale` for `scale`",
        ("acc * old", "acc"),
    ),
    "varlen_attention": ("torch", "packed_attention", FLASH, ("len(ks) - len(qs)", "len(ks) - len(qs) - 1")),
    "triton_attention": (
        "torch",
        "attention",
        "triton_attention is treated as attention: `sm_scale` for `scale`",
        (".tril(k.shape[2] - q.shape[2])", ".tril(-1)"),
    ),
    "memory_efficient": (
        "torch",
        "attention",
        "memory_efficient is treated as memory_efficient_attention (spec/signatures/memory_efficient_attention.yaml); "
        "not tested: p",
        ("a + attn_bias", "a"),
    ),
    "qkvpacked": (
        "torch",
        "attention",
        "qkvpacked is treated as flash_attn_qkvpacked_func (spec/signatures/flash_attn_qkvpacked_func.yaml)",
        (".triu(1)", ".triu(2)"),
    ),
    "fused_add_rms_norm": (
        "torch",
        "residual_rms_norm",
        "fused_add_rms_norm is treated as fused_add_rms_norm (spec/signatures/fused_add_rms_norm.yaml)",
        ("    y = residual.float()", "    y = x.float()"),
    ),
    "add_rms_norm": (
        "torch",
        "residual_rms_norm",
        "add_rms_norm is treated as residual_rms_norm: `hidden_states` for `x`, `variance_epsilon` for `eps`",
        ("hidden_states = hidden_states + residual\n    residual = hidden_states\n    h", "h"),
    ),
    "flash_attention_backward": (
        "torch",
        "attention_gradient",
        'flash_attention_backward reads [batch, length, heads, dim]: declare layout = "bshd"; it is treated as '
        "attention_gradient: `dout` for `d_out`, `softmax_lse` for `lse`, `softmax_scale` for `scale`",
        ("- (dout * out).sum(-1, keepdim=True)", ""),
    ),
    "rms_norm_bwd": (
        "torch",
        "rms_norm_gradient",
        "rms_norm_bwd is treated as rms_norm_gradient: `dy` for `d_out`, `w` for `weight`",
        (".mean(-1, keepdim=True)", ".sum(-1, keepdim=True)"),
    ),
    "mha": (
        "jax",
        "attention",
        "mha is treated as jax_dot_product_attention (spec/signatures/jax_dot_product_attention.yaml)",
        ("softmax(logits, axis=-1)", "softmax(logits, axis=-2)"),
    ),
    "rope": (
        "mlx",
        "rotary",
        "rope is treated as mlx_rope (spec/signatures/mlx_rope.yaml)",
        ("y = mx.concatenate([a * cos - b * sin", "y = mx.concatenate([a * cos + b * sin"),
    ),
}


def checked(path, function, operator, **options):
    laws = [f"{name}.definition" for name in (operator, "causal_mask")[: 1 + (operator == "attention")]]
    return attnspec.check(
        f"{path}:{function}", laws=laws, dtypes=["float32"], profile="smoke", explain_time=0, **options
    )


@pytest.mark.parametrize("function", TABLE)
def test_a_kernel_is_told_for_what_it_is_and_its_fault_is_found(function, tmp_path):
    framework, operator, first, (right, wrong) = TABLE[function]
    pytest.importorskip("mlx.core" if framework == "mlx" else framework)
    source = KERNELS / f"{framework}_kernels.py"
    report = checked(source, function, operator)
    assert first == str(report)[: len(first)], report
    assert {function: "conformant"} == report.verdicts, report
    text = source.read_text()
    start = text.index("class OnlineAttention" if function == "attention_online" else f"def {function}(")
    assert right in text[start:]
    faulty = tmp_path / "faulty.py"
    faulty.write_text(text[:start] + text[start:].replace(right, wrong, 1))
    assert {function: "violated"} == checked(faulty, function, operator, exitfirst=True).verdicts
