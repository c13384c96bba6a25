"""Cases whose structure, regime and seed Hypothesis draws."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from ..errors import SpecError
from ..mechanisms.library import others_froze
from ..mechanisms.mechanism import DRAWN_LAYOUTS, Mechanism
from ..subjects.claims import Claims
from .applicability import pins
from .covering import factors
from .disk import keep_cases, kept_cases, key_of, key_of_draws
from .drawing import drawn, seed_of
from .samples import Case, Sample, Unfit


class Structures:
    """Samples of which somebody else draws everything but the entries of arrays, by integers below a limit.

    The least integers are the simplest: a plain regime and layout, small sizes, options at their default.
    """

    def __init__(self, mechanism: Mechanism, claims: Claims, dtype: str) -> None:
        self.mechanism, self.claims, self.dtype = mechanism, claims, dtype
        self.pinned = pins(mechanism, claims)
        self.regimes = next(f.levels for f in factors(mechanism, claims) if f.key == "regime")

    def sample(self, label: str, below: Callable[[int], int]) -> Sample | None:
        """One sample; None where what was drawn is unfit."""
        regime, layout = self.regimes[below(len(self.regimes))], DRAWN_LAYOUTS[below(len(DRAWN_LAYOUTS))]
        case = Case(self.mechanism.name, label, below(2**32), self.pinned, regime=regime, layout=layout)
        return drawn(self.mechanism, case, self.claims, self.dtype, lambda key, n: below(max(n, 1)))


def explored(mechanism: Mechanism, claims: Claims, seed: int, dtype: str, count: int) -> list[Sample]:
    """Samples that Hypothesis draws: structure, regime, layout and seed; those of an earlier run if they are kept."""
    pinned = pins(mechanism, claims)
    regimes = next(f.levels for f in factors(mechanism, claims) if f.key == "regime")
    asked = (sorted(pinned.items()), claims.bounds, regimes, seed, dtype, count, version("hypothesis"))
    key = key_of_draws(mechanism, repr(asked))
    samples = [drawn(mechanism, case, claims, dtype) for case in kept_cases(key)]
    if samples:
        return [sample for sample in samples if sample is not None]
    found = _explored(mechanism, claims, seed, dtype, count, pinned, regimes)
    if all(_redrawn(sample, claims) for sample in found):
        keep_cases(key, [sample.case for sample in found])
    return found


def _redrawn(sample: Sample, claims: Claims) -> bool:
    """Whether a sample is drawn again from its case as it is."""
    try:
        again = Sample(sample.mechanism, sample.case, sample.dtype, claims=claims)
    except (Unfit, SpecError):
        return False
    return again.case == sample.case and key_of(again) == key_of(sample)


@dataclass(slots=True)
class Example:
    """What Hypothesis has drawn for one sample: integers, each with the number of its choices."""

    choices: list[tuple[int, int]] = field(default_factory=list)
    fits: bool | None = None
    """Whether there was a sample; None where Hypothesis has ended the drawing."""


class Examples(dict[tuple[Any, ...], list[Example]]):
    """What Hypothesis has drawn for the mechanisms of a library, whatever the dtype."""


class _CutError(Exception):
    """Something else is drawn than before."""


def _explored(
    mechanism: Mechanism,
    claims: Claims,
    seed: int,
    dtype: str,
    count: int,
    pinned: Mapping[str, Any],
    regimes: Sequence[str],
) -> list[Sample]:
    """The samples that Hypothesis draws.

    What it draws depends on nothing but the seed and on what came of its draws so far.
    So where all that it has drawn in another dtype comes to the same here, it would draw just that, and is not asked.
    """
    key = (mechanism.name, mechanism.digest, *sorted(pinned.items()), claims.bounds, tuple(regimes), seed, count)
    known, structures = mechanism.kept(Examples), Structures(mechanism, claims, dtype)
    found = _repeated(structures, known[key]) if key in known else None
    if found is None:
        found, known[key] = _drawn_anew(structures, seed, count, first=not known)
    return found


def _repeated(structures: Structures, examples: Sequence[Example]) -> list[Sample] | None:
    """The samples of examples that were drawn before; None where something else comes of one."""
    found: list[Sample] = []
    for example in examples:
        left = iter(example.choices)

        def below(n: int, left: Iterator[tuple[int, int]] = left) -> int:
            count, index = next(left, (None, 0))
            if count != n:
                raise _CutError
            return index

        try:
            sample = structures.sample(f"draw {len(found) + 1}", below)
        except _CutError:
            if example.fits is None and next(left, None) is None:
                continue
            return None
        if example.fits is not (sample is not None) or next(left, None) is not None:
            return None
        found += [sample] if sample is not None else []
    return found


def _drawn_anew(
    structures: Structures, seed: int, count: int, *, first: bool = True
) -> tuple[list[Sample], list[Example]]:
    import hypothesis
    from hypothesis import strategies
    from hypothesis.errors import Unsatisfiable

    found: list[Sample] = []
    examples: list[Example] = []
    checks: list[Any] = list(hypothesis.HealthCheck)

    @hypothesis.seed(seed_of(seed, structures.mechanism.name, "explored"))
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=checks,
    )
    @hypothesis.given(strategies.data())
    def explore(data: Any) -> None:
        example = Example()
        examples.append(example)

        def below(n: int) -> int:
            index = data.draw(strategies.integers(0, n - 1))
            example.choices.append((n, index))
            return index

        sample = structures.sample(f"draw {len(found) + 1}", below)
        example.fits = sample is not None
        hypothesis.assume(sample is not None)
        if sample is not None:
            found.append(sample)

    with contextlib.suppress(Unsatisfiable), _reading_no_sources(), _collecting_nothing(first):
        explore()
    return found, examples


@contextlib.contextmanager
def _collecting_nothing(first: bool) -> Iterator[None]:
    """Have Hypothesis, which collects garbage when it draws for the first time, not search what there is before.

    All specifications that were read are there, and hardly any garbage. What somebody else has frozen stays so.
    """
    alone = first and not others_froze()
    if alone:
        gc.freeze()
    try:
        yield
    finally:
        if alone:
            gc.unfreeze()


@contextlib.contextmanager
def _reading_no_sources() -> Iterator[None]:
    """Have Hypothesis draw none of the numbers that stand in the sources of modules which are no installed packages.

    To find them it parses all of these, those of attnspec where that is installed to be edited, and keeps what it finds
    in the working directory. No case may depend on them: they differ with what else is imported.
    """
    from hypothesis.internal.conjecture import providers

    if not all(hasattr(providers, name) for name in ("Constants", "CONSTANTS_CACHE", "_get_local_constants")):
        yield  # a version that draws none, or in another way
        return
    nothing = providers.Constants()
    own = {"_get_local_constants": lambda: nothing, "CONSTANTS_CACHE": type(providers.CONSTANTS_CACHE)(1024)}
    kept = {name: getattr(providers, name) for name in own}
    for name, x in own.items():
        setattr(providers, name, x)
    try:
        yield
    finally:
        for name, x in kept.items():
            setattr(providers, name, x)
