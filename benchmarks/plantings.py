"""How often one wrong row of one head is found, for every kind of fault that makes a row wrong at these sizes.

    python benchmarks/plantings.py --length 512 --heads 8 --kv-heads 2 --plantings 100

The right output has one row of one head exchanged for what a faulty function gives there, in another place each time,
of those at which that is beyond its bound. Of the functions in `adapters/faults/`, those are tried that are wrong in a
bound of bfloat16 at a hundred places or more. The right output by itself is judged as often, with other arrays.
Products are coarse, and as small a share of the rows is compared once more, as at much larger sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from large import ATTENTION, WORDS, sdpa

from attnspec.adapters import Adapter
from attnspec.cases.large import LargeSample, large_sample
from attnspec.judging import quick, screening
from attnspec.judging.bench import Bench
from attnspec.judging.large import Judged, Large
from attnspec.judging.portions import Portions
from attnspec.judging.rows import _radius, _units
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope
from attnspec.language.syntax import assignments
from attnspec.numerics.formats import FORMATS
from attnspec.numerics.grades import BF16
from attnspec.numerics.streams import pick
from attnspec.subjects.targets import faults, subject

PLACES = 100
"""Rows in which a function is wrong, below which it is left out."""
FILES = ("tiles", "attention", "serving")


def case(function: Callable[..., Any], text: str, seed: int) -> tuple[Bench, LargeSample]:
    """A bench of a function, and the case of that text."""
    one = subject(Adapter("kernel", "attention", function, "torch", dtypes=("bfloat16",), conventions=WORDS))
    scope = Scope(frozenset({*ATTENTION.sizes, *ATTENTION.inputs, *ATTENTION.options}), draws=True)
    assigned = {name: Expression(own, scope, place) for name, (own, place) in assignments(text).items()}
    sample = large_sample(ATTENTION, "benchmark", assigned, one.claims, "bfloat16", seed)
    assert not isinstance(sample, str), sample
    return Bench(one, ATTENTION, "bfloat16", "cpu", {**ATTENTION.words, **WORDS}), sample


def judged(function: Callable[..., Any], text: str, seed: int = 0) -> Judged:
    bench, sample = case(function, text, seed)
    with bench.subject.session():
        return Large(bench, sample, memory=4 << 30, seconds=600.0).judged([BF16])


class Bounds:
    """The bounds of all entries of a case: which rows of an output are wrong."""

    def __init__(self, text: str) -> None:
        bench, sample = case(sdpa, text, 0)
        self.portions = Portions(bench, sample)
        self.portions.orient()
        self.parts = []
        for item in self.portions.items():
            for start in range(0, self.portions.rows, 128):
                rows = np.arange(start, min(start + 128, self.portions.rows))
                exact, bounded = (
                    self.portions.outputs(self.portions.frame(item, rows, grade), ["out"])["out"]
                    for grade in (None, BF16)
                )
                shape = np.shape(exact)
                several = int(np.prod(self.portions.shapes["out"]))
                radius = _radius(self.portions, np.asarray(exact), exact, bounded, "out", BF16, several)
                self.parts.append((np.ix_(*self.portions.places(item, rows, "out")), np.reshape(exact, shape), radius))
        self.inputs = [
            torch.from_numpy(sample.values[name].part({}, FORMATS["bfloat16"])).bfloat16() for name in ("q", "k", "v")
        ]

    def wrong(self, out: Any) -> np.ndarray[Any, Any]:
        """The places of rows with an entry beyond its bound: [n, 3]."""
        y, found = out.double().numpy(), np.zeros(out.shape[:3], bool)
        for at, exact, radius in self.parts:
            found[at[0][..., 0], at[1][..., 0], at[2][..., 0]] = (_units(y[at], exact, radius) > 1).any(-1)
        return np.argwhere(found)


def faulty(bounds: Bounds) -> Iterator[tuple[str, Any, np.ndarray[Any, Any]]]:
    """The faulty functions that are wrong in many rows, with what they give and where that is wrong."""
    for one in faults().values():
        if one.operator != "attention":
            continue
        if one.function.__module__.rpartition(".")[2] not in FILES:
            continue
        try:
            found = one.function(*(x.clone() for x in bounds.inputs), causal=True)
        except Exception as error:  # some functions take other sizes
            print(f"{one.name:<44} {type(error).__name__}")
            continue
        out = (found[0] if isinstance(found, tuple) else found).bfloat16()
        places = bounds.wrong(out)
        if len(places) >= PLACES:
            yield one.name, out, places


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("length", 512), ("heads", 8), ("kv-heads", 2), ("head-dim", 64), ("plantings", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    quick.SCORES, screening.AGAIN = 0, max(asked.heads * asked.length // 512, screening.WORST)
    n, d = asked.length, asked.head_dim
    text = f"batch = 1, kv_heads = {asked.kv_heads}, heads = {asked.heads}, q_len = {n}, k_len = {n}, head_dim = {d}"
    text += f", value_dim = {d}, causal = true"
    bounds, missed, kinds = Bounds(text), 0, 0
    right = sdpa(*bounds.inputs, causal=True)
    for name, out, places in faulty(bounds):
        caught = 0
        for turn in range(asked.plantings):
            at = tuple(places[pick(len(places), name, turn)].tolist())

            def planted(q: Any, k: Any, v: Any, *, causal: bool = False, at: Any = at, out: Any = out) -> Any:
                found = right.clone()
                found[at] = out[at]
                return found

            caught += judged(planted, text).refuted
        kinds, missed = kinds + 1, missed + (caught < 0.99 * asked.plantings)
        print(f"{name:<44}{caught:5} of {asked.plantings} found, of {len(places)} places", flush=True)
    accused = sum(judged(sdpa, text, seed + 1).refuted for seed in range(asked.plantings))
    print(
        f"{kinds - missed} of {kinds} kinds are found in 99 of 100; {accused} of {asked.plantings} right ones accused"
    )


if __name__ == "__main__":
    main()
