"""Gradients of cross-entropy, with the last product and without: witnesses against autograd, and faults found."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

RNG = np.random.default_rng(0)
LOGITS, HIDDEN, WEIGHT, BIAS = (RNG.normal(size=shape) for shape in ((4, 5), (4, 3), (5, 3), (5,)))
TARGETS, EACH = np.array([2, -1, 0, 4]), RNG.normal(size=4)
OPTIONS = [{}, {"label_smoothing": 0.2}, {"softcap": 2.0}, {"z_loss": 0.5}]


def stated(name):
    """Both witnesses of an operator of one output."""

    def by_definition(**given):
        return Frame(library()[name], given).outputs()

    return [pytest.param(f, id=word) for word, f in (("definition", by_definition), ("reference", by_reference(name)))]


def by_reference(name):
    def witness(**given):
        found = getattr(reference, name)(**given)
        return found if isinstance(found, dict) else {library()[name].outputs[0]: found}

    return witness


def losses(x, *, label_smoothing=0.0, softcap=None, z_loss=0.0):
    """The losses of the tokens by elementary operations, zero for the one that is ignored."""
    x = x if softcap is None else softcap * torch.tanh(x / softcap)
    logs, valid = x - x.exp().sum(1, keepdim=True).log(), torch.from_numpy(TARGETS) >= 0
    own = -(1 - label_smoothing) * logs[torch.arange(4), TARGETS] - label_smoothing * logs.mean(1)
    return (own + z_loss * x.exp().sum(1).log() ** 2) * valid


def reduced(x, word):
    return x if word == "each" else x.sum() / (3 if word == "averaged" else 1)


@pytest.mark.parametrize("witness", stated("cross_entropy_gradient"))
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("word", ["each", "summed", "averaged"])
def test_the_gradient_of_logits_is_the_derivative_of_the_loss(witness, options, word):
    x, d_out = torch.from_numpy(LOGITS).requires_grad_(), EACH if word == "each" else np.array(-1.5)
    reduced(losses(x, **options), word).backward(torch.from_numpy(d_out))
    found = witness(logits=LOGITS, targets=TARGETS, d_out=d_out, ignore_index=-1, reduction=word, **options)
    np.testing.assert_allclose(found["d_logits"], x.grad, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("witness", stated("linear_cross_entropy"))
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("word", ["each", "summed", "averaged"])
def test_the_loss_is_that_of_the_products(witness, options, word):
    x = torch.from_numpy(HIDDEN @ WEIGHT.T + BIAS)
    given = {"hidden": HIDDEN, "weight": WEIGHT, "targets": TARGETS, "bias": BIAS, "ignore_index": -1}
    found = witness(**given, reduction=word, **options)["loss"]
    np.testing.assert_allclose(found, reduced(losses(x, **options), word), rtol=1e-12)


@pytest.mark.parametrize("witness", stated("linear_cross_entropy_gradient"))
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("word", ["each", "summed", "averaged"])
def test_the_gradients_of_tokens_weight_and_bias_are_derivatives_of_the_loss(witness, options, word):
    arrays = {"hidden": HIDDEN, "weight": WEIGHT, "bias": BIAS}
    leaves = {name: torch.from_numpy(x).requires_grad_() for name, x in arrays.items()}
    d_out = EACH if word == "each" else np.array(-1.5)
    x = leaves["hidden"] @ leaves["weight"].T + leaves["bias"]
    reduced(losses(x, **options), word).backward(torch.from_numpy(d_out))
    found = witness(**arrays, targets=TARGETS, d_out=d_out, ignore_index=-1, reduction=word, **options)
    for name, x in leaves.items():
        np.testing.assert_allclose(found[f"d_{name}"], x.grad, rtol=1e-11, atol=1e-14, err_msg=name)


def test_the_references_refuse_what_is_outside_the_domain():
    with pytest.raises(ValueError, match="every token has a target"):
        reference.cross_entropy_gradient(LOGITS, TARGETS[:-1], 1.0)
    with pytest.raises(ValueError, match="as many channels"):
        reference.linear_cross_entropy(HIDDEN, WEIGHT[:, :-1], TARGETS)


# Functions as people write them


def failing(function, operator):
    words = {} if operator.endswith("gradient") else {"no_tokens_left": "nans"}
    one = subject(Adapter("function", operator, function, "torch", conventions=words))
    laws = frozenset({"definition"})
    cells = run(Request(one, library()[operator], "float32", PROFILES["smoke"], laws=laws)).cells
    return {cell.law for cell in cells if cell.bad}


def by_chunks(hidden, weight, targets, d_out, *, ignore_index=-100, reduction="mean", own=lambda d, i: d[i : i + 16]):
    """The gradients of all chunks, multiplied by that of the loss in the end or, where nothing is reduced, before."""
    valid = targets != ignore_index
    part = (d_out / (valid.sum() if reduction == "mean" else 1)).expand(len(valid))
    d_hidden, d_weight = torch.zeros_like(hidden), torch.zeros_like(weight)
    for i in range(0, len(hidden), 16):
        h, y, counts = (x[i : i + 16] for x in (hidden, targets, valid))
        p = (h @ weight.T).softmax(1)
        p[torch.arange(len(y)), y.where(counts, 0)] -= 1
        d = p * counts[:, None] * own(part, i)[:, None]
        d_hidden[i : i + 16], d_weight = d @ weight, d_weight + d.T @ h
    return {"d_hidden": d_hidden, "d_weight": d_weight}


def test_a_fused_backward_pass_that_is_right_passes():
    assert set() == failing(by_chunks, "linear_cross_entropy_gradient")


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(lambda d, i: torch.ones_like(d)[i : i + 16], id="ignored"),
        pytest.param(lambda d, i: d[:1].expand(len(d))[i : i + 16], id="first token"),
        pytest.param(lambda d, i: (d * (d == d[0]).all())[i : i + 16], id="zero where they differ"),
    ],
)
def test_a_gradient_of_the_loss_that_is_taken_wrongly_in_a_fused_backward_pass_is_found(own):
    def linear_cross_entropy_gradient(hidden, weight, targets, d_out, *, ignore_index=-100, reduction="mean"):
        return by_chunks(hidden, weight, targets, d_out, ignore_index=ignore_index, reduction=reduction, own=own)

    assert {"definition"} == failing(linear_cross_entropy_gradient, "linear_cross_entropy_gradient")


class Detached(torch.autograd.Function):
    """The cross-entropy of torch, whose backward pass takes the gradient of the loss for one."""

    @staticmethod
    def forward(ctx, logits, targets, reduction):
        ctx.save_for_backward(logits, targets)
        ctx.reduction = reduction
        return torch.nn.functional.cross_entropy(logits, targets, reduction=reduction)

    @staticmethod
    def backward(ctx, d):
        logits, targets = ctx.saved_tensors
        with torch.enable_grad():
            x = logits.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(x, targets, reduction=ctx.reduction)
            return torch.autograd.grad(loss.sum(), x)[0], None, None


@pytest.mark.parametrize("wrong", [False, True])
def test_the_gradient_of_a_plain_loss_comes_along(wrong):
    def cross_entropy(logits, targets, *, reduction="mean"):
        if wrong:
            return Detached.apply(logits, targets, reduction)
        return torch.nn.functional.cross_entropy(logits, targets, reduction=reduction)

    laws = ("cross_entropy.definition", "cross_entropy_gradient.definition")
    more = {"operator": "cross_entropy", "framework": "torch", "profile": "smoke", "isolate": False}
    report = attnspec.check(cross_entropy, dtypes=("float32",), laws=laws, **more)
    verdicts = {line["mechanism"]: line["verdict"] for line in report.lines if line["kind"] == "cell"}
    assert {"cross_entropy": "pass", "cross_entropy_gradient": "fail" if wrong else "pass"} == verdicts
