"""What a run costs: CPU seconds of the scenario phase and of the quick profile, and where they go.

    python benchmarks/speed.py [TARGET] [DTYPE]

All figures are of one run in one process, on one thread, after imports and loading, so that they can be compared with
each other; absolute times depend on the machine.
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import hypothesis  # noqa: F401 - imported here, so that it is not counted below
import torch  # noqa: F401

from attnspec.cases.plans import Plan, plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging import conventions, engine
from attnspec.judging.frames import Frames
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import FP32, Grade
from attnspec.subjects.subject import AdapterSubject
from attnspec.subjects.targets import resolve


class Clock:
    """CPU time by kind of work; what is nested in another kind is counted once, to the inner one."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._running: list[list[float]] = []

    def wrap(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **keywords: Any) -> Any:
            inner = [0.0]
            self._running.append(inner)
            start = time.process_time()
            try:
                return function(*args, **keywords)
            finally:
                whole = time.process_time() - start
                self._running.pop()
                if self._running:
                    self._running[-1][0] += whole
                self.spent[kind] = self.spent.get(kind, 0.0) + whole - inner[0]
                self.calls[kind] = self.calls.get(kind, 0) + 1

        return timed


def main(target: str = "torch_sdpa", dtype: str = "float32") -> None:
    library()
    subject = resolve(target)[0]
    mechanisms = [m for m in library().values() if m.operator == subject.operator]
    clock, counted = Clock(), [0]
    AdapterSubject.call = clock.wrap("subject", AdapterSubject.call)  # type: ignore[method-assign]
    Frames.bound = clock.wrap("bounds", Frames.bound)  # type: ignore[method-assign]
    Frames.exact = clock.wrap("definitions", Frames.exact)  # type: ignore[method-assign]
    Frames.on_case = clock.wrap("definitions", Frames.on_case)  # type: ignore[method-assign]
    conventions.identify = clock.wrap("identification", conventions.identify)
    judged = engine.judged

    def counting(*args: Any) -> Any:
        counted[0] += 1
        return judged(*args)

    engine.judged = counting
    before = _memory()

    phases: dict[str, float] = {}
    first, blocks_of, further = PROFILES["quick"], Plan.blocks, Plan.further
    for name, blocks in (("scenario phase", 1), ("quick profile, scenarios included", 3)):
        Plan.blocks = lambda self, n=blocks: itertools.islice(blocks_of(self), n)  # type: ignore[method-assign]
        Plan.further = further if blocks == 3 else lambda self, count: iter(())  # type: ignore[method-assign]
        mechanisms[0].kept(conventions.Findings).clear()
        start = time.process_time()
        for mechanism in mechanisms:
            engine.run(engine.Request(subject, mechanism, dtype, first))
        phases[name] = time.process_time() - start
        if blocks == 1:
            scenario_cases = counted[0]
            scenario_spent = dict(clock.spent)

    print(f"{target}, {dtype}, CPU seconds after imports")
    print(f"  scenario phase of {len(mechanisms)} mechanisms   {phases['scenario phase']:.3f}")
    rest = phases["quick profile, scenarios included"]
    print(f"  the rest of the quick profile          {rest:.3f}   (scenarios again from what was kept, and draws)")
    whole = phases["scenario phase"]
    for kind, spent in sorted(scenario_spent.items(), key=lambda item: -item[1]):
        print(f"    {kind:<16} {spent:.3f}   {spent / whole:5.0%}")
    own = whole - sum(scenario_spent.get(k, 0.0) for k in ("subject", "bounds", "definitions"))
    print(f"    neither in the subject nor in definitions and bounds: {own / whole:.0%}")
    print(f"  {scenario_cases} laws on cases, {1e3 * whole / scenario_cases:.2f} ms each")
    print(f"  cost of a bound relative to the plain definition: {_ratio():.1f}")
    print(f"  memory above imports: {_memory() - before:.0f} MB")


def _ratio() -> float:
    """How much dearer the definition is on error-carrying numbers than on plain ones, on the same cases."""
    m = library()["attention"]
    subject = resolve("reference")[0]
    samples = plan(m, subject.claims, PROFILES["quick"], 0, "float32").scenarios[:20]

    def cost(grade: Grade | None) -> float:
        start = time.process_time()
        for _ in range(5):
            for sample in samples:
                Frame(m, sample.values, grade=grade, dtype="float32").outputs("out")
        return time.process_time() - start

    return cost(FP32) / cost(None)


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
