"""Tables of cosines and sines as models make them before they turn queries and keys."""

import pytest
import torch

import attnspec

from .test_plain_functions import conforming, refuted


def angles(positions, dim, base):
    return positions[..., None].float() / base ** (torch.arange(0, dim, 2).float() / dim)


def of_both(freqs):
    emb = torch.cat((freqs, freqs), -1)
    return emb.cos(), emb.sin()


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = angles(torch.arange(end), dim, theta)
    return torch.polar(torch.ones_like(freqs), freqs)


def precompute_freqs_cis_real(dim: int, end: int, theta: float = 10000.0):
    freqs = angles(torch.arange(end), dim, theta)
    return torch.stack((freqs.cos(), freqs.sin()), -1)


def compute_cos_sin_cache(max_position_embeddings, rotary_dim, base):
    freqs = angles(torch.arange(max_position_embeddings), rotary_dim, base)
    return torch.cat((freqs.cos(), freqs.sin()), -1)


def get_cos_sin(seq_len, dim, base=10000.0):
    return of_both(angles(torch.arange(seq_len), dim, base))


def get_cos_sin_interleaved(seq_len, dim, base=10000.0, offset=0):
    emb = angles(torch.arange(offset, offset + seq_len), dim, base).repeat_interleave(2, -1)
    return emb.cos(), emb.sin()


def rope_cos_sin(position_ids: torch.Tensor, head_dim: int, theta: float = 10000.0):
    freqs = angles(position_ids, head_dim, theta)
    return freqs.cos(), freqs.sin()


def precompute_freqs_cis_turned_back(dim: int, end: int, theta: float = 10000.0):
    return precompute_freqs_cis(dim, end, theta).conj().resolve_conj()


def precompute_freqs_cis_without_two(dim: int, end: int, theta: float = 10000.0):
    freqs = torch.arange(end)[:, None] / theta ** (torch.arange(0, dim // 2).float() / dim)
    return torch.polar(torch.ones_like(freqs), freqs)


def get_cos_sin_from_one(seq_len, dim, base=10000.0):
    return of_both(angles(torch.arange(1, seq_len + 1), dim, base))


def get_cos_sin_without_offset(seq_len, dim, base=10000.0, offset=0):
    return get_cos_sin_interleaved(seq_len, dim, base)


def rope_cos_sin_of_narrow_positions(position_ids: torch.Tensor, head_dim: int, theta: float = 10000.0):
    return rope_cos_sin(position_ids.bfloat16(), head_dim, theta)


SAID = {
    precompute_freqs_cis: "as a complex number",
    precompute_freqs_cis_real: "side by side, or as a complex number",
    compute_cos_sin_cache: "the cosines of all pairs come before their sines",
    get_cos_sin: "`seq_len` for `length`",
    get_cos_sin_interleaved: "columns = side_by_side",
    rope_cos_sin: "columns = of_pairs",
}
WRONG = [
    precompute_freqs_cis_turned_back, precompute_freqs_cis_without_two, get_cos_sin_from_one,
    get_cos_sin_without_offset, rope_cos_sin_of_narrow_positions,
]  # fmt: skip


def as_it_is_said(function, report):
    assert SAID[function] in str(report)


test_a_right_function_conforms = conforming(SAID, as_it_is_said)
test_a_wrong_function_does_not = refuted(WRONG, "quick")

LAYER = """
import torch


class LlamaRotaryEmbedding(torch.nn.Module):
    def __init__(self, dim=32, base=500000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, position_ids):
        inv_freq = 1.0 / (self.base ** (torch.arange(0, self.dim, 2).float() / self.dim))
        freqs = {angle}
        emb = torch.cat((freqs, freqs), -1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)
"""
RIGHT = "position_ids[..., None].float() * inv_freq"
NARROW = "(position_ids[..., None].to(x.dtype) * inv_freq.to(x.dtype)).float()"


@pytest.mark.parametrize(
    ("angle", "dtype", "verdict"),
    [
        (RIGHT, "float32", "conformant"),
        (RIGHT, "bfloat16", "conformant"),
        (NARROW, "bfloat16", "violated"),
        ("(position_ids[..., None] + 1).float() * inv_freq", "float32", "violated"),
    ],
)
def test_the_layer_of_llama_is_read_by_its_tables(tmp_path, angle, dtype, verdict):
    (tmp_path / "layer.py").write_text(LAYER.replace("{angle}", angle))
    report = attnspec.check(f"{tmp_path / 'layer.py'}:LlamaRotaryEmbedding", dtypes=dtype, explain_time=0)
    assert {"LlamaRotaryEmbedding": verdict} == report.verdicts, report
