"""Functions of rows as people write them: logarithms of softmax, and layer norms of a sum, in place or not."""

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


RIGHT = {
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
    log_softmax_backward_of_softmax, log_softmax_backward_without_exponentials, log_softmax_with_another_gradient,
    log_softmax_of_shares, log_softmax_without_the_maximum, log_softmax_of_rows, add_layer_norm_of_the_input,
    add_layer_norm_with_the_stream_from_before, add_rms_norm_of_the_input,
)  # fmt: skip


def is_checked_as_what_it_is(function, report):
    tested = {cell["mechanism"] for cell in report.cells}
    assert {RIGHT[function]} == {name for name in tested if name != f"{RIGHT[function]}_gradient"}


test_a_right_function_conforms = conforming(RIGHT, is_checked_as_what_it_is)
test_a_wrong_function_does_not = refuted(WRONG)
