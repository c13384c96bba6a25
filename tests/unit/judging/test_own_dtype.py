"""Plain functions that take no float32, as kernels in half precision."""

import pytest
import torch

import attnspec
from attnspec.judging.own_dtype import take_own_dtype
from attnspec.subjects.targets import subject, undecorated

HALF = torch.bfloat16, torch.float16


def attended(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
    return (scores.softmax(-1) @ v.float()).to(q.dtype).transpose(1, 2)


def of_half_precision(q, k, v):
    assert q.dtype in HALF, f"unsupported dtype {q.dtype}"
    return attended(q, k, v)


def of_float16(q, k, v):
    if q.dtype != torch.float16:
        raise ValueError("expected half precision")
    return attended(q, k, v)


def of_whole_widths(q, k, v):
    if q.dtype not in HALF:
        raise AssertionError
    assert q.shape[-1] % 16 == 0, "head_dim must be a multiple of 16"
    return attended(q, k, v)


def of_any_precision(q, k, v):
    return attended(q, k, v)


def of_whole_widths_alone(q, k, v):
    assert q.dtype == torch.float32, "float32 alone"
    assert q.shape[-1] % 16 == 0, "head_dim must be a multiple of 16"
    return attended(q, k, v)


def of_nothing(q, k, v):
    raise ValueError("no shape will do")


def wrong(q, k, v):
    assert q.dtype in HALF
    return attended(q, k, v) + v[..., :1].mean(1, keepdim=True)


def read(function):
    one = subject(undecorated(function, "attention", "attention", "torch"), declared=False)
    return take_own_dtype(one, "cpu"), one.claims.dtypes


@pytest.mark.parametrize(
    ("function", "says", "dtype"),
    [
        (of_half_precision, "refuses float32, with AssertionError: unsupported dtype torch.float32: ", "bfloat16"),
        (of_float16, "refuses float32, with ValueError: expected half precision: ", "float16"),
        (of_whole_widths, "refuses float32, with AssertionError: (no message): ", "bfloat16"),
    ],
)
def test_a_function_of_half_precision_is_tried_in_that(function, says, dtype):
    assert read(function) == ([f"{says}tried in {dtype}; --dtype selects another dtype"], (dtype,))


@pytest.mark.parametrize("function", [of_any_precision, of_whole_widths_alone, of_nothing])
def test_any_other_function_is_tried_in_float32(function):
    assert read(function) == ([], ("float32",))


@pytest.mark.parametrize("dtypes", [(), "bfloat16", ("float16", "bfloat16")])
def test_its_layout_is_read_and_its_laws_are_judged(dtypes):
    report = attnspec.check(of_half_precision, operator="attention", dtypes=dtypes, profile="smoke", explain_time=0)
    assert {"of_half_precision": "conformant"} == report.verdicts, report
    assert "reads [batch, length, heads, dim]" in str(report), report
    assert {cell["dtype"] for cell in report.cells} == {
        *([dtypes] if isinstance(dtypes, str) else dtypes or ["bfloat16"])
    }


@pytest.mark.parametrize("dtypes", [(), "float16"])
def test_a_wrong_one_is_refuted(dtypes):
    report = attnspec.check(wrong, operator="attention", dtypes=dtypes, profile="smoke", explain_time=0)
    assert {"wrong": "violated"} == report.verdicts, report


def test_the_dtype_that_is_asked_for_is_kept():
    report = attnspec.check(of_half_precision, operator="attention", dtypes="float32", profile="smoke", explain_time=0)
    assert {cell["dtype"] for cell in report.cells} == {"float32"}
    assert "tried in" not in str(report)
