"""Norms that have no parameter for epsilon, a weight or a bias, or that fuse others: right and wrong ones."""

import pytest
import torch
import torch.nn.functional as F

import attnspec

from .test_plain_functions import conforming, refuted, report_of


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


def rmsnorm_of_a_sum(allreduced, residual, weight, eps):
    return rms_norm_of_a_shape(allreduced + residual, weight.shape, weight, eps), allreduced + residual


def rmsnorm_of_a_sum_but_the_residual(allreduced, residual, weight, eps):
    return rms_norm_of_a_shape(allreduced, weight.shape, weight, eps), allreduced + residual


def rms_norm_without_epsilon(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)) * weight


def layer_norm_of_the_root(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-6) * weight + bias


def group_norm_of_half_the_groups(x, num_groups, weight, bias):
    return F.group_norm(x, max(num_groups // 2, 1), weight, bias, 1e-6)


def add_rms_norm_of_the_first(x, residual, weight):
    return rms_norm(x, weight), x + residual


def rms_norm_without_weight(x, eps=1e-6):
    return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def rms_norm_with_a_gain_or_none(x, g=None, eps=1e-6):
    y = rms_norm_without_weight(x, eps)
    return y if g is None else y * g


def rms_norm_with_a_gain_that_is_lost(x, g=None, eps=1e-6):
    return rms_norm_without_weight(x, eps)


def rms_norm_of_its_dtype(x):
    """The epsilon is that of the dtype, as where none is given to torch."""
    return F.rms_norm(x, x.shape[-1:])


def layernorm_without_bias(x, weight, eps):
    return F.layer_norm(x.float(), x.shape[-1:], weight.float(), None, eps).to(x.dtype)


def layer_norm_alone(x, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def rms_norm_of_a_shape(x, normalized_shape, weight=None, eps=1e-5):
    y = x * torch.rsqrt(x.pow(2).mean(dim=tuple(range(-len(normalized_shape), 0)), keepdim=True) + eps)
    return y if weight is None else y * weight


def fast_group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    return F.group_norm(x, num_groups, weight, bias, eps)


def group_norm_silu(x, num_groups, weight=None, bias=None, eps=1e-5):
    return F.silu(F.group_norm(x, num_groups, weight, bias, eps))


def rms_norm_of_the_sum(x, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + eps)


def layernorm_of_a_quotient(x, weight, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + eps) * weight


def rms_norm_centred(x, normalized_shape, weight=None, eps=1e-5):
    return F.layer_norm(x, normalized_shape, weight, None, eps)


def fast_group_norm_with_silu(x, num_groups, weight=None, bias=None, eps=1e-5):
    return x * torch.sigmoid(F.group_norm(x, num_groups, weight, bias, eps))


def group_norm_silu_before(x, num_groups, weight=None, bias=None, eps=1e-5):
    return F.group_norm(F.silu(x), num_groups, weight, bias, eps)


RIGHT = (
    rms_norm, layer_norm, group_norm, fused_add_rmsnorm, add_rms_norm, rms_norm_without_weight, rms_norm_of_its_dtype,
    layernorm_without_bias, layer_norm_alone, rms_norm_of_a_shape, fast_group_norm, group_norm_silu, rmsnorm_of_a_sum,
    rms_norm_with_a_gain_or_none,
)  # fmt: skip
WRONG = (
    rms_norm_without_epsilon, layer_norm_of_the_root, group_norm_of_half_the_groups, add_rms_norm_of_the_first,
    rms_norm_of_the_sum, layernorm_of_a_quotient, rms_norm_centred, fast_group_norm_with_silu, group_norm_silu_before,
    rmsnorm_of_a_sum_but_the_residual, rms_norm_with_a_gain_that_is_lost,
)  # fmt: skip


test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)


def test_what_has_no_weight_is_tried_on_all_that_shows_a_mistake_of_others():
    assert "which detect 66 of the 66 known mistakes" in str(report_of(rms_norm_without_weight, "smoke"))


SCRIPTED = """
import torch

@torch.jit.script
def rms_norm(x, weight, eps: float = 1e-6):
    return x * torch.rsqrt(x.pow(2).{}(-1, keepdim=True) + eps) * weight
"""


@pytest.mark.parametrize(("of_squares", "verdict"), [("mean", "conformant"), ("sum", "violated")])
def test_a_function_that_torchscript_has_compiled_is_read_as_it_was_written(tmp_path, of_squares, verdict):
    (tmp_path / "scripted.py").write_text(SCRIPTED.format(of_squares))
    found = attnspec.check(f"{tmp_path}/scripted.py:rms_norm", profile="smoke", dtypes="float32", exitfirst=True)
    assert {"rms_norm": verdict} == found.verdicts
