"""A class with weights is a target: it is declared with a mapping that was tried, and judged by that."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import attnspec
from attnspec.cli import main
from attnspec.errors import Exit, TargetError, UsageError
from attnspec.runs import classes
from attnspec.runs.groups import library_of, supervisor_of
from attnspec.runs.options import Options

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.heads = num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.added(n), scale=self.scale(q))
        return self.proj(y.transpose(1, 2).reshape(b, n, d))

    def added(self, n):
        return None

    def scale(self, q):
        return q.shape[-1] ** -0.5


class UnscaledAttention(Attention):
    def scale(self, q):
        return 1.0


class DistantAttention(Attention):
    def added(self, n):
        at = torch.arange(n)
        return -0.5 * (at[:, None] - at).abs()


class Head(nn.Module):
    def __init__(self, n_embd, head_size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(n_embd, head_size, bias=False) for _ in range(3))

    def forward(self, x):
        return F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x), is_causal=True)


class EncoderSelfAttention(nn.Module):
    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.heads = num_attention_heads
        self.query, self.key, self.value = (nn.Linear(hidden_size, hidden_size) for _ in range(3))

    def forward(self, hidden_states, attention_mask=None):
        maps = (self.query, self.key, self.value)
        q, k, v = (w(hidden_states).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in maps)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2), weights


class SharedAttention(nn.Module):
    def __init__(self, d_model, n_heads, attn_pdrop=0.0):
        super().__init__()
        self.heads, self.d, self.p = n_heads, d_model // n_heads, attn_pdrop
        self.Wqkv, self.out_proj = nn.Linear(d_model, d_model + 2 * self.d), nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = self.Wqkv(x).split([self.heads * self.d, self.d, self.d], -1)
        q = q.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k[:, None], v[:, None], dropout_p=self.dropped(), enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))

    def dropped(self):
        return self.p if self.training else 0.0


class MaskedRotaryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        angle = torch.outer(torch.arange(x.shape[1]), 1e4 ** (-torch.arange(0, q.shape[-1], 2) / q.shape[-1]))
        turn = torch.polar(torch.ones_like(angle), angle)
        q, k = (torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) * turn for t in (q, k))
        q, k = (torch.view_as_real(t).flatten(-2) for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).flatten(2))


class UnfinishedAttention(Attention):
    def scale(self, q):
        raise NotImplementedError("later")


class Sizes:
    pass
"""
SWIGLU = ("check", "my_model.py:FeedForward", "--law", "swiglu.definition", "--profile", "smoke")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    Path("my_model.py").write_text(MODEL)


def called(*arguments):
    return CliRunner().invoke(main, [*arguments])


def edited(old, new):
    assert old in MODEL
    Path("my_model.py").write_text(MODEL.replace(old, new))


def test_a_class_is_checked_and_its_declaration_is_kept():
    result = called(*SWIGLU)
    assert (Exit.CONFORMANT, "") == (result.exit_code, result.stderr)
    assert "CONFORMANT      feed_forward (float32)" in result.stdout
    assert "its weights were mapped by names and shapes: right in 8 of 8 cases" in result.stdout
    kept = Path("attnspec-report/classes/my_model_feed_forward.py")
    assert '"w_up": "w3.weight.T"' in kept.read_text()
    again = called("check", str(kept), *SWIGLU[2:])
    assert "CONFORMANT      feed_forward (float32)" in again.stdout
    header = json.loads(Path("attnspec-report/results.ndjson").read_text().splitlines()[0])
    assert [str(kept)] == header["targets"]


def test_an_edit_that_breaks_it_is_found_with_the_mapping_that_was_right_and_its_case_is_replayed():
    assert Exit.CONFORMANT == called(*SWIGLU).exit_code
    edited("self.w2(F.silu", "3 * self.w2(F.silu")
    result = called(*SWIGLU)
    assert Exit.VIOLATED == result.exit_code
    assert "right in 8 of 8 cases" in result.stdout
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("Replay")]
    replayed = called("replay", line.split()[-1])
    assert "feed_forward   swiglu.definition" in replayed.stdout, replayed.output
    Path("my_model.py").write_text(MODEL)
    assert Exit.CONFORMANT == called(*SWIGLU).exit_code


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (
            "Head",
            '    same={"context": "x"},\n    fixed={"causal": True, "heads": 1},',
        ),
        ("EncoderSelfAttention", "    call=lambda module, x, wo: module(x)[0] @ wo,"),
    ],
)
def test_attention_without_a_last_matrix_is_checked_with_one_after_it(name, part):
    result = called("check", f"my_model.py:{name}", "--law", "multi_head.definition")
    assert (Exit.CONFORMANT, "") == (result.exit_code, result.stderr)
    (kept,) = Path("attnspec-report/classes").glob("*.py")
    assert part in kept.read_text()


def test_query_heads_that_share_one_head_of_keys_are_told_by_the_width_of_their_matrix():
    result = called("check", "my_model.py:SharedAttention", "--law", "multi_head.definition")
    assert (Exit.CONFORMANT, "") == (result.exit_code, result.stderr)
    text = Path("attnspec-report/classes/my_model_shared_attention.py").read_text()
    assert 'requires="kv_width * heads == width"' in text
    assert '"wk": "Wqkv.weight[width:width + kv_width].T"' in text


def test_what_is_dropped_in_evaluation_is_found():
    edited("self.p if self.training else 0.0", "self.p")
    result = called("check", "my_model.py:SharedAttention", "--law", "multi_head.definition")
    assert Exit.VIOLATED == result.exit_code


def test_a_causal_mask_is_handed_to_a_class_that_needs_none():
    result = called("check", "my_model.py:MaskedRotaryAttention", "--law", "rotary_self_attention.definition")
    assert (Exit.CONFORMANT, "") == (result.exit_code, result.stderr)
    text = Path("attnspec-report/classes/my_model_masked_rotary_attention.py").read_text()
    assert "call=lambda module, x: module(x, mask=causal_mask(x))" in text
    assert 'conventions={"pairing": "neighbours"}' in text


def test_plain_attention_is_judged_even_if_it_makes_no_known_mistake():
    edited("q.shape[-1] ** -0.5\n\n\nclass Unscaled", "q.shape[-1] ** -0.4 * 1.1\n\n\nclass Unscaled")
    result = called("check", "my_model.py:Attention", "--law", "multi_head.definition")
    assert Exit.VIOLATED == result.exit_code


def test_a_known_mistake_is_judged_under_the_mapping_that_agrees_with_it_most():
    result = called("check", "my_model.py:UnscaledAttention", "--law", "multi_head.definition")
    assert Exit.VIOLATED == result.exit_code
    assert "multi_head.unscaled: The scores are not scaled." in result.stdout
    assert "no mapping agrees with the definition, so this one may be wrong" in result.stdout


def test_what_agrees_with_nothing_known_is_judged_on_request_alone():
    result = called("check", "my_model.py:DistantAttention")
    assert Exit.NOT_LOADED == result.exit_code
    start = (
        "attnspec: my_model.py: DistantAttention is treated as multi_head: 8 weights, right in 0 of 2 cases; none of"
    )
    assert result.stderr.startswith(start)
    assert "it may compute something else (--operator multi_head checks it all the same" in result.stderr
    asked = called(
        "check", "my_model.py:DistantAttention", "--operator", "multi_head", "--law", "multi_head.definition"
    )
    assert Exit.VIOLATED == asked.exit_code


def test_a_name_that_means_one_thing_is_taken_at_its_word():
    Path("my_model.py").write_text(MODEL.replace("class FeedForward", "class SwiGLU").replace("F.silu(", "torch.sin("))
    result = called("check", "my_model.py:SwiGLU", *SWIGLU[2:])
    assert Exit.VIOLATED == result.exit_code


def test_a_class_that_raises_is_told_with_its_error():
    result = called("check", "my_model.py:UnfinishedAttention")
    assert Exit.NOT_LOADED == result.exit_code
    assert "right in 0 of 2 cases; calls end in NotImplementedError: later (--operator" in result.stderr


def test_a_plain_class_is_none_and_a_name_that_says_nothing_is_told():
    assert "my_model.py: Sizes is a class; name a function" in called("check", "my_model.py:Sizes").stderr
    edited("class FeedForward", "class Middle")
    assert "the name 'Middle' does not say which operator it is" in called("check", "my_model.py:Middle").stderr
    asked = called("check", "my_model.py:Middle", "--operator", "swiglu", *SWIGLU[2:])
    assert Exit.CONFORMANT == asked.exit_code


def test_it_is_tried_in_the_dtypes_that_are_asked_for():
    result = called(*SWIGLU, "--dtype", "bfloat16", "--dtype", "float16")
    assert "CONFORMANT      feed_forward (bfloat16 float16)" in result.stdout


def test_programs_check_classes_too():
    attnspec.check("my_model.py:FeedForward", laws=["swiglu.definition"], profile="smoke").expect_conformant()
    assert not Path("attnspec-report").exists()


def test_a_module_of_a_package_is_imported_as_that():
    folder = Path("mine/layers")
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        Path(each, "__init__.py").write_text("")
    Path(folder.parent, "sizes.py").write_text("HIDDEN = 1\n")
    Path(folder, "mlp.py").write_text("from ..sizes import HIDDEN\n" + MODEL)
    for target in ("mine/layers/mlp.py:FeedForward", "mine.layers.mlp:FeedForward"):
        assert Exit.CONFORMANT == called("check", target, *SWIGLU[2:]).exit_code
    assert "import mine.layers.mlp as mlp\n" in Path("attnspec-report/classes/mlp_feed_forward.py").read_text()


def test_plans_and_comparisons_take_classes():
    planned = json.loads(called("plan", "my_model.py:FeedForward", "--dtype", "float32").stdout)
    (task,) = planned["include"]
    assert ("feed_forward", "my_model.py:FeedForward") == (task["subject"], task["target"])
    Path("other.py").write_text(MODEL.replace("F.silu", "F.gelu"))
    result = called(
        "diff", "my_model.py:FeedForward", "other.py:FeedForward", "--operator", "swiglu", "--dtype", "float32"
    )
    assert "feed_forward (b) breaks swiglu.odds" in result.stdout, result.output


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path):
    Path("taken").write_text("")
    options = Options(targets=("my_model.py:FeedForward",), report_dir="taken")
    with pytest.raises(UsageError, match=r"taken/classes/my_model_feed_forward\.py cannot be written"):
        classes.declared(options.targets[0], options, supervisor_of(options), library_of(options))


@pytest.mark.parametrize("target", ["torch_sdpa", "my_model.py", "my_model.py:missing", "my_model.py:Sizes"])
def test_other_targets_stand_for_themselves(target):
    options = Options(targets=(target,))
    assert (target, ()) == classes.declared(target, options, supervisor_of(options), library_of(options))


def test_without_a_worker_it_is_told_as_a_class():
    options = Options(isolate=False)
    assert ("my_model.py:FeedForward", ()) == classes.declared(
        "my_model.py:FeedForward", options, supervisor_of(options), library_of(options)
    )
    with pytest.raises(TargetError, match="FeedForward is a class that asks for dim"):
        attnspec.check("my_model.py:FeedForward", isolate=False)
