"""Classes with weights of their own, as subjects: one right, others wrong by one line, and mappings that do not fit."""

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import attnspec
from attnspec import adapters
from attnspec.adapters import registered
from attnspec.cli import main

WEIGHTS = {
    "wq": "c_attn.weight[0/3].T",
    "wk": "c_attn.weight[1/3].T",
    "wv": "c_attn.weight[2/3].T",
    "bq": "c_attn.bias[0/3]",
    "bk": "c_attn.bias[1/3]",
    "bv": "c_attn.bias[2/3]",
    "wo": "c_proj.weight.T",
    "bo": "c_proj.bias",
}


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(adapters, "_registered", list(registered()))


class Attention(nn.Module):
    """Causal self-attention, wrong by one line if that is asked for."""

    def __init__(self, dim, heads, fault=""):
        super().__init__()
        self.heads, self.fault = heads, fault
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        width = dim // self.heads
        q, k, v = self.c_attn(x).split(dim, dim=2)
        if self.fault == "dropped_bias":
            v = v - self.c_attn.bias[2 * dim :]
        if self.fault == "split_order":
            q, k, v = (t.view(batch, length, width, self.heads).permute(0, 3, 1, 2) for t in (q, k, v))
        else:
            q, k, v = (t.view(batch, length, self.heads, width).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / (1 if self.fault == "no_scale" else width**0.5)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(2 if self.fault == "mask_off_by_one" else 1)
        y = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        y = y if self.fault == "merge_order" else y.transpose(1, 2)
        return self.c_proj(y.reshape(batch, length, dim))


def checked(fault):
    """What a check of the definition says, on the fewest cases."""
    made = attnspec.module(
        lambda *, dim, heads: Attention(dim, heads, fault),
        "multi_head",
        name="mine",
        weights=WEIGHTS,
        same={"context": "x"},
        fixed={"causal": True},
        dtypes=("float32", "bfloat16"),
        grade={"bfloat16": "bf16_naive"},
    )
    return attnspec.check(made, laws=["multi_head.definition"], profile="smoke", explain_time=0)


def test_a_class_that_is_right_is_conformant_in_both_dtypes():
    report = checked("")
    assert ({"mine": "conformant"}, {"pass"}) == (report.verdicts, {cell["verdict"] for cell in report.cells})
    assert ["float32", "bfloat16"] == [cell["dtype"] for cell in report.cells]


@pytest.mark.parametrize("fault", ["dropped_bias", "split_order", "no_scale", "mask_off_by_one", "merge_order"])
def test_a_class_that_is_wrong_by_one_line_is_refuted(fault):
    report = checked(fault)
    assert ({"mine": "violated"}, {"fail"}) == (report.verdicts, {cell["verdict"] for cell in report.cells})


def test_a_module_declares_itself():
    made = attnspec.module(Attention, "multi_head", weights=WEIGHTS, same={"context": "x"}, fixed={"causal": True})
    with pytest.raises(attnspec.UsageError, match=r"^Attention declares itself: say the rest in attnspec.module"):
        attnspec.check(made, operator="multi_head")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            "weights=W | {'wq': 'q_porj.weight.T'}, same=S",
            "wq: the module has no parameter 'q_porj.weight'; did you mean 'q_proj.weight'? (it has: q_proj.weight,",
        ),
        (
            "weights={**W, 'wq': 'q_proj.weight[0/3].T'}, same=S",
            "'q_proj.weight[0/3].T': section 0/3 of an axis of 8",
        ),
        ("weights={n: t for n, t in W.items() if n != 'bo'}, same=S", "no weight fills 'o_proj.bias' [8]; name it in"),
        ("weights=W", "'context' of multi_head is in neither weights= nor inputs=; if the module takes the same array"),
        (
            "weights={('w_q' if n == 'wq' else n): t for n, t in W.items()}, same=S",
            "'wq' of multi_head is in neither weights= nor inputs=; multi_head has no 'w_q'; did you mean 'wq'?",
        ),
        ("weights=W, same={'content': 'x'}", "same takes inputs, not 'content'; did you mean 'context'?"),
        (
            "weights=W | {'wq': 'q_proj.weight['}, same=S",
            "'q_proj.weight[' cannot be parsed from '[' on; expected a path",
        ),
        (
            "weights=W, same=S, dtype=('float32',)",
            "a declaration has no 'dtype'; did you mean 'dtypes'?",
        ),
    ],
)
def test_a_mapping_that_does_not_fit_is_told_before_anything_is_judged(tmp_path, changed, says):
    path = tmp_path / "mine.py"
    path.write_text(MODEL + f"attnspec.module(Attention, 'multi_head', fixed={{'causal': True}}, {changed})\n")
    result = CliRunner().invoke(main, ["check", str(path), "--report-dir", str(tmp_path)])
    assert result.exit_code in (4, 6)
    assert says in result.stderr
    assert f"mine.py:{len(path.read_text().splitlines())}: " in result.stderr


def test_a_size_that_no_shape_fixes_is_told(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MODEL + "attnspec.module(lambda *, head_dim: Attention(1, 1), 'multi_head', weights=W, same=S)\n")
    result = CliRunner().invoke(main, ["check", str(path), "--report-dir", str(tmp_path)])
    assert 6 == result.exit_code
    assert "the factory takes 'head_dim', which is not a size or option of a case of multi_head has" in result.stderr


MODEL = """
import attnspec
from torch import nn

W = {f"w{x}": f"{x}_proj.weight.T" for x in "qkvo"} | {f"b{x}": f"{x}_proj.bias" for x in "qkvo"}
S = {"context": "x"}

class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        for x in "qkvo":
            setattr(self, f"{x}_proj", nn.Linear(dim, dim))

    def forward(self, x):
        return self.v_proj(x)

"""
