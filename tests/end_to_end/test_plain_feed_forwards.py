"""Plain functions that are feed-forwards: with and without biases and gates, and with the function of their units."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main

KERNELS = """
import torch
from torch.nn import functional as F


def mlp(x, w1, b1, w2, b2):
    return F.gelu(x @ w1 + b1) @ w2 + b2


def fused_mlp(x, fc1_weight, fc2_weight, fc1_bias=None, fc2_bias=None):
    hidden = F.gelu(F.linear(x, fc1_weight, fc1_bias), approximate="tanh")
    return F.linear(hidden, fc2_weight, fc2_bias)


def relu_ffn(x, w1, w2):
    return torch.relu(x @ w1) @ w2


def gated_mlp(x, w_gate, w_up, w_down):
    return (F.gelu(x @ w_gate) * (x @ w_up)) @ w_down


def late_mlp(x, w1, b1, w2, b2):
    return (F.gelu(x @ w1) + b1) @ w2 + b2


def squared_mlp(x, w_up, w_down, b_up=None, b_down=None):
    hidden = torch.relu(x @ w_up if b_up is None else x @ w_up + b_up).square() @ w_down
    return hidden if b_down is None else hidden + 2 * b_down
"""


@pytest.fixture
def checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernels.py").write_text(KERNELS)

    def check(name):
        return CliRunner().invoke(main, ["check", f"kernels.py:{name}", "--dtype", "float32"])

    return check


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mlp", ""),
        ("fused_mlp", "activation = gelu_tanh, "),
        ("relu_ffn", "activation = relu, "),
        ("gated_mlp", ""),
    ],
)
def test_what_is_right_conforms_by_the_function_of_its_units(checked, name, says):
    result = checked(name)
    assert 0 == result.exit_code, result.output
    assert says in result.output
    assert says or "activation =" not in result.output  # GELU, as by default


def test_what_is_wrong_is_refuted_and_named(checked):
    for name, told in {"late_mlp": "first_bias_behind_function", "squared_mlp": "last_bias"}.items():
        result = checked(name)
        assert 1 == result.exit_code, result.output
        assert f"feed_forward.{told}" in result.output
