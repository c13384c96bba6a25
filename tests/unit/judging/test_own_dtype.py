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


def half_turned(x):
    one, other = x.chunk(2, -1)
    return torch.cat((-other, one), -1)


def apply_rope(x, cos, sin):
    return x * cos + half_turned(x) * sin


def apply_rope_in_single(x, cos, sin):
    single = x.float()
    return (single * cos + half_turned(single) * sin).to(x.dtype)


def apply_rope_turned_back(x, cos, sin):
    return x * cos - half_turned(x) * sin


def apply_rope_of_another_dtype(x, cos, sin):
    return (x * cos + half_turned(x) * sin).double()


NARROW_TABLES = (
    "`cos` and `sin` are passed in bfloat16, as the result is float32 with tables of float32: its rounding is "
    "judged as bf16_naive"
)


def turned(function, dtypes="bfloat16"):
    return attnspec.check(function, operator="rotary", dtypes=dtypes, profile="smoke", explain_time=0)


def failing(report):
    return {cell["law"] for cell in report.cells if cell["verdict"] == "fail"}


@pytest.mark.parametrize("dtypes", ["bfloat16", ("float32", "bfloat16")])
def test_tables_come_in_the_dtype_of_a_call_where_the_result_has_theirs(dtypes):
    report = turned(apply_rope, dtypes)
    assert {"apply_rope": "conformant"} == report.verdicts, report
    assert NARROW_TABLES in " ".join(str(report).split()), report


@pytest.mark.parametrize(("function", "dtypes"), [(apply_rope_in_single, "bfloat16"), (apply_rope, "float32")])
def test_they_come_in_single_precision_otherwise(function, dtypes):
    report = turned(function, dtypes)
    assert set(report.verdicts.values()) == {"conformant"}, report
    assert "are passed in" not in str(report)


def test_what_is_wrong_with_either_is_not_accused_of_the_dtype_of_tables():
    report = turned(apply_rope_turned_back)
    assert "first_pair" in failing(report)
    assert "contract.dtype" not in failing(report), report


def test_a_result_of_another_dtype_with_either_is_refuted():
    report = turned(apply_rope_of_another_dtype)
    assert "contract.dtype" in failing(report), report
    assert "are passed in" not in str(report), report
