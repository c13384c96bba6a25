"""Classes and functions whose names say nothing, as those of KernelBench: their files say what they are."""

import pytest

import attnspec
from attnspec.errors import UsageError

KERNELS = """
import torch
import torch.nn as nn
import torch.nn.functional as F


def triton_softmax(x):
    return {softmax}


def rmsnorm_cuda(x, weight, eps=1e-6):
    return {norm}


def flash(q, k, v):
    return (q @ k.mT {scaled}).softmax(-1) @ v


class Model(nn.Module):
    '''
    Simple model that performs a Softmax activation.
    '''
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        '''Applies Softmax activation to the input tensor.'''
        return torch.softmax(x, dim=1)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return triton_softmax(x)


class Normed(nn.Module):
    def forward(self, x, weight):
        return rmsnorm_cuda(x, weight, eps=1e-6)


class Attends(nn.Module):
    '''Scaled dot-product attention.'''
    def forward(self, Q, K, V):
        return flash(Q, K, V)


class Product(nn.Module):
    '''Multiplies matrices, and then takes a softmax.'''
    def forward(self, x, y):
        return torch.softmax(torch.matmul(x, y), -1)


class Unsaid(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    x = torch.randn(16, 16384).contiguous()
    return [x]


def get_init_inputs():
    return []  # No special initialization inputs needed
"""
RIGHT = {
    "softmax": "torch.softmax(x, -1)",
    "norm": "(x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)",
    "scaled": "* q.shape[-1] ** -0.5",
}
WRONG = {"softmax": "x.exp() / x.exp().sum(-1, keepdim=True)", "norm": "x * weight", "scaled": ""}


@pytest.fixture
def model(tmp_path):
    def written(name, **texts):
        text = KERNELS
        for key, code in {**RIGHT, **texts}.items():
            text = text.replace(f"{{{key}}}", code)
        (tmp_path / "23_kernels.py").write_text(text)
        return f"{tmp_path / '23_kernels.py'}:{name}"

    return written


def checked(target):
    return attnspec.check(target, dtypes=("float32",), explain_time=0)


@pytest.mark.parametrize("name", ["Model", "ModelNew", "Normed", "Attends"])
def test_who_only_calls_what_its_file_says_is_checked_as_that(model, name):
    report = checked(model(name))
    assert {name: "conformant"} == report.verdicts, report
    rows = "`get_inputs` of its file makes arrays of which ndim(x) == 2 holds: no others are tried"
    assert (rows in str(report)) is (name != "Attends")


@pytest.mark.parametrize("name", ["ModelNew", "Normed", "Attends"])
def test_who_is_wrong_is_refuted(model, name):
    assert {name: "violated"} == checked(model(name, **WRONG)).verdicts


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Product", "its documentation says softmax: add --operator softmax"),
        ("Unsaid", "add --operator NAME ('attnspec list operators')"),
    ],
)
def test_what_a_file_speaks_of_is_told_where_it_leaves_a_doubt(model, name, says):
    with pytest.raises(UsageError) as told:
        checked(model(name))
    assert f"the name {name!r} does not say which operator it is; {says}" == str(told.value)
