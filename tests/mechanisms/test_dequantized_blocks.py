"""Blocks of codes as numbers: the definition and the reference against what the formats say, for every code."""

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
from attnspec.numerics.blocks import ENCODED, SCALED, of_bytes, of_scaled, swizzled
from attnspec.numerics.codes import unpacked
from attnspec.subjects.targets import subject

MICROSCALING = ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "nvfp4"]


def defined(codes, scales, **options):
    values = {"codes": codes, "scales": scales, "last_scale": "nans", **options}
    return Frame(library()["dequantize_blocks"], values).outputs()["x"]


def referred(codes, scales, **options):
    return reference.dequantize_blocks(codes, scales, **options)


def blocks(block_format, rows, count):
    """Every byte for a code, as far as there is room, and scales with all that they may be."""
    width = count * {"mxfp4": 16, "nvfp4": 8}.get(block_format, 32)
    codes = (np.arange(rows * width) % 256).reshape(rows, width)
    scales = (np.arange(rows * count) * 37 + 120) % (128 if block_format == "nvfp4" else 256)
    return codes, scales.reshape(rows, count)


@pytest.mark.parametrize("witness", [defined, referred])
@pytest.mark.parametrize("tiles", [False, True], ids=["rows", "tiles"])
@pytest.mark.parametrize("block_format", MICROSCALING)
def test_every_code_and_scale_means_what_its_format_says(block_format, tiles, witness):
    codes, scales = blocks(block_format, 130, 5)
    bits = unpacked(codes.astype(np.uint8)) if block_format in ("mxfp4", "nvfp4") else codes
    whole = np.array([0.3]) if block_format == "nvfp4" else 1
    expected = of_scaled(bits, scales, SCALED[block_format], whole=float(np.ravel(whole)[0]))
    given = swizzled(scales)[:, None] if tiles else scales
    found = witness(codes, given, block_format=block_format, swizzled=tiles, tensor_scale=whole)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def defined_of_ggml(data, block_format):
    return Frame(library()["dequantize_gguf"], {"data": data, "block_format": block_format}).outputs()["x"]


def referred_of_ggml(data, block_format):
    return reference.dequantize_gguf(data, block_format=block_format)


@pytest.mark.parametrize("witness", [defined_of_ggml, referred_of_ggml])
@pytest.mark.parametrize("block_format", ENCODED)
def test_every_byte_of_a_block_of_ggml_means_what_its_format_says(block_format, witness):
    length = ENCODED[block_format][0]
    data = (np.arange(40 * 16 * length) * 77 % 257 % 256).reshape(40, 16 * length)
    places = np.arange(16 * length) % length
    scales = (places == 1) | ((places == 3) & (block_format == "q4_1"))
    data = np.where(scales, data % 124, data)  # below infinity and NaN
    np.testing.assert_array_equal(of_bytes(data.astype(np.uint8), block_format), witness(data, block_format))


def times_powers(numbers, scales):
    steps = scales.contiguous().view(torch.float8_e8m0fnu).float()
    return (numbers.unflatten(1, (-1, 32)) * steps[..., None]).flatten(1)


def bytes_by_tables(codes, scales, *, block_format="mxfp8_e4m3"):
    """A kernel for MXFP8 in e4m3 that views its bytes as codes, and so needs them as bytes."""
    return times_powers(codes.contiguous().view(torch.float8_e4m3fn).float(), scales)


def subnormal_as_normal(codes, scales, *, block_format="mxfp8_e4m3"):
    """The same, but for codes below the normal ones."""
    exponent, fraction = codes.long() % 128 // 8, codes.long() % 8
    numbers = torch.where(codes > 127, -1.0, 1.0) * (1 + fraction / 8) * torch.exp2(exponent - 7.0)
    numbers = torch.where(codes.long() % 128 == 127, torch.nan, numbers)
    return times_powers(numbers, scales)


@pytest.mark.parametrize(
    ("kernel", "expected"), [(bytes_by_tables, set()), (subnormal_as_normal, {"definition", "least", "zeros"})]
)
def test_kernels_are_handed_bytes_and_judged_by_the_numbers(kernel, expected):
    fixed = {"block_format": "mxfp8_e4m3", "swizzled": False}
    one = subject(Adapter("function", "dequantize_blocks", kernel, "torch", dtypes=("float32",), fixed=fixed))
    cells = run(Request(one, library()["dequantize_blocks"], "float32", PROFILES["smoke"])).cells
    broken = {cell.law for cell in cells if cell.bad and cell.level == "must"}
    assert expected == broken & expected if expected else broken == expected
