"""What experts are made of: products of groups, activations with a limit, and weights with scales of blocks."""

import itertools

import torch

from .test_plain_functions import conforming, refuted


def grouped_mm(inputs, weight, offsets):
    """As unsloth has it: groups by where they end."""
    starts = [0, *offsets.tolist()]
    parts = [inputs[a:b] @ weight[g] for g, (a, b) in enumerate(itertools.pairwise(starts))]
    return torch.cat(parts)


def grouped_gemm(x, w, offsets):
    """By where they begin, and the last one ends."""
    ends = offsets.tolist()
    parts = [x[a:b] @ w[g] for g, (a, b) in enumerate(itertools.pairwise(ends))]
    return torch.cat(parts)


def grouped_mm_of_the_first_matrix(inputs, weight, offsets):
    starts = [0, *offsets.tolist()]
    return torch.cat([inputs[a:b] @ weight[0] for a, b in itertools.pairwise(starts)])


def swiglu(x, alpha: float = 1.702, limit: float = 7.0):
    """As torchtitan has it: its two addends may cancel, and so may those of its gradient."""
    gate, up = x[..., ::2].clamp(max=limit), x[..., 1::2].clamp(-limit, limit)
    passed = gate * torch.sigmoid(alpha * gate)
    return torch.addcmul(passed, passed, up)


def swiglu_torch_forward(a, alpha, limit, dtype=None):
    """As unsloth has it."""
    gate, up = a[..., ::2].clamp(max=limit), a[..., 1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)


class Gated(torch.autograd.Function):
    """As Liger Kernel has it: a backward pass of its own for the gate and its partner."""

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx, d_out):
        gate, up = ctx.saved_tensors
        share = torch.sigmoid(gate)
        return d_out * up * share * (1 + gate * (1 - share)), d_out * gate * share


class GatedWithoutItsProduct(Gated):
    @staticmethod
    def backward(ctx, d_out):
        gate, up = ctx.saved_tensors
        return d_out * up * torch.sigmoid(gate), d_out * torch.nn.functional.silu(gate)


def silu_mul(gate, up):
    return Gated.apply(gate, up)


def silu_mul_without_its_product(gate, up):
    return GatedWithoutItsProduct.apply(gate, up)


def swiglu_torch_forward_without_one(a, alpha, limit, dtype=None):
    gate, up = a[..., ::2].clamp(max=limit), a[..., 1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * up


def fp8_dequant_blockwise(W_fp8, scale_inv, block_size=None):
    """As unsloth has it: a scale alone, and no zero point in the place of a size."""
    return W_fp8.to(scale_inv.dtype) * scale_inv


def dequant_mxfp8_reference(q, sf):
    """As Quack has it: the bytes of scales are taken as such."""
    scales = torch.exp2(sf.view(torch.uint8).float() - 127)
    return q.to(torch.float32) * scales.repeat_interleave(32, 1) if q.dtype == torch.float8_e4m3fn else 0 * q


def fp8_dequant_of_twice_the_scale(W_fp8, scale_inv, block_size=None):
    return W_fp8.to(scale_inv.dtype) * scale_inv * 2


def dequant_mxfp8(x, scales):
    """As SGLang and vLLM have it: codes in float8, and scales as powers of two."""
    blocks = x.float().reshape(*x.shape[:-1], -1, 32)
    if x.dtype != torch.float8_e4m3fn:
        raise TypeError("codes are in float8_e4m3fn")
    return (blocks * torch.exp2(scales.float() - 127)[..., None]).reshape(x.shape)


def nvfp4_dequantize(packed, scale, global_scale):
    """As compressed-tensors has it: scales in float8."""
    if scale.dtype != torch.float8_e4m3fn:
        raise TypeError("scales are in float8_e4m3fn")
    codes = torch.stack((packed & 15, packed >> 4), -1).flatten(-2)
    sizes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])[(codes & 7).long()]
    numbers = torch.where(codes >= 8, -sizes, sizes).reshape(*packed.shape[:-1], -1, 16)
    return (numbers * (scale.float() / global_scale)[..., None]).flatten(-2)


def nvfp4_dequantize_of_the_high_half_first(packed, scale, global_scale):
    return nvfp4_dequantize(packed >> 4 | packed << 4, scale, global_scale)


def selective_log_softmax(logits, index):
    """As unsloth has it: an index that is no class raises no error, and nothing is said of it."""
    own = torch.arange(logits.shape[-1]) == index.unsqueeze(-1)
    return torch.where(own, logits, 0.0).sum(-1) - torch.logsumexp(logits, -1)


def selective_log_softmax_of_the_others(logits, index):
    own = torch.arange(logits.shape[-1]) == index.unsqueeze(-1)
    return torch.where(own, logits, 0.0).sum(-1) - torch.logsumexp(torch.where(own, -1e30, logits), -1)


RIGHT = (
    grouped_mm, grouped_gemm, swiglu, swiglu_torch_forward, silu_mul, fp8_dequant_blockwise, selective_log_softmax,
    dequant_mxfp8, dequant_mxfp8_reference, nvfp4_dequantize,
)  # fmt: skip
WRONG = (
    grouped_mm_of_the_first_matrix, swiglu_torch_forward_without_one, fp8_dequant_of_twice_the_scale,
    selective_log_softmax_of_the_others, silu_mul_without_its_product,
    nvfp4_dequantize_of_the_high_half_first,
)  # fmt: skip
test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)
