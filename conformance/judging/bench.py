"""A subject on a device: everything that a trial needs and that does not depend on the sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..mechanisms.mechanism import Mechanism
from ..subjects.subject import Subject
from .pace import Pace, pace_of

ANSWERED = "answered"
"""Under which calls are counted that have ended in no fault."""
DEATHS = 8
"""Calls that may end their process, with none that was answered, before a subject is called no more."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A subject on a device, with the words of all conventions, at one dtype of one mechanism."""

    subject: Subject
    mechanism: Mechanism
    dtype: str
    device: str
    words: Mapping[str, str]
    faults: Counter[str] = field(default_factory=Counter)
    """How many calls have ended in each kind of fault, and how many were answered."""

    @property
    def pace(self) -> Pace:
        """How fast the subject is."""
        return pace_of(self.subject, self.mechanism, self.dtype, self.device)

    @property
    def deadly(self) -> bool:
        """Whether calls end their process, and none was answered."""
        return self.faults["died"] >= DEATHS and not self.faults[ANSWERED]

    @property
    def words_key(self) -> tuple[str, ...]:
        return tuple(self.words[c] for c in self.mechanism.conventions)
