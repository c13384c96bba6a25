"""What a subject behaves like, as it is reported."""

from __future__ import annotations

from dataclasses import dataclass

from .candidates import Candidate, Changed


@dataclass(frozen=True, slots=True)
class Cause:
    """A mistake, or another word of a convention."""

    name: str
    says: str
    convention: str = ""
    word: str = ""


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a subject behaves like, and on how many cases."""

    causes: tuple[Cause, ...]
    """One, or two together, a convention last."""
    agreed: int
    """Cases that tell it from the definition, on all of which it agrees with the subject; if `by_laws`, failures."""
    others: tuple[str, ...] = ()
    """What gives the same on every case."""
    by_laws: bool = False
    """Whether outputs are random, so that nothing but the broken laws can be compared, each on several cases."""
    runner_up: str = ""
    """The single mistake or word that comes nearest of those that do not."""
    differs: int = 0
    """Cases on which the runner-up differs from the subject."""
    changed: tuple[Changed, ...] = ()
    """Of what is not known by a name, the lines of the definition that it changes."""
    candidate: Candidate | None = None
    """What was run to see that it agrees."""
    alike: tuple[Candidate, ...] = ()
    """What was run of the others."""

    @property
    def name(self) -> str:
        return " and ".join(cause.name for cause in self.causes)


@dataclass(frozen=True, slots=True)
class Nearest:
    """What comes nearest where nothing that is known agrees on every case."""

    name: str
    says: str
    agreed: int
    cases: int
    """Those on which the subject is wrong, or what is named would be."""
