"""Feed-forwards with biases and any function: exact digits, faults as people make them, classes as they write them."""

from pathlib import Path

import mpmath
import numpy as np
import pytest
from click.testing import CliRunner
from torch.nn import functional

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.cli import main
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject


def exact(z, activation):
    if activation == "relu":
        return max(z, mpmath.mpf(0))
    if activation == "relu_squared":
        return max(z, mpmath.mpf(0)) ** 2
    if activation == "gelu":
        return z * mpmath.ncdf(z)
    if activation == "gelu_tanh":
        return z * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf(0.044715) * z**3))) / 2
    return z / (1 + mpmath.exp(-z * (mpmath.mpf(1.702) if activation == "quick_gelu" else 1)))


def exactly(x, w_up, w_down, b_up, b_down, w_gate=None, b_gate=None, activation="gelu"):
    with mpmath.workdps(60):
        matrix = {name: mpmath.matrix(value.tolist()) for name, value in (("x", x), ("up", w_up), ("down", w_down))}
        up = matrix["x"] * matrix["up"]
        gate = up if w_gate is None else matrix["x"] * mpmath.matrix(w_gate.tolist())
        inner = mpmath.matrix(up.rows, up.cols)
        for i, j in np.ndindex(up.rows, up.cols):
            own = up[i, j] + mpmath.mpf(b_up[j])
            opened = exact(own if w_gate is None else gate[i, j] + mpmath.mpf(b_gate[j]), activation)
            inner[i, j] = opened if w_gate is None else opened * own
        out = inner * matrix["down"]
        return np.array([[out[i, j] + mpmath.mpf(b_down[j]) for j in range(out.cols)] for i in range(out.rows)], float)


def given(gated, size=1.0):
    draw = np.random.default_rng(4)
    shapes = {"x": (3, 4), "w_up": (4, 7), "w_down": (7, 4), "b_up": (7,), "b_down": (4,)}
    shapes |= {"w_gate": (4, 7), "b_gate": (7,)} if gated else {}
    found = {name: draw.normal(size=shape) for name, shape in shapes.items()}
    return {**found, "x": size * found["x"]}


def defined(**values):
    mechanism = library()["feed_forward"]
    frame = Frame(mechanism, {**mechanism.defaults, **values})
    frame.check_domain()
    return frame.outputs()["out"]


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "quick_gelu", "relu", "relu_squared", "silu"])
@pytest.mark.parametrize(("gated", "size"), [(False, 1.0), (True, 1.0), (False, 50.0)])
@pytest.mark.parametrize("witness", [defined, reference.feed_forward])
def test_both_witnesses_have_the_digits_of_the_formula(witness, activation, gated, size):
    values = given(gated, size)
    expected = exactly(**values, activation=activation)
    np.testing.assert_allclose(witness(**values, activation=activation), expected, 1e-11, 1e-12 * size)


@pytest.mark.parametrize("change", [{"w_down": np.ones((6, 4))}, {"b_gate": np.ones(7)}, {"x": np.ones((3, 5))}])
@pytest.mark.parametrize("witness", [defined, reference.feed_forward])
def test_what_does_not_fit_is_refused(witness, change):
    with pytest.raises(Exception):  # noqa: B017, PT011 - of either kind
        witness(**{**given(gated=False), **change})


# Faults of functions


def failures(function, **claimed):
    one = subject(Adapter("function", "feed_forward", function, "torch", dtypes=("float32",), **claimed))
    cells = run(Request(one, library()["feed_forward"], "float32", PROFILES["quick"])).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


def layer(x, w_up, w_down, b_up=None, b_down=None):
    return functional.linear(functional.gelu(functional.linear(x, w_up.mT, b_up)), w_down.mT, b_down)


def bias_behind_the_function(x, w_up, w_down, b_up=None, b_down=None):
    return functional.linear(functional.gelu(x @ w_up) + (0 if b_up is None else b_up), w_down.mT, b_down)


def bias_of_each_half(x, w_up, w_down, b_up=None, b_down=None):
    half = -(-w_up.shape[-1] // 2)
    first = layer(x, w_up[:, :half], w_down[:half], None if b_up is None else b_up[:half], b_down)
    return first + layer(x, w_up[:, half:], w_down[half:], None if b_up is None else b_up[half:], b_down)


def tangent(x, w_up, w_down, b_up=None, b_down=None):
    inner = functional.gelu(functional.linear(x, w_up.mT, b_up), approximate="tanh")
    return functional.linear(inner, w_down.mT, b_down)


def bias_of_tokens(x, w_up, w_down, b_up=None, b_down=None):
    out = layer(x, w_up, w_down, b_up)
    return out if b_down is None else out + (b_down[:, None] if x.shape[-2] == len(b_down) > 1 else b_down)


@pytest.mark.parametrize("function", [bias_behind_the_function, bias_of_each_half, tangent, bias_of_tokens])
def test_faults_are_refuted(function):
    assert failures(function, fixed={"activation": "gelu"})


def test_what_is_right_is_not_accused():
    assert [] == failures(layer, fixed={"activation": "gelu"})


# Classes

MODEL = """
import math
import torch
from torch import nn
from torch.nn import functional as F


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def opened(self, z):
        return 0.5 * z * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (z + 0.044715 * torch.pow(z, 3.0))))

    def forward(self, x):
        return self.dropout(self.c_proj(self.opened(self.c_fc(x))))


class DroppingMLP(MLP):
    def opened(self, z):
        return F.dropout(F.gelu(z), 0.1)


class LateMLP(MLP):
    def forward(self, x):
        return F.linear(self.opened(self.c_fc(x)), self.c_proj.weight)


class GEGLU(nn.Module):
    def __init__(self, dim, mult=4):
        super().__init__()
        self.proj, self.out = nn.Linear(dim, dim * mult * 2), nn.Linear(dim * mult, dim)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return self.out(x * self.opened(gate))

    def opened(self, gate):
        return F.gelu(gate)


class RectifiedGEGLU(GEGLU):
    def opened(self, gate):
        return F.relu(gate)


class Mixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.zeros(4 * dim, dim)), nn.Parameter(torch.zeros(dim, 4 * dim))

    def forward(self, x):
        return F.linear(F.relu(F.linear(x, self.w1)) ** 2, self.w2)


class Mlp(nn.Module):
    def __init__(self, in_features, hidden_features=None, act_layer=nn.GELU, drop=0.0):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(in_features, hidden_features), nn.Linear(hidden_features, in_features)
        self.act, self.drop = act_layer(), nn.Dropout(drop)

    def forward(self, x):
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))
"""


@pytest.fixture
def checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_model.py").write_text(MODEL)

    def check(name, *more):
        asked = ["check", f"my_model.py:{name}", "--dtype", "float32", "--profile", "smoke", *more]
        return CliRunner().invoke(main, asked)

    return check


@pytest.mark.parametrize(
    ("name", "more", "function", "weights"),
    [
        ("MLP", (), "gelu_tanh", ('"b_up": "c_fc.bias"', 'requires="hidden == 4 * dim"')),
        ("GEGLU", (), "gelu", ('"w_gate": "proj.weight[1/2].T"', '"not single(w_gate)", "hidden == 4 * dim"')),
        ("Mixer", ("--operator", "feed_forward"), "relu_squared", ('"w_up": "w1.T"',)),
        ("Mlp", (), "gelu", ("lambda *, dim, hidden:", '"b_down": "fc2.bias"')),
    ],
)
def test_classes_as_people_write_them_conform(checked, name, more, function, weights):
    result = checked(name, *more)
    assert 0 == result.exit_code, result.output
    (kept,) = Path("attnspec-report/classes").glob("*.py")
    text = kept.read_text()
    assert f'"activation": "{function}"' in text
    assert all(weight in text for weight in weights), text


@pytest.mark.parametrize("name", ["DroppingMLP", "LateMLP", "RectifiedGEGLU"])
def test_classes_that_are_wrong_are_refuted(checked, name):
    result = checked(name)
    assert 1 == result.exit_code, result.output
    assert "feed_forward." in result.output
