"""The request of a run, its counts, and the cells that it reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..cases.large import NAMED, LargeSample
from ..cases.profiles import Profile
from ..cases.samples import Case, Sample
from ..cases.workloads import WORKED
from ..mechanisms.mechanism import Law, Mechanism
from ..mechanisms.serving import has_tiles, invariance, serving, threads
from ..mechanisms.workloads import Use
from ..numerics.grades import Grade
from ..subjects.subject import Subject
from .bench import Bench
from .contracts import CONTRACTS, ONCE
from .conventions import Finding
from .judge import Kind, Outcome, definition_law
from .large import Judged
from .margins import Margins
from .recognition import Mark
from .refusals import Refusals
from .trial import Trial


@dataclass(frozen=True, slots=True)
class Failure:
    """A law that does not hold, with its witness."""

    law: str
    outcome: Outcome
    sample: Sample
    found: Sample
    """The sample on which it was found, before it was made smaller."""
    tried: int = 0
    before: tuple[Case, ...] = ()
    """The cases that ran before it, in their order."""
    dependent: bool = False
    """Whether it holds in a new process, where nothing was tried before it."""
    finding: str = ""
    """The known finding that it belongs to; nothing if it is new."""
    retraced: bool = False
    """Whether `before` is a sequence of calls after which it fails in a new process, each made once."""
    large: Judged | None = None
    """What came of the case, if it is one of the sizes of production."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One verdict: subject x law x dtype x device."""

    subject: str
    operator: str
    mechanism: str
    law: str
    level: str
    dtype: str
    device: str
    verdict: str
    cases: int = 0
    worst: float = 0.0
    """The largest error in units of the bound."""
    says: str = ""
    failure: Failure | None = None
    vacuous: int = 0
    """The cases on which every bound was too wide to decide."""
    claimed: float | None = None
    """The largest error in units of the bound that is claimed; None where rounding results is all that was needed."""
    margins: Margins | None = None
    """The errors of the cases on which a law holds, entry by entry."""
    note: str = ""
    """Why a failure is a note and no more; nothing if it counts."""

    @property
    def address(self) -> str:
        return f"{self.mechanism}.{self.law}"

    @property
    def finding(self) -> str:
        """The known finding whose failures alone it has; nothing if there is a new one, or none at all."""
        return self.failure.finding if self.bad and self.failure is not None else ""

    @property
    def bad(self) -> bool:
        return self.verdict in ("fail", "error")


@dataclass(slots=True)
class Tally:
    """How a law has fared so far."""

    law: Law
    counts: Counter[Kind] = field(default_factory=Counter)
    worst: float = 0.0
    claimed: float | None = None
    """As in a cell."""
    margins: Margins = field(default_factory=Margins)
    failure: Failure | None = None
    known: Failure | None = None
    """The first failure that belongs to a known finding; the law goes on after it, for there may be another fault."""
    refused: Failure | None = None
    """The first call that was refused, of a law that leaves it free to do so."""
    declined: str = ""
    slow: str = ""
    """Why there was no time for a case."""
    doubted: int = 0
    unanswered: int = 0
    """Cases on which it could not be tried, for they gave no result."""

    @property
    def open(self) -> bool:
        return self.failure is None

    @property
    def shown(self) -> Failure | None:
        """The failure that its verdict rests on."""
        return self.failure or self.known or self.refused

    @property
    def level(self) -> str:
        return self.law.weight(refused=self.shown is not None and self.shown.outcome.refusal)

    @property
    def violated(self) -> bool:
        return self.shown is not None and self.level == "must"

    def verdict(self) -> tuple[str, str]:
        """The verdict, and what to say of it."""
        if self.shown is not None:
            error = self.shown.outcome.kind is Kind.FAULTED
            return ("error" if error else "fail"), self.shown.outcome.says
        if self.counts[Kind.HELD]:
            return "pass", ""
        if self.slow:
            return "not_tested", self.slow
        if self.counts[Kind.DECLINED]:
            return "not_declared", self.declined
        if self.counts[Kind.VACUOUS]:
            return "not_tested", "every bound was too wide to decide"
        if self.unanswered:
            return "not_tested", "no case gave a result to test it on"
        return "not_tested", "no case reached its condition"


MEMORY = 4 << 30
"""Bytes that a large case may take, unless otherwise asked for."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to run."""

    subject: Subject
    mechanism: Mechanism
    dtype: str
    profile: Profile
    device: str = "cpu"
    seed: int = 0
    laws: Collection[str] | None = None
    """The laws by name; all of them if None."""
    deadline: float | None = None
    only: Sequence[Sample] = ()
    """The samples to try, where none are to be drawn."""
    first: bool = False
    """Whether the first violation ends the run: nothing more is to be known."""
    watch: Callable[[Trial, bool], None] | None = None
    """Who is told of every trial of a plan, and whether the definition is kept on it."""

    marks: tuple[Mark, ...] = ()
    """By what the failures of known findings are recognized."""
    memory: int = MEMORY
    """Bytes that a large case may take in either process."""
    stress: int = 0
    """How often each large case is made again beside other threads."""
    workload: Mapping[str, Use] = field(default_factory=dict)
    """The calls of a workload that are tried in place of all else, by the names of their verdicts."""
    spread: bool = False
    """Whether the errors of all entries are counted, for a report."""
    dtypes: tuple[str, ...] = ()
    """All dtypes that the run asks for."""

    @property
    def large_alone(self) -> bool:
        """Whether nothing but cases of the sizes of production is asked for."""
        return bool(self.laws) and all(map(is_large, self.laws or ()))

    def wants(self, name: str) -> bool:
        return self.laws is None or name in self.laws


@dataclass(frozen=True, slots=True)
class Result:
    """The cells of a run, and what else was learnt."""

    cells: tuple[Cell, ...]
    conventions: Mapping[str, Finding] = field(default_factory=dict)
    grade: Grade | None = None
    """The tightest grade, from the claimed one on, that explains everything that was returned."""
    calls: int = 0
    cases: int = 0
    seconds: float = 0.0
    bench: Bench | None = None
    grades: Sequence[Grade] = ()
    """The grades that were tried, the claimed one first."""
    partial: bool = False
    refusals: Refusals = field(default_factory=Refusals)
    ended: str = ""
    """Why cases were left out; nothing if none were."""
    outcomes: Sequence[tuple[Sample, Kind]] = ()
    """How the definition fared on each case."""
    marks: tuple[Mark, ...] = ()
    met: frozenset[str] = frozenset()
    """The known findings whose condition a case has met that was answered."""
    large: Sequence[tuple[LargeSample, Kind]] = ()
    """How each case of the sizes of production fared."""
    observed: tuple[str, ...] = ()
    """What was seen that nobody has claimed, in words."""
    times: tuple[float, ...] = ()
    """The seconds of calls, as far as they are known."""


LARGE = NAMED
"""What the names of verdicts on cases of the sizes of production begin with."""
BOUNDS = "contract.bounds"
"""The verdict on what is read and written beyond arrays, which is asked at the sizes of production."""
THREADS = "contract.threads"
"""The verdict on calls of several threads at once."""
TILES = "tiles"
"""The name of the verdict on all cases at the edges of the tiles that a subject declares."""
PARAMETERS = "contract.parameters"
"""The verdict on parameters of a function that no input or option is."""
BACKWARD = "contract.backward"
"""The verdict on gradients of a function that are asked for in other ways than all at once."""
LAYOUT = "contract.layout"
"""The verdict on a layout that nobody has declared, where everything is to be declared."""


def law_names(mechanism: Mechanism) -> list[str]:
    """Everything that gets a verdict: laws, definition, rejects and contracts, and an operator's conventions.

    Laws come first, for what they say of a failure is more than that the definition is not kept.
    """
    conventions = mechanism.conventions if mechanism.name == mechanism.operator else ()
    return [
        *mechanism.laws,
        "definition",
        *mechanism.rejects,
        *(f"convention.{name}" for name in conventions),
        *(f"contract.{name}" for name in CONTRACTS),
    ]


def large_names(mechanism: Mechanism) -> list[str]:
    """The verdicts on cases of the sizes of production."""
    names = (*serving(mechanism), *([TILES] if has_tiles(mechanism) else ()))
    beside = [] if threads(mechanism) is None else [THREADS]
    kinds = (f"contract.{kind}_invariant" for kind in invariance(mechanism))
    return [*(f"{LARGE}{name}" for name in names), *([BOUNDS] if names else ()), *kinds, *beside]


def every_name(mechanism: Mechanism) -> list[str]:
    """Everything that may have a verdict under any profile."""
    return [*law_names(mechanism), *large_names(mechanism)]


def has_name(mechanism: Mechanism, name: str) -> bool:
    """Whether something of that name may have a verdict, under a profile or on a workload."""
    asked_once = name == BACKWARD and mechanism.stating.gradient_of
    return bool(name.startswith(WORKED) or name in every_name(mechanism) or asked_once)


def is_large(name: str) -> bool:
    """Whether a verdict of that name is on cases of the sizes of production."""
    return name.startswith((LARGE, WORKED)) or name in (BOUNDS, THREADS) or name.endswith("_invariant")


def law_of(mechanism: Mechanism, name: str) -> Law | None:
    """A law by name, the definition included; None for rejects, conventions and contracts."""
    return definition_law(mechanism) if name == "definition" else mechanism.laws.get(name)


def sentence_of(mechanism: Mechanism, name: str) -> str:
    """What anything that gets a verdict asks for, in a sentence."""
    stated = law_of(mechanism, name) or mechanism.rejects.get(name)
    if stated is not None:
        return stated.says
    convention = name.removeprefix("convention.")
    if convention != name:
        return f"One word of {convention} explains the results, the same in every dtype."
    if name.startswith(LARGE):
        return "Every output agrees with the definition, at production sizes."
    if name.startswith(WORKED):
        return "Every output agrees with the definition, on this call of the workload."
    if name == PARAMETERS:
        return "Every parameter of the function is an input or an option of the operator."
    contract = name.removeprefix("contract.")
    return CONTRACTS.get(contract) or ONCE[contract]
