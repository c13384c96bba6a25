"""What first calls show of a function."""

import pytest

import attnspec

ROTARY = """
import torch


def rotate_half(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def rotate_pairs(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def parted(x):
    return torch.cat((x[..., ::2], x[..., 1::2]), -1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    {lines}
"""
WOVEN = "cos, sin = (t[..., : t.shape[-1] // 2].repeat_interleave(2, -1) for t in (cos, sin))"
TURNED = "return tuple(x * cos + {rotate}(x) * sin for x in (q, k))"


@pytest.mark.parametrize(
    ("lines", "like"),
    [
        (TURNED.format(rotate="rotate_half"), "apply_rotary_pos_emb"),
        (TURNED.format(rotate="rotate_pairs"), "apply_rotary_pos_emb_woven"),
        (f"{WOVEN}\n    {TURNED.format(rotate='rotate_pairs')}", "apply_rotary_pos_emb_pairs"),
        (f"q, k = parted(q), parted(k)\n    {TURNED.format(rotate='rotate_half')}", "apply_rotary_pos_emb_pairs"),
    ],
    ids=["halves", "woven tables", "pairs", "pairs that come back in halves"],
)
def test_first_calls_tell_how_the_tables_of_rotary_functions_are_read(tmp_path, lines, like):
    (tmp_path / "rotary.py").write_text(ROTARY.replace("{lines}", lines))
    report = attnspec.check(
        f"{tmp_path / 'rotary.py'}:apply_rotary_pos_emb", profile="smoke", dtypes="float32", explain_time=0
    )
    assert {"apply_rotary_pos_emb": "conformant"} == report.verdicts, report
    taken = {cell["run"]["taken"] for cell in report.cells if cell.get("run", {}).get("taken")}
    assert any(f"treated as {like} " in one for one in taken), taken


def test_a_rotation_that_no_tables_fit_is_refuted(tmp_path):
    (tmp_path / "rotary.py").write_text(ROTARY.replace("{lines}", "return q * cos - q * sin, k * cos - k * sin"))
    report = attnspec.check(
        f"{tmp_path / 'rotary.py'}:apply_rotary_pos_emb", profile="smoke", dtypes="float32", explain_time=0
    )
    assert {"apply_rotary_pos_emb": "violated"} == report.verdicts


ANGLES = """
import torch


def turned(x, cos, sin):
    pairs = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return x * cos + pairs * sin


def halves(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def as_complex(x):
    return torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())


{function}
"""


@pytest.mark.parametrize(
    ("function", "like"),
    [
        (
            "def apply_rotary_pos_emb(t, freqs, scale=1):\n    return turned(t, freqs.cos(), freqs.sin())",
            "apply_rotary_pos_emb_angles",
        ),
        (
            "def apply_rotary_pos_emb(t, freqs):\n    return halves(t, freqs.cos(), freqs.sin())",
            "apply_rotary_pos_emb_angles_halves",
        ),
        ("def apply_rotary_emb(freqs, t):\n    return turned(t, freqs.cos(), freqs.sin())", "apply_rotary_emb_angles"),
        (
            "def apply_rotary_emb(x, freqs_cis, use_real=True, use_real_unbind_dim=-1, sequence_dim=2):\n"
            "    return (turned if use_real_unbind_dim == -1 else halves)(x, *freqs_cis)",
            "diffusers_apply_rotary_emb",
        ),
        (
            "def apply_rotary_emb(xq, xk, freqs_cis):\n    assert freqs_cis.ndim == 2\n"
            "    freqs_cis = freqs_cis[None, :, None]\n"
            "    return tuple(torch.view_as_real(as_complex(x) * freqs_cis).flatten(3) for x in (xq, xk))",
            "llama_apply_rotary_emb",
        ),
        (
            "def apply_rotary_emb(xq, xk, freqs_cis):\n"
            "    return tuple(torch.view_as_real(as_complex(x) * freqs_cis[:, :, None]).flatten(3) for x in (xq, xk))",
            "llama4_apply_rotary_emb",
        ),
        (
            "def apply_rotary_emb(x, freqs_cis):\n"
            "    return torch.view_as_real(as_complex(x) * freqs_cis[None, :, None]).flatten(3)",
            "deepseek_apply_rotary_emb",
        ),
    ],
)
def test_rotary_functions_are_passed_angles_pairs_and_complex_numbers(tmp_path, function, like):
    (tmp_path / "rotary.py").write_text(ANGLES.replace("{function}", function))
    name = function.partition("(")[0].removeprefix("def ")
    report = attnspec.check(f"{tmp_path / 'rotary.py'}:{name}", profile="smoke", dtypes="float32", explain_time=0)
    assert {name: "conformant"} == report.verdicts, report
    taken = {cell["run"]["taken"] for cell in report.cells if cell.get("run", {}).get("taken")}
    assert any(f"treated as {like} " in one for one in taken), taken


def test_a_table_is_not_taken_for_positions(tmp_path):
    (tmp_path / "rotary.py").write_text("def rotary(x, cos_sin_cache, seq_dim=1):\n    return x\n")
    with pytest.raises(attnspec.TargetError, match="'cos_sin_cache' is not an input or option of rotary"):
        attnspec.check(f"{tmp_path / 'rotary.py'}:rotary")


STEP = """
import torch


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, sm_scale):
        weights = (q @ k.transpose(-1, -2) * sm_scale).softmax(-1)
        ctx.save_for_backward(q, k, v, weights)
        ctx.scale = sm_scale
        return weights @ v

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, weights = ctx.saved_tensors
        d_weights = d_out @ v.transpose(-1, -2)
        d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdim=True)) * {scale}
        return d_scores @ k, d_scores.transpose(-1, -2) @ q, weights.transpose(-1, -2) @ d_out, None


flash_attention = FlashAttention.apply


class RMSNorm(torch.nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * self.weight
"""


@pytest.mark.parametrize("function", ["FlashAttention", "FlashAttention.apply", "flash_attention"])
@pytest.mark.parametrize(("scale", "verdict"), [("ctx.scale", "conformant"), ("1", "violated")])
def test_a_step_of_autograd_is_checked_with_its_backward_pass(tmp_path, function, scale, verdict):
    (tmp_path / "steps.py").write_text(STEP.replace("{scale}", scale))
    report = attnspec.check(f"{tmp_path / 'steps.py'}:{function}", profile="smoke", dtypes="float32", explain_time=0)
    assert {function: verdict} == report.verdicts, report
    failing = {cell["mechanism"] for cell in report.cells if cell["verdict"] == "fail"}
    assert failing <= {"attention_gradient"}


def test_a_class_with_weights_is_no_function(tmp_path):
    (tmp_path / "steps.py").write_text(STEP)
    with pytest.raises(attnspec.TargetError, match="RMSNorm is a class; 'attnspec init"):
        attnspec.check(f"{tmp_path / 'steps.py'}:RMSNorm", isolate=False)


ROUTING = """
import torch


def noaux_routing(logits, bias, num_experts=256, n_group=8, topk_group=4, top_k=8, renormalize=True):
    scores = torch.sigmoid(logits)
    choices = (scores + {bias}).view(len(logits), n_group, num_experts // n_group)
    of_groups = choices.topk(min(2, choices.shape[-1]))[0].sum(-1)
    kept = torch.zeros_like(of_groups).scatter(1, of_groups.topk(topk_group)[1], 1).bool()
    chosen = choices.masked_fill(~kept[..., None], -torch.inf).flatten(1).topk(top_k)[1]
    weights = scores.gather(1, chosen)
    return (weights / weights.sum(-1, keepdim=True) if renormalize else weights), chosen
"""


@pytest.mark.parametrize(("bias", "verdict"), [("bias[None]", "conformant"), ("2 * bias[None]", "violated")])
def test_what_a_function_fails_without_is_in_every_call_before_it_is_read(tmp_path, bias, verdict):
    (tmp_path / "kernels.py").write_text(ROUTING.replace("{bias}", bias))
    report = attnspec.check(
        f"{tmp_path / 'kernels.py'}:noaux_routing", profile="smoke", dtypes="float32", explain_time=0
    )
    assert {"noaux_routing": verdict} == report.verdicts, report
    says = "fails unless not single(bias), with TypeError"
    assert any(says in note for cell in report.cells for note in cell.get("run", {}).get("notes", ()))


PROCESSES = """
import os

import torch


def attention(query, key, value, attn_mask=None, window_size=(-1, -1), is_causal=False):
    with open({told!r}, "a") as file:
        print(os.getpid(), query.shape[0], file=file)
    rows, columns = query.shape[1], key.shape[1]
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    scores = query @ key.mT * query.shape[-1] ** -0.5
    at = torch.arange(rows)[:, None] + columns - rows
    left, right = window_size[0], 0 if is_causal else window_size[1]
    seen = torch.ones(rows, columns, dtype=torch.bool)
    seen &= (torch.arange(columns) >= at - left) | (left < 0)
    seen &= (torch.arange(columns) <= at + right) | (right < 0)
    seen = seen if attn_mask is None else seen & attn_mask[:, None, None]
    return (scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value).transpose(1, 2)
"""


def test_first_calls_are_made_in_one_process_however_a_function_is_read_and_the_others_in_a_new_one(tmp_path):
    told, kernel = tmp_path / "told.txt", tmp_path / "kernel.py"
    kernel.write_text(PROCESSES.replace("{told!r}", repr(str(told))))
    target = f"{kernel}:attention"
    report = attnspec.check(target, profile="smoke", laws=("attention.definition",), dtypes="float32", explain_time=0)
    assert {"attention": "conformant"} == report.verdicts, report
    assert "`attn_mask` is true for the keys of an item" in str(report)
    first, *further = dict.fromkeys(line.split()[0] for line in told.read_text().splitlines())
    assert len(further) == 1, (first, further)
