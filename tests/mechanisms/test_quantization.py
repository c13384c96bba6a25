"""Affine quantization: the definitions against exact fractions, faulty quantizers found, right ones left alone."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.numbers import Number
from attnspec.numerics.primitives import rint
from attnspec.subjects.targets import subject

X = np.array([-1.2834, 0.0, 0.7193, 2.9157, -0.2048])
INTEGER = {"quantized_range": "data", "zero_point_form": "integer"}


def bad(function, operator, dtype="float32", laws=None, **declared):
    one = subject(Adapter("function", operator, function, "torch", dtypes=(dtype,), **declared))
    cells = run(Request(one, library()[operator], dtype, PROFILES["quick"], laws=laws)).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


# What the definitions say


def quantized(x, bits, words):
    return Frame(library()["quantize"], {"x": x, "bits": bits, **words}).outputs()


def referred(x, bits, words):
    return reference.quantize(x, bits=bits, **words)


@pytest.mark.parametrize("witness", [quantized, referred])
@pytest.mark.parametrize("form", ["integer", "real"])
@pytest.mark.parametrize(("range_", "x"), [("data", X), ("with_zero", X), ("data", X + 3), ("with_zero", X + 3)])
@pytest.mark.parametrize("bits", [2, 8, 12])
def test_codes_are_the_nearest_steps(bits, range_, x, form, witness):
    exact = [Fraction(t) for t in x]
    ends = exact + ([Fraction(0)] if range_ == "with_zero" else [])
    scale = (max(ends) - min(ends)) / (2**bits - 1)
    origin = -min(ends) / scale
    zero_point = origin if form == "real" else round(origin)
    given = witness(x, bits, {"quantized_range": range_, "zero_point_form": form})
    assert [min(max(round(t / scale + zero_point), 0), 2**bits - 1) for t in exact] == given["codes"].tolist()
    np.testing.assert_allclose([float(scale), float(zero_point)], [given["scale"], given["zero_point"]], rtol=1e-14)


def test_what_comes_back_is_the_scale_times_the_distance_from_the_zero_point():
    codes, scale, zero_point = np.array([0, 3, 255]), np.array(0.3), np.array(7.0)
    given = Frame(library()["dequantize"], {"codes": codes, "scale": scale, "zero_point": zero_point}).outputs()["x"]
    exact = [float(Fraction(0.3) * (q - 7)) for q in (0, 3, 255)]
    np.testing.assert_allclose(exact, given, rtol=1e-15)
    np.testing.assert_allclose(exact, reference.dequantize(codes, scale, zero_point), rtol=1e-15)


# Quantizers


def parts(x, bits, low=None, high=None):
    y = x.float()
    low, high = y.min() if low is None else low, y.max() if high is None else high
    return y, low, torch.where(high > low, (high - low) / (2**bits - 1), torch.ones(()))


def right(x, *, bits=8):
    y, low, scale = parts(x, bits)
    zero_point = torch.round(-low / scale)
    codes = (torch.round(y / scale) + zero_point).clamp(0, 2**bits - 1).int()
    return {"codes": codes, "scale": scale, "zero_point": zero_point}


def steps_added_first(x, *, bits=8):
    y, low, scale = parts(x, bits)
    zero_point = torch.round(-low / scale)
    codes = torch.floor(y / scale + zero_point + 0.5).clamp(0, 2**bits - 1).long()
    return {"codes": codes, "scale": scale, "zero_point": int(zero_point)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("function", [right, steps_added_first])
def test_right_quantizers_break_nothing(function, dtype):
    assert set() == bad(function, "quantize", dtype, conventions=INTEGER)


def real_zero_point_returned_as_whole(x, *, bits=8):
    y, low, scale = parts(x, bits)
    codes = torch.round(y / scale - low / scale).clamp(0, 2**bits - 1).int()
    return {"codes": codes, "scale": scale, "zero_point": torch.round(-low / scale)}


def bytes_only(x, *, bits=8):
    made = right(x, bits=bits)
    return {**made, "codes": made["codes"].to(torch.uint8)}


def truncated(x, *, bits=8):
    y, low, scale = parts(x, bits)
    zero_point = torch.round(-low / scale)
    return {"codes": (y / scale + zero_point).int(), "scale": scale, "zero_point": zero_point}


def one_level_more(x, *, bits=8):
    y, low, scale = parts(x, bits)
    scale = scale * (2**bits - 1) / 2**bits
    zero_point = torch.round(-low / scale)
    codes = (torch.round(y / scale) + zero_point).clamp(0, 2**bits - 1).int()
    return {"codes": codes, "scale": scale, "zero_point": zero_point}


def range_of_the_last_row(x, *, bits=8):
    rows = x.reshape(-1, x.shape[-1])
    y, low, scale = parts(x, bits, rows[-1].min().float(), rows[-1].max().float())
    zero_point = torch.round(-low / scale)
    codes = (torch.round(y / scale) + zero_point).clamp(0, 2**bits - 1).int()
    return {"codes": codes, "scale": scale, "zero_point": zero_point}


def signed_codes(x, *, bits=8):
    made = right(x, bits=bits)
    return {**made, "codes": made["codes"] - 2 ** (bits - 1)}


FAULTY = (
    real_zero_point_returned_as_whole,
    bytes_only,
    truncated,
    one_level_more,
    range_of_the_last_row,
    signed_codes,
)


@pytest.mark.parametrize("function", FAULTY)
def test_a_faulty_quantizer_is_not_conformant(function):
    assert "definition" in bad(function, "quantize", conventions=INTEGER)


def test_a_zero_point_that_is_not_whole_is_found_or_declared():
    def real(x, *, bits=8):
        y, low, scale = parts(x, bits)
        codes = torch.round(y / scale - low / scale).clamp(0, 2**bits - 1).int()
        return {"codes": codes, "scale": scale, "zero_point": -low / scale}

    declared = {"quantized_range": "data", "zero_point_form": "real"}
    assert {"definition", "whole_zero_point"} <= bad(real, "quantize", conventions=INTEGER)
    assert set() == bad(real, "quantize", conventions=declared)


def test_a_difference_of_bytes_wraps_around():
    def wrapping(codes, scale, zero_point):
        return (codes.to(torch.uint8) - zero_point.to(torch.uint8)).float() * scale

    def right_difference(codes, scale, zero_point):
        return (codes - zero_point) * scale

    assert "definition" in bad(wrapping, "dequantize")
    assert set() == bad(right_difference, "dequantize")


# What the engine has for them


@pytest.mark.parametrize(
    ("x", "radius", "doubt"), [(2.4, 0.05, 0), (2.4, 0.2, 1), (2.5, 0.0, 1), (2.0, 1.0, 1), (2.4, 1.2, 2)]
)
def test_a_rounded_number_is_in_doubt_by_the_halves_that_may_be_crossed(x, radius, doubt):
    rounded = rint(Number.within(np.array([x]), np.array([radius])))
    assert ([np.rint(x)], [doubt]) == (rounded.value.tolist(), rounded.worst.tolist())


def test_codes_of_a_narrow_type_are_reckoned_with_as_whole_numbers():
    def narrow(x):
        made = right(x)
        return {**made, "codes": made["codes"].to(torch.uint8), "zero_point": made["zero_point"].to(torch.int32)}

    assert set() == bad(narrow, "quantize", conventions=INTEGER, fixed={"bits": 8})


def test_a_scale_that_is_a_number_may_be_of_any_dtype():
    def wide(x, *, bits=8):
        made = right(x, bits=bits)
        return {**made, "scale": made["scale"].double()}

    assert set() == bad(wide, "quantize", "float16", laws={"contract.dtype"}, conventions=INTEGER)
