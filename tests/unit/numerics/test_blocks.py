"""Blocks with scales mean what those who made the formats say: bytes written out, and MLX where it has the format."""

import numpy as np
import pytest

from attnspec.numerics.blocks import (
    ENCODED,
    MXFP4,
    MXFP8_E4M3,
    MXFP8_E5M2,
    NVFP4,
    ScaledBlocks,
    of_bytes,
    of_scaled,
    plain,
    swizzled,
)
from attnspec.numerics.codes import E2M1, E4M3FN, E8M0, encoded, packed


def test_a_block_of_mx_is_its_codes_times_a_power_of_two():
    codes = np.tile(encoded(np.array([0.5, 6.0, -1.5, 0.0]), E2M1), 16)
    scales = encoded(np.array([4.0, 2.0**-9]), E8M0)
    expected = np.repeat([4.0, 2.0**-9], 32) * np.tile([0.5, 6.0, -1.5, 0.0], 16)
    np.testing.assert_array_equal(expected, of_scaled(codes, scales, MXFP4))


def test_a_block_of_nvfp4_has_sixteen_codes_and_two_scales():
    codes = np.tile(encoded(np.array([0.5, 6.0, -1.5, 4.0]), E2M1), 8)
    scales = encoded(np.array([448.0, 0.0078125]), E4M3FN)
    expected = np.repeat([448.0, 0.0078125], 16) * np.tile([0.5, 6.0, -1.5, 4.0], 8) * 0.3
    np.testing.assert_array_equal(expected, of_scaled(codes, scales, NVFP4, whole=0.3))


def test_a_scale_that_is_no_number_spoils_its_block_alone():
    found = of_scaled(np.full(64, 2, np.uint8), np.array([255, 127], np.uint8), MXFP4)
    assert [True, False] == np.isnan(found.reshape(2, 32)).all(-1).tolist()
    assert 32 == np.isnan(found).sum()


def half(x: float) -> bytes:
    return np.array(x, "<f2").tobytes()


def blocks(*parts: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(parts), np.uint8)


def test_q8_0_is_a_half_and_thirty_two_signed_bytes():
    data = blocks(half(0.5), bytes([1, 255, 128, 127] * 8), half(-2.0), bytes([3] * 32))
    np.testing.assert_array_equal([*[0.5, -0.5, -64.0, 63.5] * 8, *[-6.0] * 32], of_bytes(data, "q8_0"))


def test_q4_0_has_the_low_bits_of_all_bytes_first_and_zero_in_the_middle():
    data = blocks(half(0.25), bytes([0x8F, 0x07] * 8))
    np.testing.assert_array_equal([*[7 / 4, -1 / 4] * 8, *[0.0, -2.0] * 8], of_bytes(data, "q4_0"))


def test_q4_1_has_a_least_number_beside_its_scale():
    data = blocks(half(0.25), half(-3.0), bytes([0x8F, 0x07] * 8))
    np.testing.assert_array_equal([*[0.75, -1.25] * 8, *[-1.0, -3.0] * 8], of_bytes(data, "q4_1"))


@pytest.mark.parametrize("name", ENCODED)
def test_rows_are_taken_by_themselves(name: str):
    length, _ = ENCODED[name]
    data = np.random.default_rng(0).integers(0, 60, (2, 3, 2 * length)).astype(np.uint8)
    found = of_bytes(data, name)
    assert (2, 3, 64) == found.shape
    np.testing.assert_array_equal(of_bytes(data[1, 2, length:], name), found[1, 2, 32:])


@pytest.mark.parametrize(
    ("fmt", "mode"), [(MXFP4, "mxfp4"), (MXFP8_E4M3, "mxfp8"), (NVFP4, "nvfp4")], ids=lambda x: getattr(x, "name", x)
)
def test_mlx_reads_the_same_numbers(fmt: ScaledBlocks, mode: str):
    mx = pytest.importorskip("mlx.core")
    stream = np.random.default_rng(1)
    codes = stream.integers(0, 2**fmt.element.bits, (4, 64)).astype(np.uint8)
    codes[codes == 127] = codes[codes == 255] = 0  # NaN in float8
    scales = stream.integers(*((120, 134) if fmt.scale is E8M0 else (8, 120)), (4, 64 // fmt.size)).astype(np.uint8)
    words = (packed(codes) if fmt.element is E2M1 else codes).view(np.uint32)
    found = mx.dequantize(
        mx.array(words), mx.array(scales), group_size=fmt.size, bits=fmt.element.bits, mode=mode, dtype=mx.float32
    )
    np.testing.assert_array_equal(of_scaled(codes, scales, fmt), np.asarray(found))


def test_both_formats_of_eight_bits_differ_in_their_elements_alone():
    assert (MXFP8_E4M3.scale, MXFP8_E4M3.size) == (MXFP8_E5M2.scale, MXFP8_E5M2.size)


@pytest.mark.parametrize(("rows", "columns"), [(128, 4), (1, 1), (130, 5), (256, 12), (40, 9)])
def test_scales_lie_in_tiles_of_128_rows_and_four_columns(rows: int, columns: int) -> None:
    codes = np.random.default_rng(0).integers(1, 256, (rows, columns)).astype(np.uint8)
    laid = swizzled(codes)
    across = -(-columns // 4)
    for r, c in np.ndindex(rows, columns):
        tile = r // 128 * across + c // 4
        assert codes[r, c] == laid[tile * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4]
    assert np.count_nonzero(laid) == codes.size
    assert codes.tolist() == plain(laid, rows, columns).tolist()
