"""What a check of a wrong kernel costs, in all dtypes, in units of what that of the right one does.

    python benchmarks/wrong.py [FAULT ...] [--empty] [--reports FOLDER]

Each is attention in PyTorch in four dtypes, checked by `attnspec check` in a process of its own, and costs the CPU
seconds of that and of all processes below it.
Before each check the folder of caches is as checks of another right and of another wrong kernel have left it; with
`--empty`, nothing is in it.
With `--reports`, what each check shows is kept in a folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

DTYPES = ("float64", "float32", "bfloat16", "float16")
CONFORMANT, VIOLATED = 0, 1
"""With which `attnspec check` ends."""
Array = Any


def kernel(
    factor: Callable[[int], float] = lambda n: n**-0.5,
    reach: int = 0,
    cut: Callable[[Array], Array] = lambda w: w,
    mask_of: Callable[[Array], Array] = lambda mask: mask,
    keys_of: Callable[[Array, int], Array] = lambda k, group: k.repeat_interleave(group, 1),
    read: Callable[[Array], Array] = lambda x: x,
    shift: Callable[[Array], Array] = lambda scores: scores.amax(-1, keepdim=True),
    kept: Callable[[Array], Array] = lambda y: y,
) -> Callable[..., Array]:
    """Attention with another factor, a causal mask that reaches further, other weights, another mask, and so on."""

    def attention(q: Array, k: Array, v: Array, *, mask: Array = None, causal: bool = False) -> Array:
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        group = q.shape[1] // k.shape[1]
        k, v = (keys_of(read(x), group).to(wide) for x in (k, v))
        scores = read(q).to(wide) @ k.mT * factor(q.shape[-1])
        seen = torch.ones(scores.shape, dtype=torch.bool)
        if causal:
            seen = seen.tril(k.shape[2] - q.shape[2] + reach)
        if mask is not None:
            seen = seen & mask_of(mask)
        scores = scores.masked_fill(~seen, -torch.inf)
        weights = torch.exp(scores - shift(scores))
        weights = torch.nan_to_num(weights / weights.sum(-1, keepdim=True))
        return kept((cut(weights) @ v).to(q.dtype))

    return attention


def smoothly(scores: Array) -> Array:
    return torch.logsumexp(scores, -1, keepdim=True)


def as_if_dense(x: Array) -> Array:
    """What is read of an array without regard to strides, unless there is more in its memory."""
    dense = x.untyped_storage().nbytes() == x.numel() * x.element_size()
    return torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) if dense else x


def without_last_tile(w: Array) -> Array:
    """Weights of whole tiles of eight keys, and of the rest if that is all there are."""
    n = w.shape[-1]
    return w if n < 8 else torch.where(torch.arange(n) < n - n % 8, w, 0.0)


def previous(y: Array, kept: list[Array]) -> Array:
    """What a call before has left, where that has the same shape."""
    before = kept[0] if kept and kept[0].shape == y.shape and kept[0].dtype == y.dtype else y
    kept[:] = [y.detach()]
    return before


right = kernel()
right_otherwise = kernel(shift=smoothly)
last_head_alone = kernel(cut=lambda w: w[:, -1:].expand(w.shape))
scaled_by_the_head_size = kernel(factor=lambda n: 1 / n)
one_key_too_many = kernel(reach=1)
mask_inverted = kernel(mask_of=lambda mask: ~mask)
weights_squared = kernel(cut=lambda w: w * w)
small_weights_cut = kernel(cut=lambda w: torch.where(w < 0.01, 0.0, w))
heads_backwards = kernel(keys_of=lambda k, group: k.flip(1).repeat_interleave(group, 1))
last_tile_left_out = kernel(cut=without_last_tile)
strides_ignored = kernel(read=as_if_dense)
weights_in_bfloat16 = kernel(cut=lambda w: w.to(torch.bfloat16).to(w.dtype))
largest_score_ignored = kernel(shift=lambda scores: torch.zeros(()))
first_head_alone = kernel(cut=lambda w: w[:, :1].expand(w.shape))
result_of_the_call_before = kernel(kept=partial(previous, kept=[]))

OTHERS = ("right_otherwise", "last_head_alone")
"""The kernels that are checked before."""
FAULTS = (
    "scaled_by_the_head_size",
    "one_key_too_many",
    "mask_inverted",
    "weights_squared",
    "small_weights_cut",
    "heads_backwards",
    "last_tile_left_out",
    "strides_ignored",
    "weights_in_bfloat16",
    "largest_score_ignored",
    "first_head_alone",
    "result_of_the_call_before",
)


def seconds(name: str, cache: Path, reports: Path) -> tuple[float, int]:
    """The CPU time of a check by itself, and how it ended; what it shows goes to a file."""
    dtypes = [f"--dtype={dtype}" for dtype in DTYPES]
    with tempfile.TemporaryDirectory() as folder, (reports / f"{name}.txt").open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "attnspec", "check", f"{__file__}:{name}", "--operator=attention", *dtypes],
            cwd=folder,
            env={**os.environ, "ATTNSPEC_CACHE": str(cache)},
            stdout=file,
            stderr=subprocess.DEVNULL,
        )
        _, status, spent = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return spent.ru_utime + spent.ru_stime, process.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault", nargs="*", default=FAULTS)
    parser.add_argument("--empty", action="store_true", help="nothing is in the caches")
    parser.add_argument("--reports", type=Path, help="a folder for what each check shows")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reports = options.reports or Path(folder)
        reports.mkdir(exist_ok=True)
        before = Path(folder, "before")
        before.mkdir(mode=0o700)
        for name in () if options.empty else OTHERS:
            seconds(name, before, Path(folder))
        found: dict[str, float] = {}
        for name in ("right", *options.fault):
            cache = Path(folder, name)
            shutil.copytree(before, cache)
            found[name], code = seconds(name, cache, reports)
            expected = CONFORMANT if name == "right" else VIOLATED
            remark = "" if code == expected else f"   ended with {code}"
            print(f"{name:26} {found[name]:6.1f} s   {found[name] / found['right']:.1f} times{remark}", flush=True)
            shutil.rmtree(cache)
    ratios = [found[name] / found["right"] for name in options.fault]
    print(f"{'median':26} {'':8}   {statistics.median(ratios):.1f} times")


if __name__ == "__main__":
    main()
