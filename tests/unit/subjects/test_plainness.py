"""A class is plain attention if its name says no more, and its source speaks of nothing else."""

from pathlib import Path

import pytest

from attnspec.subjects.plainness import is_plain

SOURCE = '''
import math
from torch import nn


class Base(nn.Module):
    def __init__(self, dim, heads):
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)


class CausalSelfAttention(Base):
    """Without rotary positions."""

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.proj((q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v)


class RotatedBase(Base):
    def rotate_half(self, x):
        return x


class SelfAttention(RotatedBase):
    def forward(self, x):
        return x


class Attention(Base):
    def forward(self, x, cos, sin):
        return x * cos


class SingleHead(Base):
    def forward(self, x):
        single = x.sum()
        return single


class SlidingAttention(Base):
    def forward(self, x):
        return x


class MultiHeadAttention(Base):
    def forward(self, x, relative_bias):
        return x + relative_bias
'''


@pytest.fixture
def path(tmp_path):
    file = Path(tmp_path, "model.py")
    file.write_text(SOURCE)
    return file


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("CausalSelfAttention", True),
        ("SelfAttention", False),  # its base rotates
        ("Attention", False),
        ("SingleHead", False),  # of one head, or a single one: neither is a word of attention
        ("SlidingAttention", False),
        ("MultiHeadAttention", False),
    ],
)
def test_plain_attention_is_told_by_its_words(path, name, plain):
    assert plain == is_plain(path, name, "multi_head")


def test_a_file_that_is_no_python_says_nothing(tmp_path):
    file = Path(tmp_path, "model.py")
    file.write_text("class Attention(:")
    assert not is_plain(file, "Attention", "multi_head")
    assert not is_plain(Path(tmp_path, "none.py"), "Attention", "multi_head")


LAYERS = """
class MLP:
    def forward(self, x):
        return self.c_proj(self.dropout(F.gelu(self.c_fc(x))))


class NormedMLP(MLP):
    def forward(self, x):
        return super().forward(self.norm(x))


class ExpertMLP(MLP):
    pass
"""


@pytest.mark.parametrize(("name", "plain"), [("MLP", True), ("NormedMLP", False), ("ExpertMLP", False)])
def test_a_plain_feed_forward_is_told_by_its_words(tmp_path, name, plain):
    file = Path(tmp_path, "model.py")
    file.write_text(LAYERS)
    assert plain == is_plain(file, name, "feed_forward")
    assert not is_plain(file, name, "swiglu")
