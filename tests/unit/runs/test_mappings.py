"""How a mapping of the weights of a class fares on cases, and whether the class computes its operator at all."""

from pathlib import Path

import numpy as np
import pytest

from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.runs.groups import library_of, supervisor_of
from attnspec.runs.mappings import Class, Score, _near, head, recognised, scored
from attnspec.runs.options import Options
from attnspec.subjects.candidate import Candidate
from attnspec.subjects.proposals import candidates

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(dim, hidden_dim, bias=False) for _ in range(2))
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)

    def forward(self, x):
        return self.w2(self.gate(self.w1(x)) * self.w3(x))

    def gate(self, x):
        return F.silu(x)


class RectifiedFeedForward(FeedForward):
    def gate(self, x):
        return x * (x > 0)


class CubicFeedForward(FeedForward):
    def gate(self, x):
        return x**3


class DroppingFeedForward(FeedForward):
    def gate(self, x):
        return F.dropout(F.elu(x), 0.1)


class ShortFeedForward(FeedForward):
    def forward(self, x):
        return super().forward(x) * (1 if x.shape[-1] > 1 else 2)
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_model.py").write_text(MODEL)
    options = Options()

    def kind(name):
        return Class(Path("my_model.py"), name, "swiglu", supervisor_of(options), library_of(options))

    return kind


def fared(kind):
    found = candidates(kind.operator, kind.survey())
    return scored(kind, found)


def test_a_right_mapping_is_right_in_all_cases_that_are_tried(made):
    (score,) = fared(made("FeedForward"))
    assert (8, 8, True, 1.0) == (score.held, score.tried, score.holds, score.share)


def test_one_that_is_wrong_is_not_tried_to_the_end(made):
    (score,) = fared(made("CubicFeedForward"))
    assert (2, False) == (score.tried - score.held, score.holds)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("RectifiedFeedForward", True),
        ("ShortFeedForward", True),
        ("DroppingFeedForward", True),
        ("CubicFeedForward", False),
    ],
)
def test_a_class_is_recognised_by_a_known_mistake_by_cases_that_are_right_or_by_calls_that_differ(made, name, known):
    kind = made(name)
    scores = fared(kind)
    assert known == recognised(kind, scores[0], scores)[1]


def test_outputs_are_near_those_of_the_mistake_that_they_are_of():
    mechanism = library()["softmax"]
    values = {**mechanism.defaults, **mechanism.words, "x": np.array([[1.0, 2.0, 4.0]])}
    mistake = mechanism.mistakes["base_two"]
    y = np.asarray(Frame(mechanism, values, changes=mistake.change).outputs()["p"])
    assert _near(y.astype(np.float32), mechanism, values, mistake.change, "p")
    assert not _near(y[:, :2], mechanism, values, mistake.change, "p")
    assert not _near(y + 0.1, mechanism, values, mistake.change, "p")


def test_what_was_not_tried_does_not_hold():
    score = Score(Candidate("", "swiglu", {}), {}, 0, 0)
    assert (False, 0.0) == (score.holds, score.share)


def test_a_file_of_declarations_imports_what_they_use():
    text = "call=lambda module, x, *, heads, base: module(x, turns(x, heads, base)), nnx.Rngs(0)"
    found = head("import model", [text])
    assert found.startswith("import model\nimport torch\nfrom flax import nnx\n\nimport attnspec\n\ndef angles(")
    assert "import model\n\nimport attnspec" == head("import model", ["1"])
