"""Whether wrong gradients are those of what the function itself returns."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import attnspec
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.answered import observed
from attnspec.diagnosis.derivatives import TELLING, _Direction, ends_alike, own_derivatives
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.gradients import GradientSubject
from attnspec.subjects.targets import subject

GRADIENT = library()["rms_norm_gradient"]


def normed(x, weight, eps):
    x, weight = x.double(), weight.double()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


class Passing(torch.autograd.Function):
    """Right, without a backward pass of its own."""

    @staticmethod
    def forward(x):
        return 1.0 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class Halved(Passing):
    """Right, but for its backward pass."""

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


def attended(q, k, v, *, causal=False):
    """Attention that is causal if that is asked for, with the queries from the first key on."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    return scores, torch.softmax(scores, -1) @ v


def always_causal(q, k, v):
    return attended(q, k, v, causal=True)[1]


def smoothed_by_others(logits, targets, label_smoothing=0.0):
    """The smoothed share goes to the other words; ignored tokens count."""
    logs, kept = torch.log_softmax(logits, -1), targets != -100
    own = -logs.gather(-1, torch.where(kept, targets, 0)[:, None])[:, 0]
    others = -(logs.sum(-1) + own) / max(logits.shape[-1] - 1, 1)
    return torch.where(kept, (1 - label_smoothing) * own + label_smoothing * others, 0).sum() / kept.sum()


def smoothed_by_others_and_wrong_backward(logits, targets, label_smoothing=0.0):
    loss = smoothed_by_others(logits, targets, label_smoothing)
    return Halved.apply(loss) if label_smoothing else loss


def centred(x, weight, eps=1e-6):
    return normed(x - x.mean(-1, keepdim=True), weight, eps).to(x.dtype)


def gradients_of(function, dtype="float64", operator="rms_norm", gradient="rms_norm_gradient"):
    """The bench of the gradients of a function, and what was observed of their first failure."""
    adapter = Adapter("norm", operator, function, "torch", dtypes=(dtype,))
    m = library()[gradient]
    one = GradientSubject(subject(adapter), m)
    result = run(Request(one, m, dtype, PROFILES["quick"], laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    return result.bench, observed(result.bench, failure, 0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("function", [scaled, without_weight_in_wide_rows])
def test_gradients_of_wrong_outputs_are_told_from_them(function, dtype):
    found = own_derivatives(*gradients_of(function, dtype))
    assert ("rms_norm", True) == (found.operator, found.told >= TELLING)


@pytest.mark.parametrize(
    ("function", "operator", "gradient"),
    [
        pytest.param(always_causal, "attention", "attention_gradient", id="by steps that are a little too long"),
        pytest.param(smoothed_by_others, "cross_entropy", "cross_entropy_gradient", id="along more directions"),
        pytest.param(centred, "rms_norm", "rms_norm_gradient", id="which are zero"),
    ],
)
def test_gradients_of_wrong_outputs_are_told_from_them_though_few_differences_tell(function, operator, gradient):
    found = own_derivatives(*gradients_of(function, "float32", operator, gradient))
    assert (operator, True) == (found.operator, found.told >= TELLING)


def test_a_wrong_backward_pass_is_a_fault_of_its_own_though_few_differences_tell():
    bench, calls = gradients_of(
        smoothed_by_others_and_wrong_backward, "float32", "cross_entropy", "cross_entropy_gradient"
    )
    assert own_derivatives(bench, calls) is None


@pytest.mark.parametrize(("function", "bent"), [(np.max, True), (lambda x: np.exp(8 * x).sum(), False)])
def test_a_difference_says_nothing_where_several_entries_are_the_largest(function, bent):
    x = np.array([0.5, 0.5, 0.5])
    mechanism = SimpleNamespace(outputs={"out": None})
    replies = SimpleNamespace(
        forward=SimpleNamespace(mechanism=mechanism),
        forward_reply=lambda call, inputs: SimpleNamespace(outputs={"out": function(inputs["x"])}),
    )
    call = SimpleNamespace(inputs={"x": x, "d_out": np.array(1.0)}, dtype="float32")
    assert bent is _Direction(replies, call, "x", np.array([1.0, 0.2, -0.1]), own=1.0, right=2.0).bent(0.002)


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
    given = {"profile": "smoke", "dtypes": ("float32",), "mechanisms": mechanisms}
    report = attnspec.check(function, operator="rms_norm", framework="torch", **given)
    (witness,) = (c["witness"] for c in report.failures if "witness" in c and "gradient" in c["mechanism"])
    assert [bool(shown), not shown or len(mechanisms) == 1] == ["follows" in witness, witness["full"]]
    assert shown in str(report)


class Refusing(Passing):
    """Right, and its backward pass fails."""

    @staticmethod
    def backward(ctx, d_out):
        raise RuntimeError("rows are too wide")


def without_result(x, weight, eps=1e-6):
    if x.shape[-1] > 3:
        raise RuntimeError("rows are too wide")
    return normed(x, weight, eps).to(x.dtype)


def without_gradients(x, weight, eps=1e-6):
    y = normed(x, weight, eps)
    return (Refusing.apply(y) if x.shape[-1] > 3 else y).to(x.dtype)


@pytest.mark.parametrize(("function", "alike"), [(without_result, True), (without_gradients, False)])
def test_a_call_without_gradients_may_be_one_without_a_result(function, alike):
    m = library()["rms_norm_gradient"]
    forward, other = (
        subject(Adapter("norm", "rms_norm", x, "torch", dtypes=("float32",))) for x in (without_gradients, function)
    )
    one = GradientSubject(forward, m)
    result = run(Request(one, m, "float32", PROFILES["quick"], laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    one.forward = other
    found = ends_alike(result.bench, failure)
    assert ("rms_norm", 0) == (found.operator, found.told) if alike else found is None
