"""What a check of a wrong kernel costs, all dtypes, in units of what that of the right one does.

    python benchmarks/wrong.py [FAULT ...]

Each is attention in PyTorch in four dtypes, under the quick profile; CPU seconds are of one process on one thread.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import torch

import attnspec

DTYPES = ("float64", "float32", "bfloat16", "float16")
CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}
Array = Any


def kernel(
    factor: Callable[[int], float] = lambda n: n**-0.5,
    reach: int = 0,
    cut: Callable[[Array], Array] = lambda w: w,
    mask_of: Callable[[Array], Array] = lambda mask: mask,
) -> Callable[..., Array]:
    """Attention with another factor, a causal mask that reaches further, other weights, or another mask."""

    def attention(q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False) -> Array:
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        group = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(group, 1).to(wide) for x in (k, v))
        scores = q.to(wide) @ k.mT * factor(q.shape[-1])
        seen = torch.ones(scores.shape, dtype=torch.bool)
        if causal:
            seen = seen.tril(k.shape[2] - q.shape[2] + reach)
        if mask is not None:
            seen = seen & mask_of(mask)
        weights = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1)
        return (torch.nan_to_num(cut(weights)) @ v).to(q.dtype)

    return attention


FAULTS: Mapping[str, Callable[..., Array]] = {
    "right": kernel(),
    "scaled by the head size": kernel(factor=lambda n: 1 / n),
    "one key too many": kernel(reach=1),
    "mask inverted": kernel(mask_of=lambda mask: ~mask),
    "weights squared": kernel(cut=lambda w: w * w),
    "small weights cut": kernel(cut=lambda w: torch.where(w < 0.01, 0.0, w)),
}


def seconds(function: Callable[..., Array]) -> float:
    """The CPU time of a check, what is kept from earlier ones included."""
    start = time.process_time()
    attnspec.check(function, operator="attention", framework="torch", dtypes=DTYPES, conventions=CONVENTIONS)
    return time.process_time() - start


def main() -> None:
    seconds(FAULTS["right"])  # the definitions are compiled, and their cases drawn
    right = seconds(FAULTS["right"])
    print(f"{'right':26} {right:6.1f} s", flush=True)
    for name in sys.argv[1:] or [name for name in FAULTS if name != "right"]:
        wrong = seconds(FAULTS[name])
        print(f"{name:26} {wrong:6.1f} s   {wrong / right:.1f} times", flush=True)


if __name__ == "__main__":
    main()
