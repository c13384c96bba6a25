"""Functions of rows that take arrays of three or four axes and no others, as the layers of models pass them."""

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def softmax(scores):
    _batch, _heads, _length, _keys = scores.shape
    return torch.softmax(scores, -1)


def rms_norm(x, weight, eps=1e-6):
    """Norm of queries, a head at a time."""
    _batch, _length, _heads, _dim = x.shape
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def cross_entropy(logits, targets):
    _batch, _length, vocab = logits.shape
    return F.cross_entropy(logits.reshape(-1, vocab), targets.reshape(-1))


def cross_entropy_of_each(logits, targets):
    batch, length, vocab = logits.shape
    return F.cross_entropy(logits.reshape(-1, vocab), targets.reshape(-1), reduction="none").view(batch, length)


def cross_entropy_of_each_in_a_row(logits, targets):
    return cross_entropy_of_each(logits, targets).reshape(-1)


def fused_linear_cross_entropy(hidden, weight, targets):
    _batch, _length, dim = hidden.shape
    return F.cross_entropy(hidden.reshape(-1, dim) @ weight.T, targets.reshape(-1))


def kl_div_loss(log_probs, teacher):
    _batch, _length, _vocab = log_probs.shape
    return (teacher.exp() * (teacher - log_probs)).sum(-1).mean()


def quantize(x):
    return coded(x, 127)


def coded(x, levels):
    _batch, _length, _dim = x.shape
    scale = (x.abs().amax(-1, keepdim=True) / levels).clamp(min=1e-12)
    return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale


def silu_and_mul(x):
    _batch, _length, dim = x.shape
    return F.silu(x[..., : dim // 2]) * x[..., dim // 2 :]


def mlp_swiglu(x, w_gate, w_up, w_down):
    _batch, _length, _dim = x.shape
    return (F.silu(x @ w_gate) * (x @ w_up)) @ w_down


def layer_norm_2d(x, weight, bias, eps=1e-6):
    """As ConvNeXt has it: channels are the second axis."""
    return layer_norm_over(1, x, weight, bias, eps)


def rms_norm_of_channels(x, weight, eps=1e-6):
    _batch, channels, _length = x.shape
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + eps) * weight.view(1, channels, 1)


def layer_norm_2d_of_lines(x, weight, bias, eps=1e-6):
    """All channels of a line have one mean."""
    return layer_norm_over((1, 3), x, weight, bias, eps)


def layer_norm_2d_of_items(x, weight, bias, eps=1e-6):
    return layer_norm_over((0, 1), x, weight, bias, eps)


def layer_norm_over(axes, x, weight, bias, eps):
    centred = x - x.mean(axes, keepdim=True)
    normed = centred / torch.sqrt(centred.square().mean(axes, keepdim=True) + eps)
    return weight[:, None, None] * normed + bias[:, None, None]


def softmax_over_heads(scores):
    _batch, _heads, _length, _keys = scores.shape
    return scores.exp() / scores.exp().sum((1, 3), keepdim=True)


def softmax_over_items(scores):
    _batch, _heads, _length, _keys = scores.shape
    return scores.exp() / scores.exp().sum((0, 3), keepdim=True)


def silu_and_mul_of_the_first_item(x):
    _batch, _length, dim = x.shape
    return F.silu(x[:1, :, : dim // 2]) * x[..., dim // 2 :]


def cross_entropy_of_the_first_item(logits, targets):
    _batch, _length, _vocab = logits.shape
    return F.cross_entropy(logits[0], targets[0])


def softmax_of_queries(scores):
    _batch, _heads, _length, _keys = scores.shape
    return torch.softmax(scores, -2)


def layer_norm_of_another_epsilon(x, weight, bias, eps=1e-5):
    _batch, _length, _heads, dim = x.shape
    return F.layer_norm(x, (dim,), weight, bias, 10 * eps)


def cross_entropy_of_all(logits, targets):
    return cross_entropy_of_each(logits, targets).mean()


def linear_cross_entropy_of_all(hidden, weight, targets):
    return cross_entropy_of_all(hidden @ weight.T, targets)


def quantize_by_128(x):
    return coded(x, 128)


def mul_and_silu(x):
    _batch, _length, dim = x.shape
    return F.silu(x[..., : dim // 2]) * x[..., : dim // 2]


LAYOUTS = {
    softmax: "bhrn",
    rms_norm: "bhrn",
    cross_entropy: "bnv",
    cross_entropy_of_each: "bnv",
    cross_entropy_of_each_in_a_row: "bnv_to_n",
    fused_linear_cross_entropy: "bnd",
    kl_div_loss: "bnv",
    quantize: "brn",
    silu_and_mul: "brw",
    mlp_swiglu: "brd",
    layer_norm_2d: "bnhr",
    rms_norm_of_channels: "bnr",
}
WRONG = [
    softmax_of_queries,
    layer_norm_of_another_epsilon,
    cross_entropy_of_all,
    linear_cross_entropy_of_all,
    quantize_by_128,
    mul_and_silu,
    layer_norm_2d_of_lines,
    layer_norm_2d_of_items,
    softmax_over_heads,
    softmax_over_items,
    silu_and_mul_of_the_first_item,
    cross_entropy_of_the_first_item,
]


def in_its_layout(function, report):
    assert f'declare layout = "{LAYOUTS[function]}"' in str(report).splitlines()[0]


test_a_right_function_conforms = conforming(LAYOUTS, in_its_layout)
test_a_wrong_function_does_not = refuted(WRONG)
