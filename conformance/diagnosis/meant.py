"""What may be meant by a subject that is wrong: an option that it does not take has one value in every call.

A kernel without an option for causal attention may well be a causal one, and one without a scale may leave it to its
caller. Such a declaration is the innocent reading of what is otherwise a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..judging.bench import Bench
from .candidates import Candidate
from .observations import Observation, Stance
from .search import fit

CASES = 2
"""Wrong cases that there are at least: an option is told if it agrees on all of them, and differs on no other."""


def fixed_option(bench: Bench, observations: Sequence[Observation]) -> tuple[str, Any] | None:
    """The option, and its value, with which the definition agrees with the subject on every call.

    None where there is no such option, or the subject takes it: that is wrong whatever is meant.
    """
    wrong, right = ([o for o in observations if o.right is is_right] for is_right in (False, True))
    if len(wrong) < CASES:
        return None
    for name, value in _values(bench):
        candidate = Candidate(f"{name} = {value}", "", options={name: value})
        if wrong[0].stance(candidate) is Stance.DIFFERS:  # as most do
            continue
        if fit([o.stance(candidate) for o in (*wrong, *right)]):
            return name, value
    return None


def _values(bench: Bench) -> Iterator[tuple[str, Any]]:
    """The options that a subject does not take, each with values beside its default; a number may be one."""
    m, claims = bench.mechanism, bench.subject.claims
    for name in m.options:
        if name not in m.defaults or name in claims.names or name in claims.fixed:
            continue
        default = m.defaults[name]
        words = m.vocabulary.get(name, {})
        others = words if words else (not default,) if isinstance(default, bool) else (1.0,) if default is None else ()
        yield from ((name, x) for x in others if x != default)
