"""Blocks of codes that share a scale, and their exact values: a code times its scales fits in float64.

Sources: OCP Microscaling Formats (MX) Specification 1.0, section 5; NVIDIA's NVFP4, whose blocks of 16 have a scale in
float8 and all of them another in float32; ggml's `ggml-common.h` for q8_0, q4_0 and q4_1, a scale in float16 in front
of the codes of 32 numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .codes import E2M1, E4M3FN, E5M2, E8M0, CodeFormat, decoded


@dataclass(frozen=True, slots=True)
class ScaledBlocks:
    """A format with codes in one array and the scales of their blocks in another."""

    name: str
    element: CodeFormat
    scale: CodeFormat
    size: int
    """Numbers of a block, one behind the other along the last axis."""


MXFP8_E4M3 = ScaledBlocks("mxfp8_e4m3", E4M3FN, E8M0, 32)
MXFP8_E5M2 = ScaledBlocks("mxfp8_e5m2", E5M2, E8M0, 32)
MXFP4 = ScaledBlocks("mxfp4", E2M1, E8M0, 32)
NVFP4 = ScaledBlocks("nvfp4", E2M1, E4M3FN, 16)
SCALED = {fmt.name: fmt for fmt in (MXFP8_E4M3, MXFP8_E5M2, MXFP4, NVFP4)}


def of_scaled(codes: NDArray[Any], scales: NDArray[Any], fmt: ScaledBlocks, *, whole: float = 1.0) -> NDArray[Any]:
    """The numbers [..., n] of codes [..., n], not packed, and of the codes of scales [..., n / size].

    `whole` is the second scale of NVFP4, which all blocks share. A scale that is NaN makes its block NaN.
    """
    return decoded(codes, fmt.element) * np.repeat(decoded(scales, fmt.scale), fmt.size, -1) * whole


TILE = (128, 4)
"""Rows and columns of scales that tensor cores read together, which hold 512 bytes."""


def swizzled(scales: NDArray[Any]) -> NDArray[Any]:
    """Codes of scales [rows, columns] in the order in which tensor cores read them: one axis of whole tiles.

    Row r and column c of a tile are at (r % 32) * 16 + r // 32 * 4 + c, and tiles lie row by row; what fills the last
    ones is zero. NVIDIA's documentation of cuBLAS, the layout of 1D block scaling factors.
    """
    (high, wide), (rows, columns) = TILE, scales.shape
    filled = np.zeros((-(-rows // high) * high, -(-columns // wide) * wide), scales.dtype)
    filled[:rows, :columns] = scales
    return filled.reshape(-1, 4, 32, filled.shape[1] // wide, wide).transpose(0, 3, 2, 1, 4).ravel()


def plain(scales: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """Codes of scales [rows, columns] of those in the order of tensor cores; the other way around of `swizzled`."""
    (high, wide), down = TILE, -(-rows // TILE[0])
    tiles = scales.reshape(down, -(-columns // wide), 32, 4, wide).transpose(0, 3, 2, 1, 4)
    return tiles.reshape(down * high, -1)[:rows, :columns]


def _q8_0(block: NDArray[np.uint8]) -> NDArray[np.float64]:
    return _half(block, 0) * block[..., 2:].view(np.int8)


def _q4_0(block: NDArray[np.uint8]) -> NDArray[np.float64]:
    return _half(block, 0) * (_nibbles(block[..., 2:]) - 8)


def _q4_1(block: NDArray[np.uint8]) -> NDArray[np.float64]:
    return _half(block, 0) * _nibbles(block[..., 4:]) + _half(block, 2)


def _half(block: NDArray[np.uint8], at: int) -> NDArray[np.float64]:
    """The number in float16, least byte first, that begins at a byte: [..., 1]."""
    return np.ascontiguousarray(block[..., at : at + 2]).view("<f2").astype(np.float64)


def _nibbles(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The low bits of all bytes, and then the high ones."""
    return np.concatenate([data & 15, data >> 4], -1).astype(np.int64)


ENCODED: dict[str, tuple[int, Callable[[NDArray[np.uint8]], NDArray[np.float64]]]] = {
    "q8_0": (34, _q8_0),
    "q4_0": (18, _q4_0),
    "q4_1": (20, _q4_1),
}
"""ggml's formats by name: the bytes of a block of 32 numbers, and what they mean."""


def of_bytes(data: NDArray[np.uint8], name: str) -> NDArray[np.float64]:
    """The numbers [..., 32 n] of blocks in bytes [..., n * bytes of a block]."""
    length, numbers = ENCODED[name]
    blocks = np.ascontiguousarray(data).reshape(*data.shape[:-1], -1, length)
    return numbers(blocks).reshape(*data.shape[:-1], -1)
