"""What a function returns beside the outputs of its operator."""

import pytest
from click.testing import CliRunner

import attnspec
from attnspec.cli import main
from attnspec.errors import Exit

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
    return attnspec.check(f"{tmp_path / 'kernels.py'}:{function}", profile="smoke", dtypes="float32", explain_time=0)


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


@pytest.mark.parametrize(("factor", "verdict"), [("1", "conformant"), ("2", "violated")])
def test_a_backward_pass_may_return_some_gradients_alone(tmp_path, factor, verdict):
    text = f"""
def add_rms_norm_backward(dy, x, residual, weight, eps=1e-5):
    rstd = ((x + residual) ** 2).mean(-1, keepdim=True).add(eps).rsqrt()
    y, v = (x + residual) * rstd, dy * weight
    return rstd * (v - y * (v * y).mean(-1, keepdim=True)), {factor} * (dy * y).flatten(0, -2).sum(0)
"""
    (tmp_path / "kernels.py").write_text(text)
    report = attnspec.check(
        f"{tmp_path / 'kernels.py'}:add_rms_norm_backward", profile="smoke", dtypes="float32", explain_time=0
    )
    assert {"add_rms_norm_backward": verdict} == report.verdicts, report
    assert "it returns d_x, d_weight alone" in notes(report)


def test_further_results_are_left_alone(tmp_path):
    report = checked(tmp_path, "layer_norm")
    assert {"layer_norm": "conformant"} == report.verdicts, report
    assert "it returns 3 results, and layer_norm has 1: the others are not tested" in notes(report)


TURNED = """
import torch

def rope(q, k, cos, sin):
    def turned(x):
        one, other = x.chunk(2, -1)
        return x * cos + torch.cat([-other, one], -1) * sin

    return turned(q), turned(k){further}
"""


@pytest.mark.parametrize(("further", "told"), [("", False), (", q", True)])
def test_further_results_that_another_operator_has_are_tested_as_that(tmp_path, further, told):
    (tmp_path / "kernels.py").write_text(TURNED.format(further=further))
    report = attnspec.check(f"{tmp_path / 'kernels.py'}:rope", profile="smoke", dtypes="float32", explain_time=0)
    assert {"rope": "conformant"} == report.verdicts, report
    assert told == ("the others are not tested" in notes(report))


@pytest.mark.parametrize(("key", "verdict"), [("p", "conformant"), ("shares", "violated")])
def test_results_by_name_that_are_no_outputs_are_left_alone_beside_those_that_are(tmp_path, key, verdict):
    (tmp_path / "kernels.py").write_text(
        f"def softmax(x):\n    return {{'{key}': x.softmax(-1), 'lse': x.logsumexp(-1)}}\n\n\nimport torch\n"
    )
    report = attnspec.check(f"{tmp_path / 'kernels.py'}:softmax", profile="smoke", dtypes="float32", explain_time=0)
    assert {"softmax": verdict} == report.verdicts, report


LAID_OUT = """
import torch


def attention(query, key, value):
    scores = torch.einsum("thd,shd->ths", query, key) * query.shape[-1] ** -0.5
    return torch.einsum("ths,shd->thd", scores.softmax(-1), value), {lse}
"""


@pytest.mark.parametrize(
    ("lse", "verdict"),
    [
        ("scores.logsumexp(-1)", "conformant"),
        ("scores.logsumexp(-1, keepdim=True)", "conformant"),
        ("scores.logsumexp(-1) + 1", "violated"),
        ("scores.logsumexp(-1, keepdim=True) + 1", "violated"),
    ],
)
def test_a_logsumexp_may_be_laid_out_as_the_queries_and_keep_its_axis(tmp_path, lse, verdict):
    """A first call may have as many heads as queries, so that its shape does not tell."""
    (tmp_path / "kernels.py").write_text(LAID_OUT.replace("{lse}", lse))
    report = attnspec.check(f"{tmp_path / 'kernels.py'}:attention", profile="smoke", dtypes="float32", explain_time=0)
    assert {"attention": verdict} == report.verdicts, report
    assert 'declare layout = "shd_lse"' in str(report)


CODES = """
import torch


def quantize_weights_int8(x):
    scale = x.abs().amax({axes}, keepdim=True).clamp(min=1e-12) / 127
    return (x / scale).round().clamp(-127, 127).to(torch.int8), {scale}
"""


@pytest.mark.parametrize(
    ("axes", "scale", "verdict"),
    [
        ("-1", "scale", "conformant"),
        ("-1", "scale[:, 0]", "conformant"),
        ("-1", "1 / scale[:, 0]", "violated"),
        ("(0, 1)", "scale[0, 0]", "conformant"),
        ("(0, 1)", "1 / scale[0, 0]", "violated"),
    ],
)
def test_a_scale_may_lack_the_axes_along_which_it_is_one(tmp_path, axes, scale, verdict):
    (tmp_path / "kernels.py").write_text(CODES.replace("{axes}", axes).replace("{scale}", scale))
    target = f"{tmp_path / 'kernels.py'}:quantize_weights_int8"
    report = attnspec.check(target, profile="smoke", dtypes="float32", explain_time=0)
    assert {"quantize_weights_int8": verdict} == report.verdicts, report
    assert "in the place of" not in notes(report)


NORMS = """
import torch


def normed(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def fused_add_rmsnorm(hidden_states, residual, weight):
    return normed(hidden_states + residual, weight)


def fused_add_rmsnorm_in_place(hidden_states, residual, weight):
    residual.add_(hidden_states)
    return normed(residual, weight)


def fused_add_rmsnorm_lost(hidden_states, residual, weight):
    hidden_states.copy_(normed(hidden_states + residual, weight))


def fused_add_rmsnorm_half_lost(hidden_states, residual, weight):
    hidden_states.copy_(normed(hidden_states + residual, weight))
    return hidden_states
"""


@pytest.mark.parametrize(
    ("function", "verdict", "alone"),
    [
        ("fused_add_rmsnorm", "conformant", True),
        ("fused_add_rmsnorm_in_place", "conformant", False),
        ("fused_add_rmsnorm_lost", "violated", False),
        ("fused_add_rmsnorm_half_lost", "violated", False),
    ],
)
def test_what_returns_the_norm_and_writes_nothing_is_judged_by_that_alone(tmp_path, function, verdict, alone):
    (tmp_path / "norms.py").write_text(NORMS)
    report = attnspec.check(
        f"{tmp_path / 'norms.py'}:{function}", profile="smoke", dtypes="float32", explain_time=0, laws=("definition",)
    )
    assert {function: verdict} == report.verdicts, report
    assert alone is ("`residual` as it was passed: summed is not tested" in notes(report))
    assert alone is ("after the call" not in notes(report))


FILTERS = """
import torch


def top_k_filter(logits, k):
    return torch.where(logits < logits.topk(k).values[..., -1:], {fill}, logits)


def top_p_filter(logits, p):
    ordered, places = logits.sort(-1, descending=True)
    chances = ordered.softmax(-1)
    behind = chances.cumsum(-1) - {own} > p
    behind[..., 0] = False
    return logits.masked_fill(torch.zeros_like(behind).scatter(-1, places, behind), {fill})
"""
LEAST = "torch.finfo(logits.dtype).min"


def filtered(tmp_path, function, fill, own="chances", dtypes="float32", **options):
    (tmp_path / "filters.py").write_text(FILTERS.replace("{fill}", fill).replace("{own}", own))
    return attnspec.check(f"{tmp_path / 'filters.py'}:{function}", profile="smoke", dtypes=dtypes, **options)


@pytest.mark.parametrize("function", ["top_k_filter", "top_p_filter"])
@pytest.mark.parametrize("fill", [LEAST, "-1e10"])
def test_a_number_that_no_logit_comes_near_stands_for_minus_infinity(tmp_path, function, fill):
    report = filtered(tmp_path, function, fill, dtypes=("float32", "bfloat16"), explain_time=0)
    assert {function: "conformant"} == report.verdicts, report
    number = "-1e+10" if fill == "-1e10" else "-3.40282e+38"
    assert f"it returns {number} where out is minus infinity, and is read so" in notes(report)


def test_minus_infinity_is_read_as_it_is(tmp_path):
    report = filtered(tmp_path, "top_k_filter", "-torch.inf")
    assert {"top_k_filter": "conformant"} == report.verdicts
    assert "minus infinity" not in notes(report)


def test_a_number_that_a_logit_may_have_is_none(tmp_path):
    report = filtered(tmp_path, "top_k_filter", "-10000.0")
    assert {"top_k_filter": "violated"} == report.verdicts
    assert "top_k_filter.finite_fill" in str(report)


def test_what_else_is_wrong_is_named_with_such_a_number(tmp_path):
    report = filtered(tmp_path, "top_p_filter", LEAST, own="0")
    assert {"top_p_filter": "violated"} == report.verdicts
    assert "top_p_filter.crossing_lost_but_best" in str(report)


def test_a_failure_is_replayed_with_such_a_number(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = filtered(tmp_path, "top_p_filter", LEAST, own="0", explain_time=0, report_dir="report")
    key = next(cell["witness"]["key"] for cell in report.cells if "witness" in cell)
    again = CliRunner().invoke(main, ["replay", key, "--report-dir", "report"])
    assert Exit.VIOLATED == again.exit_code, again.output
    filtered(tmp_path, "top_p_filter", LEAST, explain_time=0)
    again = CliRunner().invoke(main, ["replay", key, "--report-dir", "report"])
    assert Exit.CONFORMANT == again.exit_code, again.output
