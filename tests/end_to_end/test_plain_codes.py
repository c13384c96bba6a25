"""Quantization to float8 as vLLM has it: by scales that are given, or found for each row or for everything."""

import torch

from .test_plain_functions import conforming, refuted

FLOAT8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FLOAT8).max
LEAST = 1 / (LARGEST * 512)


def named(name):
    """A function by the name of a known interface."""

    def renamed(function):
        function.__name__ = function.__qualname__ = name
        return function

    return renamed


def coded(x, scale, largest=LARGEST):
    return (x.float() / scale).clamp(-largest, largest).to(FLOAT8)


def scaled_fp8_quant(input, scale=None, scale_ub=None, use_per_token_if_dynamic=False, largest=LARGEST):  # noqa: A002
    if scale is None:
        sizes = input.float().abs()
        sizes = sizes.amax(-1, keepdim=True) if use_per_token_if_dynamic else sizes.max().reshape(1)
        scale = (sizes / LARGEST).clamp(min=LEAST)
    return coded(input, scale, largest), scale.reshape(-1) if scale.numel() == 1 else scale


def static_scaled_fp8_quant(out, input, scale):  # noqa: A002
    out.copy_(coded(input, scale))


def static_scaled_int8_quant(out, input, scale, azp=None):  # noqa: A002
    out.copy_((input.float() / scale).round().clamp(-128, 127).to(torch.int8))


def dynamic_scaled_fp8_quant(out, input, scale):  # noqa: A002
    scale.copy_((input.float().abs().max() / LARGEST).clamp(min=LEAST).reshape(scale.shape))
    out.copy_(coded(input, scale))


def dynamic_per_token_scaled_fp8_quant(out, input, scale, scale_ub=None):  # noqa: A002
    scale.copy_((input.float().abs().amax(-1, keepdim=True) / LARGEST).clamp(min=LEAST))
    out.copy_(coded(input, scale))


@named("scaled_fp8_quant")
def ends_at_240(input, scale=None, scale_ub=None, use_per_token_if_dynamic=False):  # noqa: A002
    return scaled_fp8_quant(input, scale, scale_ub, use_per_token_if_dynamic, 240.0 if scale is not None else LARGEST)


@named("static_scaled_fp8_quant")
def beyond_the_range_is_nan(out, input, scale):  # noqa: A002
    ratio = input.float() / scale
    out.copy_(torch.where(ratio.abs() > 464, torch.nan, ratio.clamp(-LARGEST, LARGEST)).to(FLOAT8))


@named("static_scaled_int8_quant")
def wraps_around(out, input, scale, azp=None):  # noqa: A002
    out.copy_((input.float() / scale).round().to(torch.int32).to(torch.int8))


@named("dynamic_per_token_scaled_fp8_quant")
def of_the_first_row(out, input, scale, scale_ub=None):  # noqa: A002
    dynamic_per_token_scaled_fp8_quant(out, input[:1] + 0 * input, scale)
    out.copy_(coded(input, scale))


RIGHT = (
    scaled_fp8_quant, static_scaled_fp8_quant, static_scaled_int8_quant, dynamic_scaled_fp8_quant,
    dynamic_per_token_scaled_fp8_quant,
)  # fmt: skip

test_a_right_function_conforms = conforming(RIGHT, profile="quick")
test_a_wrong_function_does_not = refuted((ends_at_240, beyond_the_range_is_nan, wraps_around, of_the_first_row))
