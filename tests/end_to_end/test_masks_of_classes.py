"""Classes of attention are passed their masks, in the form that they take; one that reads a mask wrong is refuted."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main

MODEL = """
import math
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, attention_mask=None):
        return self.attended(x, 0 if attention_mask is None else self.added(x, attention_mask))

    def added(self, x, mask):
        return (1.0 - mask[:, None, None, :].float()) * torch.finfo(x.dtype).min

    def attended(self, x, added):
        b, n, d = x.shape
        maps = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (w(x).view(b, n, self.heads, -1).transpose(1, 2) for w in maps)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads) + added).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).reshape(b, n, d))


class AddedAttention(Attention):
    def added(self, x, mask):
        return mask


class PaddedAttention(Attention):
    def forward(self, x, key_padding_mask=None):
        hidden = key_padding_mask
        filled = 0 if hidden is None else torch.zeros(hidden.shape).masked_fill(hidden, -1e9)[:, None, None]
        return self.attended(x, filled)


class CausalAttention(Attention):
    def forward(self, x, mask=None):
        later = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
        padded = 0 if mask is None else torch.zeros(mask.shape).masked_fill(~mask, -1e9)[:, None, None]
        return self.attended(x, later + padded)


class FlippedAttention(Attention):
    def added(self, x, mask):
        return mask[:, None, None, :] * -10000.0


class IgnoringAttention(Attention):
    def added(self, x, mask):
        return 0


class QueryAttention(Attention):
    def added(self, x, mask):
        return (1.0 - mask[:, None, :, None].float()) * torch.finfo(x.dtype).min
"""


@pytest.fixture
def checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_model.py").write_text(MODEL)

    def check(name):
        asked = ["check", f"my_model.py:{name}", "--dtype", "float32", "--profile", "smoke"]
        return CliRunner().invoke(main, asked)

    return check


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Attention", "attention_mask is [batch, k_len], one for keys that are seen"),
        ("AddedAttention", "attention_mask is added to the scores"),
        ("PaddedAttention", "key_padding_mask is [batch, k_len], true for keys that are hidden"),
        ("CausalAttention", "mask is [batch, k_len], true for keys that are seen"),
    ],
)
def test_a_mask_is_passed_in_the_form_that_the_class_takes(checked, name, says):
    result = checked(name)
    assert 0 == result.exit_code, result.output
    assert says in result.output


@pytest.mark.parametrize(
    ("name", "mistake"),
    [("FlippedAttention", ""), ("IgnoringAttention", "mask_ignored"), ("QueryAttention", "mask_on_queries")],
)
def test_a_class_that_reads_its_mask_wrong_is_refuted(checked, name, mistake):
    result = checked(name)
    assert 1 == result.exit_code, result.output
    assert f"Like      multi_head.{mistake}" in result.output or not mistake
