"""The types of `attnspec diff --json`, and the meaning of each key.

docs/diff.md is made of these types: `python -m attnspec.reporting.form` writes it.
"""

from typing import Annotated as Key
from typing import Literal, NotRequired, TypedDict

from .witnesses import Value

FORMAT = 1
"""The number of this format, which is raised when a key goes or comes to mean something else."""
Which = Literal["a", "b"]


class Side(TypedDict):
    """One of the two."""

    name: Key[str, "How it is called on the page; different from the other one."]
    target: Key[str, "As it was typed."]
    subject: Key[str, "The name of the subject."]
    python: Key[str, "The version of Python that calls it; empty where nothing is called."]
    layout: Key[
        str, "The axes of its arrays in their order; empty where nothing is called, or there is one order only."
    ]
    packages: Key[dict[str, str], "The versions of the packages that it presents or imports."]


class Range(TypedDict):
    """Where something happens."""

    conditions: Key[list[str], "What holds on every case on which it happens, and not on all others; maybe nothing."]
    cases: Key[int, "Cases on which it happens."]
    such: Key[int, "Cases on which all of the conditions hold."]


class Witness(TypedDict):
    """The smallest case found."""

    sizes: Key[dict[str, Value], "Its sizes, and options that are not at their default."]
    place: Key[str, "The entry at which the two are furthest apart; empty where one gave no result."]
    a: Key[Value, "What the first has there, or why it gave no result."]
    b: Key[Value, "The same of the second."]
    expected: Key[NotRequired[Value], "What the definition has there, where one is wrong."]


class Convention(TypedDict):
    """A convention in which they differ, both being right."""

    convention: Key[str, "Its name."]
    a: Key[str, "The word of the first."]
    b: Key[str, "The word of the second."]
    dtypes: Key[list[str], "In which dtypes."]
    where: Key[Range | None, "Where it shows; null where no case that was tried shows it."]
    witness: Key[Witness | None, "The smallest case on which it shows."]


class Lack(TypedDict):
    """What one claims and the other does not."""

    lacks: Key[Which, "Which one lacks it."]
    what: Key[str, "An option, an input, a dtype, sizes, or an output."]


class Refusal(TypedDict):
    """What one refuses in the call, and the other answers."""

    refuses: Key[Which, "Which one refuses."]
    says: Key[str, "What it says."]
    dtypes: Key[list[str], "In which dtypes."]
    where: Key[Range, "Where."]


class Open(TypedDict):
    """Where both are right and differ, for the definition leaves it open."""

    output: Key[str, "The output."]
    mechanism: Key[str, "The specification on whose cases it shows."]
    dtypes: Key[list[str], "In which dtypes."]
    where: Key[Range, "Where."]
    witness: Key[Witness, "The smallest case on which it shows."]


class Wrong(TypedDict):
    """Where one is wrong, and the other is right."""

    wrong: Key[Which, "Which one is wrong."]
    law: Key[str, "The law that says most, with its mechanism."]
    sentence: Key[str, "What it asks for."]
    says: Key[str, "What goes wrong, where that is not a number."]
    also: Key[list[str], "Further laws that it breaks and the other one keeps."]
    dtypes: Key[list[str], "In which dtypes."]
    where: Key[Range | None, "Where it is wrong; null where the calls of cases themselves are right."]
    sizes: Key[dict[str, Value], "Sizes and options of the smallest case found."]
    found: Key[Value, "What it gave."]
    expected: Key[Value, "The expected value."]
    units: Key[float | None, "The error in units of the bound; null if it is not finite."]


class Precision(TypedDict):
    """How precise they are at one dtype."""

    dtype: Key[str, "The dtype."]
    a: Key[str, "The tightest grade that explains the first; empty where none does."]
    b: Key[str, "The same of the second."]
    claimed: Key[list[str], "The grades that they claim."]
    laws: Key[
        dict[str, list[float | None]],
        "The largest errors of both by law, in units of the bound that each claims; null where rounding the result "
        "explains all.",
    ]


class Bits(TypedDict):
    """On how many cases they are the same to the bit."""

    same: Key[int, "Cases on which they are."]
    cases: Key[int, "Cases that both answered."]
    apart: Key[float, "The largest distance of two right answers, as a part of the bounds of both."]
    witness: Key[Witness | None, "The smallest case on which both are right, and bits differ by rounding alone."]


class Contract(TypedDict):
    """A contract that one keeps and the other breaks."""

    contract: Key[str, "Its name."]
    keeps: Key[Which, "Which one keeps it."]
    says: Key[str, "What the other one does."]
    dtypes: Key[list[str], "In which dtypes."]


class Pair(TypedDict):
    """Two implementations of one operator."""

    operator: Key[str, "What both compute."]
    a: Side
    b: Side
    verdict: Key[Literal["same", "differ", "partial", "nothing"], "Whether they differ, or what keeps that open."]
    sentence: Key[str, "The answer in a sentence."]
    cases: Key[int, "Cases to which both have said something."]
    both_wrong: Key[int, "Cases on which both are wrong, and give something else."]
    broken: Key[list[str], "Laws that both break."]
    ended: Key[str, "Why cases were left out; empty where none were."]
    conventions: Key[list[Convention], "Conventions in which they differ."]
    lacks: Key[list[Lack], "What one lacks."]
    refusals: Key[list[Refusal], "What one refuses."]
    open: Key[list[Open], "Where both are right and differ."]
    wrong: Key[list[Wrong], "Where one is wrong."]
    precision: Key[list[Precision], "How precise they are."]
    bits: Key[Bits, "On how many cases bits are the same."]
    contracts: Key[list[Contract], "Contracts that one keeps."]


class Difference(TypedDict):
    """What two targets differ in."""

    format: Key[int, "The number of the format."]
    attnspec: Key[str, "The version of attnspec."]
    platform: Key[str, "System and machine."]
    command: Key[str, "The command as it was typed."]
    started: Key[str, "The start time."]
    profile: Key[str, "The profile."]
    seed: Key[int, "The seed of all cases."]
    device: Key[str, "The device of the calls."]
    seconds: Key[float, "The duration in seconds."]
    pairs: Key[list[Pair], "What was compared, by operator."]
