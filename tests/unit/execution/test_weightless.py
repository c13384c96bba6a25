"""A class of modules without weights is a function: that of its forward pass, made as its file says."""

import sys

import pytest
import torch

import attnspec
from attnspec.execution.weightless import arguments, asked, call_of, forward_of, is_weightless

KERNEL = """
import torch


class Model(torch.nn.Module):
    def forward(self, Q, K, V):
        return {result}


class Weighty(torch.nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.proj = torch.nn.Linear(dim, dim)

    def forward(self, q, k, v):
        return self.proj(q)
"""
RIGHT = "torch.nn.functional.scaled_dot_product_attention(Q, K, V)"


class Plain(torch.nn.Module):
    def forward(self, x):
        return 2 * x


class Sized(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()


def test_a_class_without_weights_is_made_without_arguments():
    assert [True, False, False, False] == [*map(is_weightless, (Plain, Sized, torch.nn.LayerNorm, dict))]
    assert 4 == forward_of(Plain)(2)


def test_a_class_is_made_with_what_its_file_tells(monkeypatch):
    module = sys.modules[__name__]
    assert [["dim"], []] == [asked(Sized), asked(Plain)]
    for told, given, text in (
        ([3], ([3], {}), "(*module.get_init_inputs())"),
        (([], {"dim": 3}), ([], {"dim": 3}), "(*module.get_init_inputs()[0], **module.get_init_inputs()[1])"),
    ):
        monkeypatch.setattr(module, "get_init_inputs", lambda told=told: told, raising=False)
        assert (True, given, text) == (is_weightless(Sized), arguments(Sized), call_of(Sized))
        assert (True, ([], {}), "()") == (is_weightless(Plain), arguments(Plain), call_of(Plain))


@pytest.mark.parametrize(("result", "verdict"), [(RIGHT, "conformant"), (f"2 * {RIGHT}", "violated")])
def test_it_is_checked_as_a_function(tmp_path, result, verdict):
    (tmp_path / "kernel.py").write_text(KERNEL.replace("{result}", result))
    laws = ("attention.definition", "attention.linear")
    report = attnspec.check(f"{tmp_path / 'kernel.py'}:Model", dtypes="float32", laws=laws, explain_time=0)
    assert {"Model": verdict} == report.verdicts, report


def test_a_class_with_weights_is_refused_with_what_fills_it(tmp_path):
    (tmp_path / "kernel.py").write_text(KERNEL.replace("{result}", RIGHT))
    with pytest.raises(attnspec.TargetError, match="Weighty is a class; 'attnspec init"):
        attnspec.check(f"{tmp_path / 'kernel.py'}:Weighty")
