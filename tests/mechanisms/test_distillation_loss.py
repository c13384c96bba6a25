"""Divergences of a student from its teacher: by hand, beside torch, and through known interfaces."""

import math

import numpy as np
import pytest

import attnspec
from attnspec import reference

LOG = {name: np.log(x) for name, x in {"even": [[0.5, 0.5]], "odd": [[0.25, 0.75]]}.items()}
HALF = 0.5 * (0.25 * math.log(0.25 / 0.375) + 0.75 * math.log(0.75 / 0.625))
HALF += 0.5 * (0.5 * math.log(0.5 / 0.375) + 0.5 * math.log(0.5 / 0.625))


@pytest.mark.parametrize(
    ("beta", "expected"),
    [
        (0.0, 0.25 * math.log(0.5) + 0.75 * math.log(1.5)),
        (1.0, 0.5 * math.log(2) + 0.5 * math.log(2 / 3)),
        (0.5, HALF),
    ],
)
def test_the_divergence_goes_from_that_of_the_teacher_to_that_of_the_student(beta, expected):
    assert math.isclose(expected, reference.distillation_loss(LOG["even"], LOG["odd"], beta=beta), rel_tol=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("reduction", ["batchmean", "mean", "sum", "none"])
@pytest.mark.parametrize("normalisation", ["outside", "inside"])
def test_gradients_are_those_of_the_loss(beta, reduction, normalisation):
    rng = np.random.default_rng(0)
    x, y = (np.log(rng.dirichlet(np.ones(3), 2)) + 2 * (normalisation == "inside") for _ in range(2))
    labels, step = np.array([4, -100]), 1e-6
    options = {"labels": labels, "beta": beta, "reduction": reduction, "normalisation": normalisation}
    d_out = rng.normal(size=(2, 3)) if reduction == "none" else np.float64(-3.0)
    found = reference.distillation_loss_gradient(x, y, d_out, **options)
    for at in np.ndindex(x.shape):
        moved = np.where(np.arange(6).reshape(2, 3) == at[0] * 3 + at[1], step, 0.0)
        above, below = (reference.distillation_loss(x + s * moved, y, **options) for s in (1, -1))
        assert math.isclose(found[at], np.sum((above - below) * d_out) / (2 * step), rel_tol=1e-6, abs_tol=1e-8)


LIGER = """
import torch


def liger_jsd(input, target, shift_labels=None, beta=0.5, ignore_index=-100):
    if beta in (0, 1):
        x = input.exp() * (input - target) if beta else target.exp() * (target - input)
    else:
        mixed = torch.logaddexp(input + torch.tensor(1 - beta).log(), target + torch.tensor(beta).log())
        x = beta * target.exp() * (target - mixed) + (1 - beta) * input.exp() * (input - mixed)
    if shift_labels is None:
        return x.sum() / len(x)
    kept = shift_labels != ignore_index
    return x[kept].sum() / kept.sum()
"""
NAIVE = "((1 - beta) * input.exp() + beta * target.exp()).log()"
MIXED = "torch.logaddexp(input + torch.tensor(1 - beta).log(), target + torch.tensor(beta).log())"


@pytest.mark.parametrize(
    ("right", "wrong", "law", "says"),
    [
        ("kept.sum()", "len(x)", "definition", "Like      distillation_loss.ignored_counted"),
        (
            MIXED,
            MIXED.replace("1 - beta", "b").replace("tensor(beta", "tensor(1 - beta").replace("(b)", "(beta)"),
            "definition",
            "Like      distillation_loss.beta_reversed",
        ),
        (MIXED, NAIVE, "definition", "got nan"),
    ],
)
def test_an_interface_of_liger_is_told_and_faults_of_it_are_found(right, wrong, law, says, tmp_path):
    source, faulty = tmp_path / "right.py", tmp_path / "faulty.py"
    source.write_text(LIGER)
    faulty.write_text(LIGER.replace(right, wrong))
    laws = [f"distillation_loss.{law}", f"distillation_loss_gradient.{law}"]
    report = attnspec.check(f"{source}:liger_jsd", laws=laws, isolate=False)
    assert "liger_jsd is treated as liger_jsd" in str(report).splitlines()[0]
    assert report.conformant, report
    assert says in str(attnspec.check(f"{faulty}:liger_jsd", laws=laws, isolate=False))


def test_the_divergence_of_torch_conforms_with_all_its_means(tmp_path):
    source = tmp_path / "own.py"
    source.write_text(
        "import torch\n\n"
        "def kl_div(input, target, reduction='mean', log_target=False):\n"
        "    return torch.nn.functional.kl_div(input, target, reduction=reduction, log_target=log_target)\n"
    )
    report = attnspec.check(f"{source}:kl_div", isolate=False, explain_time=0)
    assert report.conformant, report
