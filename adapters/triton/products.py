"""What products of codes in blocks take, of which each row and each block of columns has a scale."""

from __future__ import annotations

from typing import Any

IN_BLOCKS: dict[str, Any] = {
    "on": {
        "cuda": {"limits": {"inner_block": (32, 128), "outs_block": (32, 128)}}
    },  # compiled products have 32 at least
    "limits": {"inner_block": (16, 32, 128), "outs_block": (16, 128)},
    "requires": (
        "inner_block != none and size(a_scale, 0) == rows and size(a_scale) == (n + inner_block - 1) // inner_block",
        "outs_block != none and size(b_scale, 0) == size(a_scale)"
        " and size(b_scale) == (outs + outs_block - 1) // outs_block",
    ),
}
