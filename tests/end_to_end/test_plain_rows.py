"""Functions of rows as people write them: logarithms of softmax, norms of a sum, and gradients of both."""

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def log_softmax(x):
    return torch.log_softmax(x, -1)


def log_softmax_by_the_sum(logits):
    return logits - torch.logsumexp(logits, -1, keepdim=True)


def residual_layer_norm(x, residual, weight, bias, eps=1e-5):
    stream = x + residual
    return F.layer_norm(stream, stream.shape[-1:], weight, bias, eps), stream


def fused_add_layer_norm(x, residual, gamma, beta, eps=1e-5):
    return residual_layer_norm(x, residual, gamma, beta, eps)[0]


def skip_layernorm(x, residual, weight, bias, eps=1e-5):
    residual.add_(x)
    x.copy_(F.layer_norm(residual, residual.shape[-1:], weight, bias, eps))


def add_rms_norm(x, residual, weight, eps=1e-6):
    stream = x + residual
    return stream * torch.rsqrt(stream.pow(2).mean(-1, keepdim=True) + eps) * weight


def log_softmax_of_shares(x):
    return torch.log(torch.softmax(x, -1) + 1e-6)


def log_softmax_without_the_maximum(x):
    return x - torch.log(torch.exp(x).sum(-1, keepdim=True))


def log_softmax_of_rows(x):
    return torch.log_softmax(x, 0)


def add_layer_norm_of_the_input(x, residual, weight, bias, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps), x + residual


def add_layer_norm_with_the_stream_from_before(x, residual, weight, bias, eps=1e-5):
    return residual_layer_norm(x, residual, weight, bias, eps)[0], residual.clone()


def add_rms_norm_of_the_input(x, residual, weight, eps=1e-6):
    return add_rms_norm(x, 0 * residual, weight, eps)


def log_softmax_backward(grad_output, output):
    return grad_output - output.exp() * grad_output.sum(-1, keepdim=True)


def log_softmax_bwd(dy, probs):
    return dy - probs * dy.sum(-1, keepdim=True)


def log_softmax_backward_of_softmax(grad_output, output):
    products = output.exp() * grad_output
    return products - output.exp() * products.sum(-1, keepdim=True)


def log_softmax_backward_without_exponentials(grad_output, output):
    return grad_output - output * grad_output.sum(-1, keepdim=True)


class MeanOfCotangents(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.log_softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return dy - y.exp() * dy.mean(-1, keepdim=True)


def log_softmax_with_another_gradient(x):
    return MeanOfCotangents.apply(x)


def add_rms_norm_backward(dy, x, residual, weight, eps=1e-6):
    dx, dw = through_the_norm(dy, x + residual, weight, eps)
    return dx, dx, dw


def fused_add_rms_norm_bwd(dy, ds_out, s, weight, rstd):
    y, v = s * rstd[:, None], dy * weight
    return rstd[:, None] * (v - y * (v * y).mean(-1, keepdim=True)) + ds_out, (dy * y).sum(0)


def residual_layer_norm_backward(dout, dresidual_out, x, residual, weight, eps=1e-5):
    stream = (x + residual).detach().requires_grad_()
    gamma, beta = weight.detach().requires_grad_(), torch.zeros_like(weight).requires_grad_()
    with torch.enable_grad():
        out = F.layer_norm(stream, stream.shape[-1:], gamma, beta, eps)
    d_stream, d_gamma, d_beta = torch.autograd.grad(out, (stream, gamma, beta), dout)
    return d_stream + dresidual_out, d_gamma, d_beta


def through_the_norm(dy, s, weight, eps):
    rstd = torch.rsqrt(s.square().mean(-1, keepdim=True) + eps)
    y, v = s * rstd, dy * weight
    return rstd * (v - y * (v * y).mean(-1, keepdim=True)), (dy * y).reshape(-1, s.shape[-1]).sum(0)


def fused_add_rms_norm_bwd_of_both_cotangents(dy, ds_out, s, weight, rstd):
    return fused_add_rms_norm_bwd(dy + ds_out, 0 * ds_out, s, weight, rstd)


def fused_add_rms_norm_bwd_of_raw_shares(dy, ds_out, s, weight, rstd):
    return fused_add_rms_norm_bwd(dy, ds_out, s, weight, rstd)[0], (dy * s).sum(0)


def residual_layer_norm_backward_without_the_stream(dout, dresidual_out, x, residual, weight, eps=1e-5):
    return residual_layer_norm_backward(dout, 0 * dresidual_out, x, residual, weight, eps)


class StreamForgotten(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual, weight, eps):
        stream = x + residual
        ctx.save_for_backward(stream, weight)
        ctx.eps = eps
        return F.rms_norm(stream, stream.shape[-1:], weight, eps), stream

    @staticmethod
    def backward(ctx, dy, d_stream):
        dx, dw = through_the_norm(dy, *ctx.saved_tensors, ctx.eps)
        return dx, dx, dw, None


def add_rms_norm_with_another_gradient(x, residual, weight, eps=1e-6):
    return StreamForgotten.apply(x, residual, weight, eps)


RIGHT = {
    add_rms_norm_backward: "residual_rms_norm_gradient",
    fused_add_rms_norm_bwd: "residual_rms_norm_gradient",
    residual_layer_norm_backward: "residual_layer_norm_gradient",
    log_softmax_backward: "log_softmax_gradient",
    log_softmax_bwd: "log_softmax_gradient",
    log_softmax: "log_softmax",
    log_softmax_by_the_sum: "log_softmax",
    residual_layer_norm: "residual_layer_norm",
    fused_add_layer_norm: "residual_layer_norm",
    skip_layernorm: "residual_layer_norm",
    add_rms_norm: "residual_rms_norm",
}
WRONG = (
    fused_add_rms_norm_bwd_of_both_cotangents, fused_add_rms_norm_bwd_of_raw_shares, add_rms_norm_with_another_gradient,
    residual_layer_norm_backward_without_the_stream,
    log_softmax_backward_of_softmax, log_softmax_backward_without_exponentials, log_softmax_with_another_gradient,
    log_softmax_of_shares, log_softmax_without_the_maximum, log_softmax_of_rows, add_layer_norm_of_the_input,
    add_layer_norm_with_the_stream_from_before, add_rms_norm_of_the_input,
)  # fmt: skip


def is_checked_as_what_it_is(function, report):
    tested = {cell["mechanism"] for cell in report.cells}
    assert {RIGHT[function]} == {name for name in tested if name != f"{RIGHT[function]}_gradient"}


test_a_right_function_conforms = conforming(RIGHT, is_checked_as_what_it_is)
test_a_wrong_function_does_not = refuted(WRONG)
