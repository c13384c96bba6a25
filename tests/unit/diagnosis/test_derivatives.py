"""Whether wrong gradients are those of what the function itself returns."""

import pytest
import torch

import attnspec
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.answered import observed
from attnspec.diagnosis.derivatives import TELLING, own_derivatives
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.gradients import GradientSubject
from attnspec.subjects.targets import subject

GRADIENT = library()["rms_norm_gradient"]


def normed(x, weight, eps):
    x, weight = x.double(), weight.double()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


class Halved(torch.autograd.Function):
    """Right, but for its backward pass."""

    @staticmethod
    def forward(x):
        return 1.0 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, d_out):
        return d_out / 2


def scaled(x, weight, eps=1e-6):
    return (1.5 * normed(x, weight, eps)).to(x.dtype)


def without_weight_in_wide_rows(x, weight, eps=1e-6):
    return normed(x, weight if x.shape[-1] < 3 else torch.ones_like(weight) + 0 * weight, eps).to(x.dtype)


def wrong_backward(x, weight, eps=1e-6):
    return Halved.apply(normed(x, weight, eps)).to(x.dtype)


def wrong_and_wrong_backward(x, weight, eps=1e-6):
    return Halved.apply(1.5 * normed(x, weight, eps)).to(x.dtype)


def gradients_of(function, dtype="float64"):
    """The bench of the gradients of a function, and what was observed of their first failure."""
    adapter = Adapter("norm", "rms_norm", function, "torch", dtypes=(dtype,))
    one = GradientSubject(subject(adapter), GRADIENT)
    result = run(Request(one, GRADIENT, dtype, PROFILES["quick"], laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    return result.bench, observed(result.bench, failure, 0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("function", [scaled, without_weight_in_wide_rows])
def test_gradients_of_wrong_outputs_are_told_from_them(function, dtype):
    found = own_derivatives(*gradients_of(function, dtype))
    assert ("rms_norm", True) == (found.operator, found.told >= TELLING)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("function", [wrong_backward, wrong_and_wrong_backward])
def test_a_wrong_backward_pass_is_a_fault_of_its_own(function, dtype):
    assert own_derivatives(*gradients_of(function, dtype)) is None


def test_what_is_no_function_of_another_operator_is_not_asked():
    def rms_norm_gradient(x, weight, d_out, eps=1e-6):
        return 0 * x, 0 * weight

    one = subject(Adapter("norm", "rms_norm_gradient", rms_norm_gradient, "numpy", dtypes=("float64",)))
    result = run(Request(one, GRADIENT, "float64", PROFILES["quick"], laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    assert own_derivatives(result.bench, observed(result.bench, failure, 0)) is None


@pytest.mark.parametrize(
    ("function", "mechanisms", "shown"),
    [
        (scaled, ("rms_norm", "rms_norm_gradient"), "as its outputs are wrong"),
        (scaled, ("rms_norm_gradient",), "fix rms_norm first: these are the gradients of what the function returns"),
        (wrong_and_wrong_backward, ("rms_norm", "rms_norm_gradient"), ""),
    ],
)
def test_a_fault_of_the_function_is_explained_once_and_that_of_its_backward_pass_too(function, mechanisms, shown):
    report = attnspec.check(
        function, operator="rms_norm", framework="torch", dtypes=("float32",), mechanisms=mechanisms
    )
    (witness,) = (c["witness"] for c in report.failures if "witness" in c and "gradient" in c["mechanism"])
    assert [bool(shown), not shown or len(mechanisms) == 1] == ["follows" in witness, witness["full"]]
    assert shown in str(report)
