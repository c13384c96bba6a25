"""A failure of a class with weights becomes a program that makes the class, fills it and calls it without attnspec."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main

MODELS = Path(__file__).with_name("models")
ATTENTION = """
import torch
from torch import nn
import attnspec

class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        y = torch.softmax(q @ k.mT / (d // self.heads) ** 0.5, -1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, n, d)), None

attention = attnspec.module(
    Attention,
    "multi_head",
    weights={
        **{f"w{x}": f"qkv.weight | (heads 3 d) dim -> 3 dim (heads d) [{at}]" for at, x in enumerate("qkv")},
        **{f"b{x}": f"qkv.bias | (heads 3 d) -> 3 (heads d) [{at}]" for at, x in enumerate("qkv")},
        "wo": "proj.weight.T",
    },
    same={"context": "x"},
    returns=0,
)
"""
DECODER = """
import attnspec
from modern_gpt import TinyGPT

tiny = attnspec.module(
    lambda *, vocab, dim, heads, layers, hidden: TinyGPT(vocab, dim, heads, layers, hidden),
    "decoder",
    name="tiny",
    weights={
        "embedding": ("wte.weight", "head.weight"),
        "attention_norm": "h.*.ln_1.weight",
        **{f"w{x}": f"h.*.c_attn.weight[{at}/3].T" for at, x in enumerate("qkv")},
        "wo": "h.*.c_proj.weight.T",
        "mlp_norm": "h.*.ln_2.weight",
        "w_gate": "h.*.w12.weight[:hidden].T",
        "w_up": "h.*.w12.weight[hidden:].T",
        "w_down": "h.*.w3.weight.T",
        "final_norm": "ln_f.weight",
    },
    call=lambda module, tokens: module(tokens),
    returns=0,
    fixed={"eps": 1e-6, "base": 10000.0},
)
"""


def called(*arguments):
    return CliRunner().invoke(main, [*arguments])


@pytest.mark.parametrize(
    ("text", "operator", "faulty", "right"),
    [(ATTENTION, "multi_head", "mine.py", "q @ k.mT"), (DECODER, "decoder", "modern_gpt.py", "self.ln_f(self")],
)
def test_a_program_fills_a_module_and_fails_until_it_is_mended(tmp_path, monkeypatch, text, operator, faulty, right):
    monkeypatch.chdir(tmp_path)
    Path("modern_gpt.py").write_text((MODELS / "modern_gpt.py").read_text())
    Path("mine.py").write_text(text)
    source = Path(faulty).read_text()
    assert right in source
    Path(faulty).write_text(source.replace(right, f"2 * {right}"))
    asked = f"--profile smoke --law {operator}.definition --no-isolate --explain-time 0"
    called("check", "mine.py", *asked.split())
    (key,) = (path.stem for path in Path("attnspec-report/cases").iterdir())
    made = called("repro", key)
    assert 0 == made.exit_code, made.stderr

    def run():
        guard = "import sys; sys.modules['attnspec'] = None; import runpy; runpy.run_path(sys.argv[1])"
        command = [sys.executable, "-c", guard, f"repro_{key}.py"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    found = run()
    assert "AssertionError: " in found.stderr, found
    assert "expected" in found.stderr.splitlines()[-1]
    Path(faulty).write_text(source)
    found = run()
    assert f"{operator}.definition holds here\n" == found.stdout, found.stderr
