"""Attention with rotary positions: definition and reference written out, refusals, classes as people write them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from attnspec import reference
from attnspec.cli import main
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(pairing="halves", **values):
    mechanism = library()["rotary_self_attention"]
    frame = Frame(mechanism, {**mechanism.defaults, **values, "pairing": pairing})
    frame.check_domain()
    return frame.outputs()["out"]


def given(heads=4, groups=2, d=6, dim=7, seed=3):
    rng = np.random.default_rng(seed)
    shapes = {"x": (2, 5, dim), "wq": (dim, heads * d), "wk": (dim, groups * d), "wv": (dim, groups * d)}
    shapes |= {"wo": (heads * d, dim), "bq": (heads * d,), "bk": (groups * d,), "bv": (groups * d,), "bo": (dim,)}
    arrays: dict[str, Any] = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    return {**arrays, "heads": heads, "kv_heads": groups}


def turned(row, position, width, base, pairing):
    """One row of one head, pair by pair, with a matrix of two by two."""
    out = [*row]
    for i in range(width // 2):
        a, b = (i, i + width // 2) if pairing == "halves" else (2 * i, 2 * i + 1)
        angle = position * base ** (-2 * i / width)
        out[a] = np.cos(angle) * row[a] - np.sin(angle) * row[b]
        out[b] = np.sin(angle) * row[a] + np.cos(angle) * row[b]
    return np.array(out)


@pytest.mark.parametrize("witness", [defined, reference.rotary_self_attention])
@pytest.mark.parametrize(("pairing", "rotary_dim", "normed"), [("halves", None, True), ("neighbours", 4, False)])
def test_each_token_is_the_mean_of_values_by_scores_of_rotated_rows(witness, pairing, rotary_dim, normed):
    values, d, base, eps = given(), 6, 20.0, 0.1
    norms = {"q_norm": np.linspace(0.5, 2, d), "k_norm": np.linspace(2, -1, d)} if normed else {}
    found = witness(**values, **norms, base=base, rotary_dim=rotary_dim, eps=eps, pairing=pairing)
    x, width = values["x"], rotary_dim or d
    for item in range(2):
        rows = {name: x[item] @ values[f"w{name}"] + values[f"b{name}"] for name in "qkv"}

        def row(name, head, t, rows=rows):
            own = rows[name][t, head * d : (head + 1) * d]
            if normed:
                own = own / np.sqrt((own**2).mean() + eps) * norms[f"{name}_norm"]
            return turned(own, t, width, base, pairing)

        for t in range(5):
            joined = []
            for head in range(4):
                scores = [row("q", head, t) @ row("k", head // 2, s) / np.sqrt(d) for s in range(t + 1)]
                weights = np.exp(scores) / np.exp(scores).sum()
                joined += [*(weights @ rows["v"][: t + 1, head // 2 * d : (head // 2 + 1) * d])]
            expected = np.array(joined) @ values["wo"] + values["bo"]
            np.testing.assert_allclose(found[item, t], expected, rtol=1e-10)


@pytest.mark.parametrize(
    "change", [{"kv_heads": 3}, {"rotary_dim": 3}, {"rotary_dim": 8}, {"heads": 5, "kv_heads": None}, {"base": 0.0}]
)
def test_what_does_not_fit_is_refused(change):
    values = {**given(), **change}
    for witness in (defined, reference.rotary_self_attention):
        with pytest.raises(Exception):  # noqa: B017, PT011 - of either kind
            witness(**values)


ATTENTION = """
import torch
from torch import nn
from torch.nn import functional as F


def half_turned(x):
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


class Norm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class GroupedAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_groups, rope_base=10000.0):
        super().__init__()
        self.heads, self.groups, self.base = num_heads, num_kv_groups, rope_base
        self.d = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_key = nn.Linear(d_in, num_kv_groups * self.d, bias=False)
        self.W_value = nn.Linear(d_in, num_kv_groups * self.d, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def rotated(self, x):
        n, d = x.shape[-2:]
        angle = torch.outer(torch.arange(n).float(), self.base ** (-torch.arange(0, d, 2).float() / d))
        angle = torch.cat([angle, angle], -1)
        return x * angle.cos() + half_turned(x) * angle.sin()

    def prepared(self, q, k):
        return self.rotated(q), self.rotated(k)

    def forward(self, x):
        b, n, _ = x.shape
        maps = (self.W_query, self.W_key, self.W_value)
        q, k, v = (w(x).view(b, n, -1, self.d).transpose(1, 2) for w in maps)
        q, k = self.prepared(q, k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).reshape(b, n, -1))


class HalfRotatedAttention(GroupedAttention):
    def prepared(self, q, k):
        return self.rotated(q), k


class NormedAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.d, self.theta = config.head_dim, config.rope_theta
        heads, groups = config.num_attention_heads, config.num_key_value_heads
        self.q_proj = nn.Linear(config.hidden_size, heads * self.d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, groups * self.d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, groups * self.d, bias=False)
        self.o_proj = nn.Linear(heads * self.d, config.hidden_size, bias=False)
        self.q_norm, self.k_norm = Norm(self.d, config.rms_norm_eps), Norm(self.d, config.rms_norm_eps)

    def prepared(self, q, k):
        return self.rotated(self.q_norm(q)), self.rotated(self.k_norm(k))

    def rotated(self, x):
        n, d = x.shape[-2:]
        angle = torch.outer(torch.arange(n).float(), self.theta ** (-torch.arange(0, d, 2).float() / d))
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(z).flatten(-2)

    def forward(self, x):
        b, n, _ = x.shape
        maps = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (w(x).view(b, n, -1, self.d).transpose(1, 2) for w in maps)
        q, k = self.prepared(q, k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, n, -1))


class LateNormedAttention(NormedAttention):
    def prepared(self, q, k):
        return self.q_norm(self.rotated(q)), self.k_norm(self.rotated(k))


class EncodingAttention(GroupedAttention):
    def forward(self, x):
        b, n, _ = x.shape
        maps = (self.W_query, self.W_key, self.W_value)
        q, k, v = (w(x).view(b, n, -1, self.d).transpose(1, 2) for w in maps)
        y = F.scaled_dot_product_attention(*self.prepared(q, k), v, enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).reshape(b, n, -1))


class TabledAttention(GroupedAttention):
    def forward(self, x, cos, sin):
        self.cos, self.sin = cos, sin
        return super().forward(x)

    def rotated(self, x):
        return x * self.cos + half_turned(x) * self.sin
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    Path("model.py").write_text(ATTENTION)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("GroupedAttention", 'requires="width == dim"'),
        ("NormedAttention", 'requires=("not single(q_norm)", "not single(k_norm)")'),
        ("TabledAttention", "cos=twice(x, heads, base).cos()"),
        ("EncodingAttention", 'fixed={"causal": False}'),
    ],
)
def test_a_class_with_rotary_positions_is_read_by_its_weights(model, name, part):
    result = CliRunner().invoke(main, ["check", f"model.py:{name}", "--law", "rotary_self_attention.definition"])
    assert (0, "") == (result.exit_code, result.stderr)
    assert "  rotary_self_attention  1/1" in result.stdout
    (declared,) = Path("attnspec-report/classes").glob("*.py")
    assert part in declared.read_text()


@pytest.mark.parametrize(
    ("name", "mistake"),
    [("HalfRotatedAttention", "keys_not_rotated"), ("LateNormedAttention", "normed_after_rotation")],
)
def test_a_mistake_of_a_class_is_named(model, name, mistake):
    result = CliRunner().invoke(main, ["check", f"model.py:{name}", "--law", "rotary_self_attention.definition"])
    assert 1 == result.exit_code, result.output
    assert f"rotary_self_attention.{mistake}" in result.stdout
