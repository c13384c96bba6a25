"""Codes with scales: what a function is handed, who is tried on them, and how small a fault is found."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.applicability import pins, undeclared
from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Sample
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.numerics.codes import E4M3FN, INT8, coded
from attnspec.subjects.claims import claims_of
from attnspec.subjects.targets import subject

QUANTIZED = library()["quantized_attention"]
CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}
WHOLE = ("size(k_scale) == 1", "size(v_scale) == 1", "kv_heads == heads")
PER_TENSOR = {"requires": WHOLE, "conventions": CONVENTIONS}


def claimed(function, **declaration):
    return claims_of(Adapter("mine", "attention", function, "numpy", **declaration), library()["attention"], True)


def attended(q, k, v, k_scale, v_scale):
    s = q.astype(np.float64) @ (k.astype(np.float64) * k_scale).swapaxes(-1, -2) / np.sqrt(q.shape[3])
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True) @ (v.astype(np.float64) * v_scale)).astype(q.dtype)


def verdicts(function, dtype="float32", **declared):
    declared = {**PER_TENSOR, **declared}
    one = subject(Adapter("function", "attention", function, "numpy", dtypes=(dtype,), **declared))
    cells = run(Request(one, QUANTIZED, dtype, PROFILES["quick"], laws=("definition", "contract.precision"))).cells
    return {cell.law for cell in cells if cell.bad}, sum(cell.cases for cell in cells)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("keys", "values", "bad"), [(1, 1, False), (65 / 64, 1, True), (1, 65 / 64, True), (1, 63 / 64, True)]
)
def test_a_scale_that_is_off_by_one_part_in_64_is_refuted(keys, values, bad, dtype):
    def mine(q, k, v, *, k_scale, v_scale):
        return attended(q, k, v, k_scale * keys, v_scale * values)

    found, cases = verdicts(mine, dtype)
    assert bad is bool(found)
    assert cases > 0


def test_codes_come_in_their_own_dtype_and_scales_in_float32():
    seen = set()

    def mine(q, k, v, *, k_scale, v_scale):
        seen.add((str(q.dtype), str(k.dtype), str(v.dtype), str(k_scale.dtype)))
        return attended(q, k, v, k_scale, v_scale)

    assert set() == verdicts(mine, limits={"kv_dtype": ("e4m3fn", "int8")})[0]
    assert {("float32", each, each, "float32") for each in ("float8_e4m3fn", "int8")} == seen


def test_a_dtype_beyond_the_first_is_claimed_by_a_limit():
    def mine(q, k, v, *, k_scale, v_scale): ...

    assert {"kv_dtype": "e4m3fn", "q_dtype": "q_as_given"}.items() <= pins(QUANTIZED, claimed(mine)).items()
    assert "kv_dtype" not in pins(QUANTIZED, claimed(mine, limits={"kv_dtype": ("int8", "e5m2")}))


def test_who_takes_no_scales_is_not_tried():
    def mine(q, k, v, *, causal=False): ...

    assert "does not take k_scale" == undeclared(QUANTIZED, claimed(mine))
    assert None is undeclared(library()["attention"], claimed(mine))


def test_who_cannot_be_called_without_scales_is_tried_on_codes_alone():
    def mine(q, k, v, *, k_scale, v_scale): ...

    assert "is never called without k_scale" == undeclared(library()["attention"], claimed(mine))
    assert None is undeclared(QUANTIZED, claimed(mine))


def test_who_may_be_called_without_scales_is_tried_on_both():
    def mine(q, k, v, *, k_scale=None, v_scale=None): ...

    assert [None, None] == [undeclared(m, claimed(mine)) for m in (library()["attention"], QUANTIZED)]


def scenario(name):
    return next(s for s in _scenarios() if s.case.label == name)


def _scenarios():
    from attnspec.cases.plans import plan
    from attnspec.subjects.claims import Claims

    claims = Claims(frozenset({*QUANTIZED.optional, *QUANTIZED.options}), ("float32",))
    return plan(QUANTIZED, claims, PROFILES["quick"], 0, "float32").scenarios


@pytest.mark.parametrize(("name", "fmt"), [("plain", E4M3FN), ("plain_integers", INT8)])
def test_what_is_drawn_are_codes(name, fmt):
    sample = scenario(name)
    for code in ("k", "v"):
        np.testing.assert_array_equal(coded(sample.values[code], fmt), sample.values[code])
        assert 5 < np.abs(sample.values[code]).max() <= fmt.largest


def test_a_case_is_drawn_again_from_its_key():
    sample = scenario("codes_of_queries")
    again = Sample(QUANTIZED, sample.case, "float32")
    np.testing.assert_array_equal(sample.values["q"], again.values["q"])
    np.testing.assert_array_equal(coded(again.values["q"], E4M3FN), again.values["q"])


def test_codes_are_codes_where_float64_is_under_test():
    assert ["float8_e4m3fn", "float64", "float64"] == [
        QUANTIZED.dtype_of(name, "float64", scenario("plain").values) for name in ("k", "k_scale", "q")
    ]
