"""Norms that have no parameter for epsilon, each with one of its own: right and wrong ones."""

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def rms_norm(x, weight):
    return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()).to(x.dtype)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-12)


def group_norm(x, num_groups, weight, bias):
    return F.group_norm(x, num_groups, weight, bias, 1e-6)


def fused_add_rmsnorm(x, residual, weight):
    residual.add_(x)
    x.copy_(rms_norm(residual, weight))


def add_rms_norm(x, residual, weight):
    return rms_norm(x + residual, weight), x + residual


def rms_norm_without_epsilon(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)) * weight


def layer_norm_of_the_root(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-6) * weight + bias


def group_norm_of_half_the_groups(x, num_groups, weight, bias):
    return F.group_norm(x, max(num_groups // 2, 1), weight, bias, 1e-6)


def add_rms_norm_of_the_first(x, residual, weight):
    return rms_norm(x, weight), x + residual


RIGHT = (rms_norm, layer_norm, group_norm, fused_add_rmsnorm, add_rms_norm)
WRONG = (
    rms_norm_without_epsilon, layer_norm_of_the_root, group_norm_of_half_the_groups, add_rms_norm_of_the_first,
)  # fmt: skip


test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)
