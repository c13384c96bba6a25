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
    assert "mine.Plain(embed_dim=dim, num_heads=heads, dropout=0.0)" == found.built
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
        ("Other", "Other is no torch.nn.Module, and a mapping is proposed for these alone; for Flax and Keras"),
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
