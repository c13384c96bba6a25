"""Gradients by the logsumexp that an attention function returns are checked with those by its output."""

import pytest
import torch

import attnspec

MECHANISMS = ("attention_gradient", "lse_gradient")
DEFINITIONS = ("attention_gradient.definition", "lse_gradient.definition")


def checked(function, **more):
    """A check in this process that explains nothing, unless otherwise asked for."""
    more = {"mechanisms": MECHANISMS, "laws": DEFINITIONS, "isolate": False, "explain_time": 0, **more}
    return attnspec.check(function, operator="attention", framework="torch", **more)


def cells(report):
    return [line for line in report.lines if line["kind"] == "cell"]


def failing(report):
    """The mechanisms of which something fails."""
    return {cell["mechanism"] for cell in cells(report) if cell["verdict"] in ("fail", "error", "internal")}


def with_lse(by_lse):
    """An attention function that returns its logsumexp, and whose gradients by it are right or not."""

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, scale):
            scores = scale * (q.float() @ k.float().mT)
            lse = torch.logsumexp(scores, -1)
            p = (scores - lse[..., None]).exp()
            ctx.save_for_backward(q, k, v, p)
            ctx.scale = scale
            return (p @ v.float()).to(q.dtype), lse

        @staticmethod
        def backward(ctx, d, d_lse):
            q, k, v, p = ctx.saved_tensors
            dp = d.float() @ v.float().mT
            ds = ctx.scale * p * (dp - (dp * p).sum(-1, keepdim=True) + by_lse(d_lse)[..., None])
            return (ds @ k.float()).to(q.dtype), (ds.mT @ q.float()).to(k.dtype), (p.mT @ d.float()).to(v.dtype), None

    def attention(q, k, v, *, scale=None):
        keys, values = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        return Attention.apply(q, keys, values, q.shape[-1] ** -0.5 if scale is None else scale)

    return attention


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_right_gradients_by_the_logsumexp_are_conformant(dtype):
    report = checked(with_lse(lambda d: d), dtypes=(dtype,))
    assert [(name, "pass") for name in MECHANISMS] == [(cell["mechanism"], cell["verdict"]) for cell in cells(report)]


@pytest.mark.parametrize(
    ("by_lse", "name"),
    [
        (lambda d: 0 * d, "lse_gradient_ignored"),
        (lambda d: -d, "lse_gradient_subtracted"),
        (lambda d: d[:, :1].expand_as(d), "lse_gradient_of_first_head"),
    ],
)
def test_wrong_gradients_by_the_logsumexp_are_found_and_named(by_lse, name):
    report = checked(with_lse(by_lse), profile="smoke", explain_time=2)
    assert {"lse_gradient"} == failing(report)
    assert f"lse_gradient.{name}" in str(report)


def test_wrong_gradients_by_the_logsumexp_are_found_through_a_known_interface():
    def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None):
        out, lse = with_lse(torch.zeros_like)(*(x.transpose(1, 2) for x in (q, k, v)), scale=softmax_scale)
        return out.transpose(1, 2), lse

    more = {"profile": "smoke", "like": "flash_attn_func"}
    assert {"lse_gradient"} == failing(checked(flash_attn_func, **more))


def by_base_two(q, k, v, *, scale=None):
    out, lse = with_lse(lambda d: d)(q, k, v, scale=scale)
    return out, lse / torch.log(torch.tensor(2.0))


def for_reading(q, k, v, *, scale=None):
    out, lse = with_lse(lambda d: d)(q, k, v, scale=scale)
    return out, lse.detach()


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (by_base_two, "it is a logarithm to another base"),
        (for_reading, "not differentiable: its output number 2 does not depend on its inputs by autograd"),
    ],
)
def test_a_logsumexp_that_cannot_be_judged_by_its_gradients_is_left_out_and_a_line_says_so(function, why):
    report = checked(function, profile="smoke")
    assert ["pass", "not_declared"] == [cell["verdict"] for cell in cells(report)]
    (line,) = [line for line in report.lines if line["kind"] == "subject"]
    assert [f"its gradients by its lse are not checked: {why}"] == line["beside"]
