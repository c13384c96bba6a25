"""How often one wrong row of one head is found, for every kind of fault that makes a row wrong at these sizes.

    python benchmarks/plantings.py --length 512 --heads 8 --kv-heads 2 --plantings 100
    python benchmarks/plantings.py --length 1 --keys 8193 --heads 64 --kv-heads 8 --files serving --places 1 --right 0

The right output has one row of one head exchanged for what a faulty function gives there, in another place each time,
of those at which that is beyond its bound. Of the functions in `adapters/faults/`, those are tried that are wrong in a
bound of bfloat16 at so many places or more. The correct variants in `adapters/controls/` are judged in turn, with other
arrays each time. Products are coarse, and as small a share of the rows is compared once more, as at much larger sizes.
With `--file`, each result is written to that file as it comes, and what it has already is not measured again.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from large import ATTENTION, WORDS, sdpa

from attnspec.adapters import Adapter, registered
from attnspec.auditing.correct import controls
from attnspec.cases.large import LargeSample, large_sample
from attnspec.cases.profiles import PROFILES
from attnspec.judging import quick, screening
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.course import Course
from attnspec.judging.large import Judged, Large
from attnspec.judging.portions import Portions
from attnspec.judging.rows import _radius, _units
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope
from attnspec.language.syntax import assignments
from attnspec.mechanisms.loader import NONE
from attnspec.numerics import budget
from attnspec.numerics.formats import FORMATS
from attnspec.numerics.grades import BF16
from attnspec.numerics.streams import pick
from attnspec.subjects.registered import faults
from attnspec.subjects.targets import subject

FILES = ("tiles", "attention", "serving")
MEMORY = 4 << 30
"""Bytes that a judgement may take."""
_NAMES = controls(NONE.library(), ["attention"])["attention"]
_CONTROLS = {one.name: one for one in registered() if one.name in _NAMES}


def assigned(text: str) -> dict[str, Expression]:
    """What a text assigns to sizes and options."""
    scope = Scope(frozenset({*ATTENTION.sizes, *ATTENTION.inputs, *ATTENTION.options}), draws=True)
    return {name: Expression(own, scope, place) for name, (own, place) in assignments(text).items()}


def case(function: Callable[..., Any], text: str, seed: int) -> tuple[Bench, LargeSample]:
    """A bench of a function, and the case of that text."""
    one = subject(Adapter("kernel", "attention", function, "torch", dtypes=("bfloat16",), conventions=WORDS))
    sample = large_sample(ATTENTION, "benchmark", assigned(text), one.claims, "bfloat16", seed)
    assert not isinstance(sample, str), sample
    return Bench(one, ATTENTION, "bfloat16", "cpu", {**ATTENTION.words, **WORDS}), sample


def judged(function: Callable[..., Any], text: str, seed: int = 0) -> Judged:
    bench, sample = case(function, text, seed)
    with bench.subject.session():
        return Large(bench, sample, memory=MEMORY, seconds=600.0).judged([BF16])


class Kept:
    """Results in a file, one a line: what was measured, and what came of it."""

    def __init__(self, path: Path | None, case: str) -> None:
        self.path, self.case = path, case
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self.known = {tuple(key): found for key, found in map(json.loads, lines)}

    def measured(self, key: tuple[Any, ...], measure: Callable[[], Any]) -> Any:
        """What came of it before, or what comes of it now."""
        own = (self.case, *key)
        if own not in self.known:
            self.known[own] = measure()
            if self.path is not None:
                with self.path.open("a") as file:
                    print(json.dumps([own, self.known[own]]), file=file)
        return self.known[own]


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
                with budget.roomy(MEMORY):
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


def right(name: str, text: str, seed: int) -> Judged:
    """The verdict on a correct variant at the grade that it claims."""
    one = subject(_CONTROLS[name])
    request = Request(one, ATTENTION, "bfloat16", PROFILES["serving"], seed=seed)
    bench = Bench(one, ATTENTION, "bfloat16", "cpu", {**ATTENTION.words, **WORDS, **one.claims.conventions})
    sample = large_sample(ATTENTION, "benchmark", assigned(text), one.claims, "bfloat16", seed)
    assert not isinstance(sample, str), sample
    with one.session():
        return Large(bench, sample, memory=MEMORY, seconds=600.0).judged(Course(request, {}).grades)


def variants(text: str) -> list[str]:
    """The correct variants that take the case."""
    own = {name: subject(one) for name, one in _CONTROLS.items() if "bfloat16" in one.dtypes}
    claims = {name: one.claims for name, one in own.items() if not _asks_for_more(_CONTROLS[name])}
    sample = (large_sample(ATTENTION, "benchmark", assigned(text), own, "bfloat16", 0) for own in claims.values())
    return [name for name, own in zip(claims, sample, strict=True) if not isinstance(own, str)]


def _asks_for_more(adapter: Adapter) -> bool:
    """Whether a function cannot be called with queries, keys and values alone."""
    parameters = inspect.signature(adapter.function).parameters.values()
    return any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters)


def faulty(bounds: Bounds, least: int, files: tuple[str, ...]) -> Iterator[tuple[str, Any, np.ndarray[Any, Any]]]:
    """The faulty functions that are wrong in many rows, with what they give and where that is wrong."""
    for one in faults().values():
        if one.operator != "attention":
            continue
        if one.function.__module__.rpartition(".")[2] not in files:
            continue
        try:
            found = one.function(*(x.clone() for x in bounds.inputs), causal=True)
        except Exception as error:  # some functions take other sizes
            print(f"{one.name:<44} {type(error).__name__}")
            continue
        out = (found[0] if isinstance(found, tuple) else found).bfloat16()
        places = bounds.wrong(out)
        if len(places) >= least:
            yield one.name, out, places


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("length", 512), ("heads", 8), ("kv-heads", 2), ("head-dim", 64), ("plantings", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--keys", type=int, help="Keys, if they are not as many as queries.")
    parser.add_argument("--value-dim", type=int, help="The head size of the values, if it is another one.")
    parser.add_argument("--places", type=int, default=100, help="Rows in which a function is wrong, if it is tried.")
    parser.add_argument("--files", nargs="+", default=FILES, help="Files of faulty functions.")
    parser.add_argument("--file", type=Path, help="Where results are written, and found again.")
    parser.add_argument("--right", type=int, default=200, help="How often correct variants are judged.")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    quick.SCORES, screening.AGAIN = 0, max(asked.heads * asked.length // 512, screening.WORST)
    n, keys, d = asked.length, asked.keys or asked.length, asked.head_dim
    text = f"batch = 1, kv_heads = {asked.kv_heads}, heads = {asked.heads}, q_len = {n}, k_len = {keys}, head_dim = {d}"
    text += f", value_dim = {asked.value_dim or d}, causal = true"
    kept = Kept(asked.file, text)
    kinds, missed = planted(text, asked, kept) if asked.plantings else (0, 0)
    names = variants(text) if asked.right else []
    turns = [(names[turn % len(names)], turn) for turn in range(asked.right)]
    accused = [
        name for name, turn in turns if kept.measured(("right", name, turn), partial(_accused, name, text, turn))
    ]
    print(f"{kinds - missed} of {kinds} kinds are found in 99 of 100 plantings")
    print(f"{len(accused)} of {asked.right} cases of {len(names)} correct variants accused: {accused}")


def _accused(name: str, text: str, turn: int) -> bool:
    return right(name, text, turn).refuted


def planted(text: str, asked: argparse.Namespace, kept: Kept) -> tuple[int, int]:
    """How many kinds of faults there are, and how many of them are missed more than once in a hundred times."""
    bounds, missed, kinds = Bounds(text), 0, 0
    clean = sdpa(*bounds.inputs, causal=True)
    for name, out, places in faulty(bounds, asked.places, tuple(asked.files)):
        caught, turns = 0, min(asked.plantings, len(places))
        for turn in range(turns):
            at = tuple(places[turn if turns == len(places) else pick(len(places), name, turn)].tolist())

            def wrong(q: Any, k: Any, v: Any, *, causal: bool = False, at: Any = at, out: Any = out) -> Any:
                found = clean.clone()
                found[at] = out[at]
                return found

            caught += kept.measured((name, *at), lambda wrong=wrong: judged(wrong, text).refuted)
        kinds, missed = kinds + 1, missed + (caught < 0.99 * turns)
        print(f"{name:<44}{caught:5} of {turns} found, of {len(places)} places", flush=True)
    return kinds, missed


if __name__ == "__main__":
    main()
