"""Symmetric quantization of blocks: the definition against exact fractions, and rounding by chance judged by counts."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.conventions import identified
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

X = np.array([[-1.2834, 0.0, 0.7193, 2.9157], [0.2048, -0.0351, 9.25, 0.4], [0.0, 0.0, -3.5, 0.0625]])
X = np.concatenate([X, -5 * X[:, ::-1]])
GRANULARITIES = [(1, None), (None, None), (None, 1), (1, 2), (2, 2), (3, 4), (1, 1)]


def defined(**options):
    words = {"int8": "i8", "float8_e4m3fn": "e4m3"}
    return Frame(
        library()["quantize_blocks"], {"x": X, **options, "code_dtype": words[options["code_dtype"]]}
    ).outputs()


def referred(**options):
    return reference.quantize_blocks(X, **options)


def fits(peak, power, top, rounding):
    """Whether a power of two is at least the scale of a block with that largest size; all in exact fractions."""
    octave, digits = (128, 7) if top == 127 else (512, 4)
    if rounding == "nearest":
        return (peak / top) ** 2 <= 2 * power**2
    if rounding == "ceiled":
        return peak <= power * octave / 2
    if rounding == "even":
        return peak < power * (octave - Fraction(octave, 2 ** (digits + 1)))
    return peak < power * octave if rounding == "floored" else peak <= power * top


@pytest.mark.parametrize("witness", [defined, referred])
@pytest.mark.parametrize(("height", "width"), GRANULARITIES)
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn"])
@pytest.mark.parametrize("rounding", [None, "up", "nearest", "floored", "even", "ceiled"])
def test_codes_are_next_to_the_quotients_by_the_scale_of_their_block(dtype, height, width, rounding, witness):
    rows, columns = height or len(X), width or 4
    top = 127 if dtype == "int8" else 448
    powers = {} if rounding is None else {"power_of_two": True, "power_rounding": rounding}
    given = witness(code_dtype=dtype, block_rows=height, block_columns=width, **powers)
    for i, j in np.ndindex(len(X) // rows, 4 // columns):
        own = np.s_[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        if not X[own].any():
            assert np.zeros((rows, columns)).tolist() == given["codes"][own].tolist()
            continue
        step = max(abs(Fraction(t)) for t in X[own].flat) / top
        if rounding is not None:
            step = next(Fraction(2) ** k for k in range(-30, 30) if fits(step * top, Fraction(2) ** k, top, rounding))
        ratio = np.array([[min(max(Fraction(t) / step, -top), top) for t in row] for row in X[own]])
        form = float if dtype == "int8" else ml_dtypes.float8_e4m3fn
        codes = np.vectorize(round, otypes=[int])(ratio) if dtype == "int8" else ratio.astype(float)
        assert codes.astype(form).astype(float).tolist() == given["codes"][own].tolist()
        np.testing.assert_allclose(float(step), given["scale"][i, j], rtol=1e-14)


def rounded_by(choose):
    """A kernel for rows in int8 that chooses codes from quotients and a generator."""

    def quantize(x, *, seed=None):
        scale = x.abs().amax(1, keepdim=True) / 127
        ratio = x / torch.where(scale > 0, scale, 1.0)
        generator = torch.Generator().manual_seed(seed or 0)
        codes = ratio.round() if seed is None else choose(ratio, generator)
        return {"codes": codes.clamp(-127, 127).to(torch.int8), "scale": scale}

    return quantize


def uniform(ratio, generator, columns=None):
    return torch.rand(ratio.shape[0], columns or ratio.shape[1], generator=generator)


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (lambda r, g: (r + uniform(r, g)).floor(), set()),
        (lambda r, g: torch.where(uniform(r, g) < r - r.floor(), r.ceil(), r.floor()), set()),
        (lambda r, g: r.round(), {"rounded_up", "moved"}),
        (lambda r, g: (r + uniform(r, g) + 0.125).floor(), {"rounded_up", "moved", "zeros"}),
        (lambda r, g: (r + uniform(r, g, 1)).floor(), {"columns_apart"}),
        (lambda r, g: (r + 2 * uniform(r, g) - 1).round(), {"one_of_two", "moved", "zeros"}),
        (lambda r, g: (r + uniform(r, g.manual_seed(0))).floor(), {"other_seed"}),
    ],
    ids=["added", "compared", "nearest", "biased", "one draw for a row", "codes changed", "seed ignored"],
)
def test_rounding_by_chance_is_judged_by_counts(choose, expected):
    fixed = {"code_dtype": "i8", "block_rows": 1, "block_columns": None, "power_of_two": False}
    one = subject(Adapter("function", "quantize_blocks", rounded_by(choose), "torch", dtypes=("float32",), fixed=fixed))
    cells = run(Request(one, library()["stochastic_blocks"], "float32", PROFILES["quick"])).cells
    broken = {cell.law for cell in cells if cell.bad and cell.level == "must"}
    assert expected == broken & expected if expected else broken == expected


def microscaled(x):
    """Codes in float8 of groups of 32, by the least power of two with which nothing is beyond the range."""
    blocks = x.float().reshape(len(x), -1, 32)
    peak = blocks.abs().amax(2, keepdim=True)
    scale = torch.exp2(torch.log2(torch.where(peak > 0, peak / 448, 1.0)).ceil())
    return {"codes": (blocks / scale).reshape(x.shape).to(torch.float8_e4m3fn), "scale": scale[..., 0]}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_word_explains_scales_whose_quotient_is_a_power_of_two_but_for_rounding(dtype):
    fixed = {"code_dtype": "e4m3", "block_rows": 1, "block_columns": 32, "power_of_two": True}
    one = subject(Adapter("function", "quantize_blocks", microscaled, "torch", dtypes=(dtype,), fixed=fixed))
    cells = run(Request(one, library()["quantize_blocks"], dtype, PROFILES["quick"])).cells
    assert not [cell.law for cell in cells if cell.bad and cell.level == "must"]
    assert "up" == identified(one, library()["quantize_blocks"], dtype, "cpu")["power_rounding"].word


STATIC = np.array([[0.07, -3.1, 63.6, 1e5], [-0.5, 127.4, -127.6, -1e5]])


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn"])
def test_codes_by_a_given_scale_saturate(dtype):
    top = 127 if dtype == "int8" else 448
    scale, options = np.array([0.5]), {"block_rows": None, "code_dtype": {"int8": "i8"}.get(dtype, "e4m3")}
    frame = Frame(library()["static_blocks"], {"x": STATIC, "static_scale": scale, **options})
    given = frame.outputs()
    referred = reference.quantize_blocks(STATIC, scale, block_rows=None, code_dtype=dtype)
    plain = np.clip(STATIC / 0.5, -top, top)
    exact = np.rint(plain) if dtype == "int8" else plain.astype(ml_dtypes.float8_e4m3fn).astype(float)
    assert exact.tolist() == referred["codes"].tolist()
    free = exact == -127  # where the least code may be -128 as well
    assert exact[~free].tolist() == np.asarray(given["codes"])[~free].tolist()
    assert [[0.5]] == np.asarray(given["scale"]).tolist() == referred["scale"].tolist()
