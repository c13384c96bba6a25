"""Scaled and masked softmax as fused kernels and people write it, and its backward pass."""

import numpy as np
import torch

from .test_plain_functions import conforming, refuted


def masked_softmax(x, mask):
    return x.masked_fill(mask == 0, -1e9).softmax(-1)


def scaled_masked_softmax(inputs, mask, scale):
    """A mask that hides keys where it is true, as Megatron has it."""
    return torch.softmax((inputs.float() * scale).masked_fill(mask, -10000.0), -1).to(inputs.dtype)


def scaled_masked_softmax_without_empty_rows(inputs, mask, scale):
    return scaled_masked_softmax(inputs, mask, scale).masked_fill(mask.all(-1, keepdim=True), 0.0)


def scaled_softmax(inputs, scale):
    return torch.softmax(inputs.float() * scale, -1).to(inputs.dtype)


def scale_mask_softmax(scores, attention_mask=None, scale=1.0):
    """The mask is added."""
    scaled = scores.float() * scale
    return torch.softmax(scaled if attention_mask is None else scaled + attention_mask, -1).to(scores.dtype)


def causal_softmax(scores):
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + scores.shape[-1] - scores.shape[-2])
    return torch.softmax(scores.float().masked_fill(future, -torch.inf), -1).to(scores.dtype)


def backward(y, d, scale):
    products = y.float() * d.float()
    return scale * (products - y * products.sum(-1, keepdim=True))


class Causal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs, scale, wrong):
        y = causal_softmax(inputs.float() * scale).to(inputs.dtype)
        ctx.save_for_backward(y)
        ctx.more = scale, wrong
        return y

    @staticmethod
    def backward(ctx, d):
        (y,), (scale, wrong) = ctx.saved_tensors, ctx.more
        grads = backward(y, d, 1.0 if wrong == "unscaled" else scale).to(y.dtype)
        return d.copy_(grads) if wrong == "in place" else grads, None, None


def scaled_upper_triang_masked_softmax(inputs, scale):
    assert inputs.dim() == 3
    assert inputs.shape[-1] == inputs.shape[-2]
    return Causal.apply(inputs, scale, "")


def ggml_soft_max_ext(a: np.ndarray, mask, scale: float, max_bias: float, from_one=1) -> np.ndarray:
    heads = a.shape[1]
    below = 1 << (heads.bit_length() - 1)
    slopes = np.ones(heads, np.float32)
    for h in range(heads if max_bias > 0 else 0):
        exponent = (h + from_one) / below if h < below else (2 * (h - below) + 1) / (2 * below)
        slopes[h] = 2.0 ** (-max_bias * exponent)
    w = a * np.float32(scale)
    w = w if mask is None else w + slopes[:, None, None] * mask
    largest = w.max(-1, keepdims=True)
    terms = np.exp(w - np.where(np.isneginf(largest), 0, largest))
    total = terms.sum(-1, keepdims=True)
    return (terms / np.where(total == 0, 1, total)).astype(np.float32)


def scaled_masked_softmax_backward(output_grads, softmax_results, scale_factor):
    return backward(softmax_results, output_grads, scale_factor).to(output_grads.dtype)


def masked_softmax_bwd(dy, y, scale=1.0):
    return backward(y, dy, scale).to(dy.dtype)


# What is wrong


def masked_softmax_by_product(x, mask):
    return x.softmax(-1) * mask


def scaled_masked_softmax_filled_first(inputs, mask, scale):
    return torch.softmax(inputs.masked_fill(mask, -100.0) * scale, -1)


def scaled_masked_softmax_of_one_mask(inputs, mask, scale):
    return scaled_masked_softmax(inputs, mask[:1], scale)


def scaled_softmax_divided(inputs, scale):
    return scaled_softmax(inputs, 1 / scale)


def causal_softmax_of_one_ahead(scores):
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(2 + scores.shape[-1] - scores.shape[-2])
    return torch.softmax(scores.masked_fill(future, -torch.inf), -1)


def scaled_upper_triang_masked_softmax_in_place(inputs, scale):
    return Causal.apply(inputs, scale, "in place")


def scaled_upper_triang_masked_softmax_unscaled(inputs, scale):
    return Causal.apply(inputs, scale, "unscaled")


def soft_max_ext_from_zero(a: np.ndarray, mask, scale: float, max_bias: float) -> np.ndarray:
    return ggml_soft_max_ext(a, mask, scale, max_bias, from_one=0)


def scaled_masked_softmax_backward_of_whole_blocks(output_grads, softmax_results, scale_factor):
    y, n = softmax_results, softmax_results.shape[-1] // 128 * 128
    return scale_factor * y * (output_grads - (y * output_grads)[..., :n].sum(-1, keepdim=True))


def masked_softmax_bwd_unscaled(dy, y, scale=1.0):
    return backward(y, dy, 1.0)


RIGHT = {
    masked_softmax: "masked_softmax",
    scaled_masked_softmax: "masked_softmax",
    scaled_masked_softmax_without_empty_rows: "masked_softmax",
    scaled_softmax: "masked_softmax",
    scale_mask_softmax: "masked_softmax",
    causal_softmax: "masked_softmax",
    scaled_upper_triang_masked_softmax: "masked_softmax",
    ggml_soft_max_ext: "masked_softmax",
    scaled_masked_softmax_backward: "masked_softmax_gradient",
    masked_softmax_bwd: "masked_softmax_gradient",
}
WRONG = (
    masked_softmax_by_product, scaled_masked_softmax_filled_first, scaled_masked_softmax_of_one_mask,
    scaled_softmax_divided, causal_softmax_of_one_ahead, scaled_upper_triang_masked_softmax_in_place,
    scaled_upper_triang_masked_softmax_unscaled, soft_max_ext_from_zero,
    scaled_masked_softmax_backward_of_whole_blocks, masked_softmax_bwd_unscaled,
)  # fmt: skip


def is_checked_as_what_it_is(function, report):
    tested = {cell["mechanism"] for cell in report.cells}
    assert {RIGHT[function]} == {name for name in tested if name != f"{RIGHT[function]}_gradient"}


test_a_right_function_conforms = conforming(RIGHT, is_checked_as_what_it_is)
test_a_wrong_function_does_not = refuted(WRONG)
