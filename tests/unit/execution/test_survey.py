"""A class is built from the names of what it wants."""

import pytest

from attnspec.errors import TargetError
from attnspec.execution.survey import surveyed

ROLES = (("heads", "heads", 6), ("width", "dim", 60), ("head_dim", "dim // heads", 10), ("length", "q_len", 64))
FILE = """
from dataclasses import dataclass
from torch import nn

class Plain(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout, head_dim=None, bias=False):
        super().__init__()
        self.q = nn.Linear(embed_dim, num_heads * 10, bias=bias)
    def forward(self, x, mask=None): ...

@dataclass
class GPTConfig:
    vocab_size: int = 10
    n_embd: int = 768

class Configured(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.scale = nn.Parameter(__import__("torch").zeros(config.n_embd))

class Asking(nn.Module):
    def __init__(self, args: object):
        super().__init__()
        self.q = nn.Linear(args.hidden_size, args.strange)

class Wanting(nn.Module):
    def __init__(self, dim, rank, groups):
        super().__init__()

class Failing(nn.Module):
    def __init__(self, dim):
        raise ValueError("no")

class Other:
    pass
"""


@pytest.fixture(name="path")
def _path(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_class_is_built_with_what_its_parameters_are_called(path):
    found = surveyed(path, "Plain", ROLES)
    assert "mine.Plain(embed_dim=dim, num_heads=heads, dropout=0.1)" == found.built
    assert [("q.weight", (60, 60), "Linear")] == [(one.path, one.shape, one.holder) for one in found.weights]
    assert (("width", "heads"), (("x", True), ("mask", False))) == (found.uses, found.takes)


def test_a_configuration_is_made_of_its_fields(path):
    found = surveyed(path, "Configured", ROLES)
    assert "mine.Configured(config=mine.GPTConfig(n_embd=dim))" == found.built
    assert ((60,), "Configured") == (found.weights[0].shape, found.weights[0].holder)


def test_a_configuration_of_no_class_has_what_is_asked_of_it(path):
    path.write_text(FILE.replace("@dataclass", "").replace("args.strange", "args.n_heads"))
    found = surveyed(path, "Asking", ROLES)
    assert "mine.Asking(args=SimpleNamespace(hidden_size=dim, n_heads=heads))" == found.built


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Wanting", "Wanting cannot be built: nothing is known of 'rank', 'groups'; write a factory that gives"),
        ("Failing", "mine.Failing(dim=60) cannot be built: ValueError: no"),
        ("Other", "Other is not a module of torch, Flax or Keras"),
    ],
)
def test_a_class_that_cannot_be_built_is_told(path, name, says):
    with pytest.raises(TargetError) as error:
        surveyed(path, name, ROLES)
    assert str(error.value).startswith(says)


def test_an_attribute_that_nothing_is_known_of_is_told(path):
    path.write_text(FILE.replace("@dataclass", ""))
    with pytest.raises(TargetError, match=r"^Asking cannot be built: nothing is known of 'args.strange'; "):
        surveyed(path, "Asking", ROLES)


NNX = """
from flax import nnx

class Mine(nnx.Module):
    def __init__(self, dim, *, rngs):
        self.proj = nnx.Linear(dim, 2 * dim, rngs=rngs)
    def __call__(self, x, mask=None): return self.proj(x)
"""
LINEN = """
from flax import linen as nn

class Mine(nn.Module):
    dim: int
    @nn.compact
    def __call__(self, x, mask=None): return nn.Dense(2 * self.dim, name="proj")(x)
"""
KERAS = """
import keras

class Mine(keras.layers.Layer):
    def __init__(self, dim):
        super().__init__()
        self.proj = keras.layers.Dense(2 * dim)
    def call(self, x, mask=None): return self.proj(x)
"""


@pytest.mark.parametrize(
    ("package", "text", "built"),
    [
        ("flax", NNX, "mine.Mine(dim=dim, rngs=nnx.Rngs(0))"),
        ("flax", LINEN, "mine.Mine(dim=dim)"),
        ("keras", KERAS, "mine.Mine(dim=dim)"),
    ],
)
def test_a_module_of_another_framework_is_called_to_see_its_parameters(path, package, text, built, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    pytest.importorskip(package)
    path.write_text(text)
    found = surveyed(path, "Mine", ROLES)
    assert ("numpy", built) == (found.framework, found.built)
    assert {"proj.kernel": (60, 120), "proj.bias": (120,)} == {one.path: one.shape for one in found.weights}
    assert (("x", True), ("mask", False)) == found.takes


def test_a_module_that_cannot_be_called_is_told(path):
    pytest.importorskip("flax")
    path.write_text(LINEN.replace("return nn", "raise ValueError('no'); nn"))
    with pytest.raises(TargetError, match=r"^Mine cannot be called with 1 arrays \[1, 4, 60\]: ValueError: no"):
        surveyed(path, "Mine", ROLES)
