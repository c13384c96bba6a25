"""Plain functions with faults that people have reported, each beside a right one that differs in nothing else."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main

HEAD = "import torch\nfrom torch.nn import functional as F\n\n\n"
KERNELS = {
    "scaled_dot_product_attention": (
        """
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    n, heads, length, d = query.shape
    if enable_gqa:
        key, value = (x.repeat_interleave(heads // x.shape[1], 1) for x in (key, value))
    scores = query @ key.mT * (d ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, float("-inf"))
    if attn_mask is not None:
        mask = attn_mask.reshape((1,) * (4 - attn_mask.ndim) + attn_mask.shape)
        items, groups = mask.shape[:2]
        pair = torch.arange(n * heads)
        item = pair // heads % items
        slot = item * groups + pair % heads % groups
        mask = mask.flatten(0, 1)[slot].unflatten(0, (n, heads))
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1).nan_to_num(0.0) @ value
""",
        ("item = pair // heads % items", "item = pair % items"),
        "attention.",
    ),
    "dot_product_attention": (
        """
def dot_product_attention(query, key, value, bias=None, mask=None, *, scale=None, is_causal=False,
                          query_seq_lengths=None, key_value_seq_lengths=None, local_window_size=None):
    (length, heads), k_len = query.shape[1:3], key.shape[1]
    key, value = (x.repeat_interleave(heads // x.shape[2], 2) for x in (key, value))
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias
    seen = torch.ones(length, k_len, dtype=torch.bool)
    apart = torch.arange(length)[:, None] - torch.arange(k_len)
    if is_causal:
        seen = seen & (apart >= 0)
    if local_window_size is not None:
        seen = seen & (apart.abs() <= local_window_size)
    if mask is not None:
        seen = seen & mask
    scores = torch.where(seen, scores, -0.7 * torch.finfo(scores.dtype).max)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value)
""",
        ("if local_window_size is not None:", "if local_window_size is not None and (is_causal or mask is not None):"),
        "sliding_window.only_with_causal",
    ),
    "skip_simplified_layer_norm": (
        '''
def skip_simplified_layer_norm(input, skip, gamma, bias=None, epsilon=1e-12):
    """Returns the norm of the sum, and the sum."""
    shift = 0 if bias is None else bias
    added, behind = input + skip + shift, 0
    out = added * torch.rsqrt(added.square().mean(-1, keepdim=True) + epsilon) * gamma + behind
    return out, added
''',
        ("input + skip + shift, 0", "input + skip, shift"),
        "residual_rms_norm.bias_behind_the_norm",
    ),
    "causal_linear_attention": (
        '''
def causal_linear_attention(q, k, v):
    """Of queries and keys that are positive already."""
    read = torch.einsum("...nd,...nd->...n", q, k.cumsum(-2))
    state = torch.einsum("...nd,...ne->...nde", k, v).cumsum(-3)
    return torch.einsum("...nde,...nd->...ne", state, q) / read[..., None]
''',
        ("/ read[..., None]", "* read[..., None]"),
        "",
    ),
    "elu_linear_attention": (
        """
def elu_linear_attention(q, k, v, eps=1e-6):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    read = torch.einsum("...nd,...nd->...n", q, k.cumsum(-2)) + eps
    state = torch.einsum("...nd,...ne->...nde", k, v).cumsum(-3)
    return torch.einsum("...nde,...nd->...ne", state, q) / read[..., None]
""",
        ("F.elu(k) + 1", "F.elu(k)"),
        "",
    ),
    "apply_multimodal_rotary_pos_emb": (
        """
def apply_multimodal_rotary_pos_emb(q, k, cos, sin, mrope_section, unsqueeze_dim=1):
    def chosen(table):
        parts = table.split(mrope_section * 2, dim=-1)
        return torch.cat([part[i % 3] for i, part in enumerate(parts)], dim=-1).unsqueeze(unsqueeze_dim)

    def turned(x):
        first, second = x.chunk(2, -1)
        return x * chosen(cos) + torch.cat((-second, first), -1) * chosen(sin)

    return turned(q), turned(k)
""",
        ("table.split(mrope_section * 2, dim=-1)", "table.split([2 * n for n in mrope_section], dim=-1)"),
        "mrope.",
    ),
    "quant_fp8": (
        """
def quant_fp8(A, group_size=128, dtype=torch.float8_e4m3fn):
    a = A.float().reshape(A.shape[0], -1, group_size)
    scales = a.abs().amax(-1).clamp(min=1e-6) / torch.finfo(dtype).max
    return (a / scales[..., None]).clamp(-448, 448).reshape(A.shape).to(dtype), scales
""",
        (".clamp(min=1e-6)", ""),
        "quantize_blocks.zero_block_is_nan",
    ),
}


@pytest.fixture
def checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def check(name, text):
        Path("kernels.py").write_text(HEAD + text)
        return CliRunner().invoke(main, ["check", f"kernels.py:{name}", "--dtype", "float32"])

    return check


@pytest.mark.parametrize("name", KERNELS)
def test_the_right_one_conforms_and_the_reported_fault_is_refuted(checked, name):
    text, (own, wrong), mistake = KERNELS[name]
    assert own in text
    right = checked(name, text)
    assert 0 == right.exit_code, right.output
    result = checked(name, text.replace(own, wrong))
    assert 1 == result.exit_code, result.output
    assert mistake in result.output
