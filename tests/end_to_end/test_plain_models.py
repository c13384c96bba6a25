"""Classes and functions whose names say nothing, as those of KernelBench: their files say what they are."""

import pytest

import attnspec
from attnspec.errors import TargetError, UsageError

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


MADE = """
import torch
import torch.nn as nn

DIM = 1


class Model(nn.Module):
    'Softmax.'
    def __init__(self, {parameters}):
        super().__init__()
        self.dim = dim
        self.factor = factor

    def forward(self, x):
        return torch.softmax({x}, dim=self.dim)


class ModelNew(Model):
    def forward(self, x):
        return torch.softmax({x}, dim=self.dim)


def get_inputs():
    return [torch.randn(16, 16384)]
{made}
"""


@pytest.fixture
def made(tmp_path):
    def written(made, parameters="dim, factor=1", x="self.factor * x", name="Model"):
        text = MADE
        for key, code in {"made": made, "parameters": parameters, "x": x}.items():
            text = text.replace(f"{{{key}}}", code)
        (tmp_path / "1_made.py").write_text(text)
        return f"{tmp_path / '1_made.py'}:{name}"

    return written


def get_init_inputs(text):
    return f"\n\ndef get_init_inputs():\n    return {text}"


def checked(target):
    return attnspec.check(target, profile="smoke", dtypes=("float32",), explain_time=0)


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


@pytest.mark.parametrize("name", ["Model", "ModelNew"])
@pytest.mark.parametrize(
    ("given", "parameters", "verdict"),
    [
        ("[1]", "dim, factor=1", "conformant"),
        ("[DIM]", "dim, factor=1", "conformant"),
        ("[[1], {'factor': 1}]", "dim, factor", "conformant"),
        ("[1]", "dim=0, factor=1", "conformant"),
        ("[1, 2]", "dim, factor", "violated"),
        ("[[], {'dim': 1, 'factor': 0.5}]", "dim, factor=1", "violated"),
    ],
)
def test_a_class_is_made_with_what_its_file_says(made, name, given, parameters, verdict):
    target = made(get_init_inputs(given), parameters, name=name)
    report = attnspec.check(target, operator="softmax", profile="smoke", dtypes=("float32",), explain_time=0)
    assert {name: verdict} == report.verdicts, report


def test_what_a_module_holds_says_the_last_axis(made):
    plain = {"parameters": "dim, factor=None", "x": "x"}
    assert {"Model": "conformant"} == checked(made(get_init_inputs("[DIM]"), **plain)).verdicts
    with pytest.raises(UsageError, match="its documentation says softmax: add --operator softmax"):
        checked(made(get_init_inputs("[0]"), **plain))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "Model is a class that asks for dim, factor, and its file has no get_init_inputs() that returns a list"),
        (get_init_inputs("[1]"), "Model is a class that cannot be made with what get_init_inputs() of its file "),
        (
            get_init_inputs("[1, 2 / 0]"),
            "of its file returns, with ZeroDivisionError: division by zero; 'attnspec init",
        ),
    ],
)
def test_what_a_class_is_not_made_with_is_told(made, given, says):
    with pytest.raises(TargetError) as told:
        checked(made(given, "dim, factor"))
    assert says in str(told.value)
