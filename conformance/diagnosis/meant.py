"""What may be meant by a subject that is wrong: an option that it does not take has one value in every call.

A kernel without an option for causal attention may well be a causal one, and one without a scale may leave it to its
caller. Such a declaration is the innocent reading of what is otherwise a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..judging.bench import Bench
from .candidates import Candidate, other_word
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
    for candidate in _candidates(bench):
        if wrong[0].stance(candidate) is Stance.DIFFERS:  # as most do
            continue
        if fit([o.stance(candidate) for o in (*wrong, *right)]):
            return next(iter(candidate.options.items()))
    return None


def _candidates(bench: Bench) -> Iterator[Candidate]:
    """The definition with each value of each option; then also by another word of a convention.

    What a convention is about may show with that option alone, so that no call has told which word is followed.
    """
    m, values = bench.mechanism, [*_values(bench)]
    declared = m.declared(bench.subject.claims.conventions)
    words = [
        other_word(convention, word, says)
        for convention, known in m.conventions.items()
        for word, says in known.items()
        if convention not in declared and word != bench.words[convention]
    ]
    yield from (Candidate(f"{name} = {value}", "", options={name: value}) for name, value in values)
    for word in words:
        for name, value in values:
            yield Candidate(f"{name} = {value} and {word.name}", "", words=word.words, options={name: value})


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
