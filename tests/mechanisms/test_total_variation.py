"""The total variation distance: by hand, its gradients, and a kernel whose sign has two branches."""

import numpy as np
import pytest

import attnspec
from attnspec import reference

PROBS, TEACHER = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), np.array([[0.25, 0.5, 0.25], [0.5, 0.3, 0.2]])


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("sum", 0.55), ("batchmean", 0.275), ("mean", 0.55 / 6), ("none", np.abs(PROBS - TEACHER) / 2)],
)
def test_differences_are_halved(reduction, expected):
    np.testing.assert_allclose(reference.total_variation(PROBS, TEACHER, reduction=reduction), expected, rtol=1e-12)


def test_the_gradient_is_half_of_the_sign_and_zero_where_both_are_equal():
    found = reference.total_variation_gradient(PROBS, TEACHER, np.float64(2.0), np.array([1, -100]))
    assert [[1, 0, -1], [0, 0, 0]] == found.tolist()


LIGER = """
import torch

class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, p, q, labels, reduction, ignored):
        kept = torch.ones(len(p), 1) if labels is None else (labels != ignored).float()[:, None]
        scale = {"batchmean": 1 / kept.sum(), "mean": 1 / kept.sum() / p.shape[1]}.get(reduction, 1.0)
        ctx.save_for_backward(0.5 * scale * kept * torch.where(p == q, 0.0, torch.where(p > q, 1.0, -1.0)))
        entries = 0.5 * (p - q).abs() * kept * scale
        return entries if reduction == "none" else entries.sum()

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0] * grad, None, None, None, None

def liger_tvd(input, target, shift_labels=None, reduction="mean", ignore_index=-100):
    return Function.apply(input, target, shift_labels, reduction, ignore_index)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        (
            "torch.where(p == q, 0.0, torch.where(p > q, 1.0, -1.0))",
            "torch.where(p > q, 1.0, -1.0)",
            "equal_pulled_down",
        ),
        ("ctx.saved_tensors[0] * grad", "ctx.saved_tensors[0]", "d_out_ignored"),
    ],
)
def test_an_interface_of_liger_is_told_and_faults_of_its_gradient_are_named(right, wrong, says, tmp_path):
    source, faulty = tmp_path / "right.py", tmp_path / "faulty.py"
    source.write_text(LIGER)
    faulty.write_text(LIGER.replace(right, wrong))
    laws = ["total_variation.definition", "total_variation_gradient.definition"]
    report = attnspec.check(f"{source}:liger_tvd", laws=laws, isolate=False)
    assert "liger_tvd is treated as liger_tvd" in str(report).splitlines()[0]
    assert report.conformant, report
    text = str(attnspec.check(f"{faulty}:liger_tvd", laws=laws, isolate=False))
    assert f"Like      total_variation_gradient.{says}" in text, text
