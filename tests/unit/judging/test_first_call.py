"""What first calls show of a function."""

import pytest

import attnspec

WEIGHTS = """
import torch


def attention(q, k, v):
    weights = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
    return weights @ v, {second}


def layer_norm(x, weight, bias, eps=1e-5):
    mean, spread = x.mean(-1, keepdim=True), (x.var(-1, unbiased=False, keepdim=True) + eps).rsqrt()
    return (x - mean) * spread * weight + bias, mean, spread
"""
LSE = "(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).logsumexp(-1)"


def checked(tmp_path, function, second="weights"):
    (tmp_path / "kernels.py").write_text(WEIGHTS.replace("{second}", second))
    return attnspec.check(f"{tmp_path / 'kernels.py'}:{function}", dtypes="float32", explain_time=0)


def notes(report):
    return " ".join(note for cell in report.cells for note in cell.get("run", {}).get("notes", ()))


def test_what_is_not_shaped_like_an_output_is_none_of_the_operator(tmp_path):
    report = checked(tmp_path, "attention")
    assert {"attention": "conformant"} == report.verdicts, report
    assert "in the place of lse" in notes(report)


@pytest.mark.parametrize(("second", "verdict"), [(LSE, "conformant"), (f"2 * {LSE}", "violated")])
def test_what_is_shaped_like_an_output_is_judged_as_that(tmp_path, second, verdict):
    report = checked(tmp_path, "attention", second)
    assert {"attention": verdict} == report.verdicts, report
    assert "in the place of" not in notes(report)


def test_further_results_are_left_alone(tmp_path):
    report = checked(tmp_path, "layer_norm")
    assert {"layer_norm": "conformant"} == report.verdicts, report
    assert "it returns 3 results, and layer_norm has 1: the others are not tested" in notes(report)


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
    report = attnspec.check(f"{tmp_path / 'rotary.py'}:apply_rotary_pos_emb", dtypes="float32", explain_time=0)
    assert {"apply_rotary_pos_emb": "conformant"} == report.verdicts, report
    taken = {cell["run"]["taken"] for cell in report.cells if cell.get("run", {}).get("taken")}
    assert any(f"treated as {like} " in one for one in taken), taken


def test_a_rotation_that_no_tables_fit_is_refuted(tmp_path):
    (tmp_path / "rotary.py").write_text(ROTARY.replace("{lines}", "return q * cos - q * sin, k * cos - k * sin"))
    report = attnspec.check(f"{tmp_path / 'rotary.py'}:apply_rotary_pos_emb", dtypes="float32", explain_time=0)
    assert {"apply_rotary_pos_emb": "violated"} == report.verdicts
