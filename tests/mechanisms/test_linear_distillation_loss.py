"""Divergences with the products that make logits: the reference, and a fused kernel that forgets what to scale."""

import numpy as np
import pytest

import attnspec
from attnspec import reference

RNG = np.random.default_rng(0)
GIVEN = {
    "hidden": RNG.normal(size=(3, 2)),
    "weight": RNG.normal(size=(4, 2)),
    "teacher_hidden": RNG.normal(size=(3, 5)),
    "teacher_weight": RNG.normal(size=(4, 5)),
}


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_loss_is_that_of_log_probabilities_at_a_temperature(temperature):
    logits = [GIVEN[f"{who}hidden"] @ GIVEN[f"{who}weight"].T / temperature for who in ("", "teacher_")]
    x, y = (z - np.log(np.exp(z).sum(1, keepdims=True)) for z in logits)
    found = reference.linear_distillation_loss(**GIVEN, beta=0.3, temperature=temperature)
    np.testing.assert_allclose(found, reference.distillation_loss(x, y, beta=0.3), rtol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_gradients_are_those_of_the_loss(beta):
    options, step = {"labels": np.array([1, -100, 2]), "beta": beta, "temperature": 2.0}, 1e-6
    found = reference.linear_distillation_loss_gradient(**GIVEN, d_out=np.float64(3.0), **options)
    for name in ("hidden", "weight"):
        moved = np.zeros_like(GIVEN[name])
        moved[0, 1] = step
        above, below = (
            reference.linear_distillation_loss(**{**GIVEN, name: GIVEN[name] + s * moved}, **options) for s in (1, -1)
        )
        np.testing.assert_allclose(found[f"d_{name}"][0, 1], 3 * (above - below) / (2 * step), rtol=1e-6)


LIGER = """
import torch

class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, w, th, tw, labels, beta, ignored, t):
        with torch.enable_grad():
            own = [x.detach().requires_grad_() for x in (h, w)]
            x, y = (own[0] @ own[1].mT / t).log_softmax(-1), (th @ tw.mT / t).log_softmax(-1)
            m = torch.logaddexp(x + torch.tensor(1 - beta).log(), y + torch.tensor(beta).log())
            entries = beta * y.exp() * (y - m) + (1 - beta) * x.exp() * (x - m)
            if beta in (0, 1):
                entries = x.exp() * (x - y) if beta else y.exp() * (y - x)
            kept = torch.ones(len(h)) if labels is None else (labels != ignored).float()
            loss = (entries * kept[:, None]).sum() / kept.sum()
            ctx.save_for_backward(*torch.autograd.grad(loss, own))
        return loss.detach()

    @staticmethod
    def backward(ctx, grad):
        d_h, d_w = ctx.saved_tensors
        return d_h * grad, d_w * grad, None, None, None, None, None, None

def liger_fused_linear_jsd(student_input, student_weight, teacher_input, teacher_weight, shift_labels=None,
                           jsd_beta=0.5, ignore_index=-100, temperature=1.0):
    given = student_input, student_weight, teacher_input, teacher_weight, shift_labels
    return Function.apply(*given, jsd_beta, ignore_index, temperature)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("d_w * grad", "d_w", "_gradient.d_out_ignored in d_weight"),
        ("(th @ tw.mT / t)", "(th @ tw.mT)", ".temperature_of_student_alone"),
    ],
)
def test_an_interface_of_liger_is_told_and_faults_are_named(right, wrong, says, tmp_path):
    source, faulty = tmp_path / "right.py", tmp_path / "faulty.py"
    source.write_text(LIGER)
    faulty.write_text(LIGER.replace(right, wrong))
    laws = [f"linear_distillation_loss{end}.definition" for end in ("", "_gradient")]
    report = attnspec.check(f"{source}:liger_fused_linear_jsd", laws=laws, isolate=False)
    assert "is treated as liger_fused_linear_jsd" in str(report).splitlines()[0]
    assert report.conformant, report
    text = str(attnspec.check(f"{faulty}:liger_fused_linear_jsd", laws=laws, isolate=False))
    assert f"Like      linear_distillation_loss{says}" in text, text
