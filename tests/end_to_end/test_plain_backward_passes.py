"""Functions whose backward passes take fewer calls than they do themselves."""

import torch

from .test_plain_functions import conforming, refuted


class Flattened(torch.autograd.Function):
    """A softmax whose backward pass sees rows as one."""

    @staticmethod
    def forward(ctx, x, factor):
        p = torch.softmax(x, -1)
        ctx.save_for_backward(p.contiguous())
        ctx.factor = factor
        return p

    @staticmethod
    def backward(ctx, d_out):
        (p,) = ctx.saved_tensors
        d_out = d_out.view(-1).reshape(p.shape)
        return ctx.factor * p * (d_out - (p * d_out).sum(-1, keepdim=True)), None


def softmax(x):
    return Flattened.apply(x, 1.0)


def softmax_with_half_its_gradient(x):
    return Flattened.apply(x, 0.5)


class Ungrouped(torch.autograd.Function):
    """Attention whose backward pass knows no groups of heads."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v

    @staticmethod
    def backward(ctx, d_out):
        q, k, v = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        p = torch.einsum("bhsd,bhtd->bhst", q, k).mul(scale).softmax(-1)
        d_p = torch.einsum("bhse,bhte->bhst", d_out, v)
        d_s = scale * p * (d_p - (p * d_p).sum(-1, keepdim=True))
        return d_s @ k, d_s.mT @ q, p.mT @ d_out


def attention(q, k, v):
    return Ungrouped.apply(q, k, v)


def is_said(function, report):
    text = {softmax: "its backward pass fails where arrays are not contiguous", attention: "unless heads == kv_heads"}
    assert text[function] in str(report)


test_a_right_function_conforms = conforming((softmax, attention), is_said, "quick")
test_a_wrong_function_does_not = refuted((softmax_with_half_its_gradient,), "quick")
