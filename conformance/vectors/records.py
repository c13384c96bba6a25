"""The index of a set of vectors: its types, and the meaning of each key."""

from typing import Annotated as Key
from typing import Literal, TypedDict

FORMAT = 2
"""The number of this format, which is raised when a key goes or comes to mean something else."""

Plain = bool | int | float | str | list[int | float] | None
"""The value of an option."""


class Provenance(TypedDict):
    """What a set was made by; with these versions the same command makes the same bytes."""

    attnspec: Key[str, "The version of attnspec."]
    numpy: Key[str, "The version of NumPy, which computes what is expected."]
    hypothesis: Key[str, "The version of Hypothesis, which draws some of the cases of a full set."]
    seed: Key[int, "The seed of all cases."]
    command: Key[str, "The command, without the folder that it wrote."]


class Mistake(TypedDict):
    """Something that vectors refute."""

    says: Key[str, "What it does, in a sentence."]
    convention: Key[bool, "Whether it is another word of a convention, which is right where it is declared."]
    refuted: Key[bool, "Whether a vector of this mechanism and dtype refutes it."]


class Stated(TypedDict):
    """A mechanism in a dtype."""

    mechanism: Key[str, "Its name."]
    operator: Key[str, "The operator that it is a mechanism of: what a kernel computes."]
    title: Key[str, "What people call it."]
    version: Key[int, "The version of its specification."]
    digest: Key[str, "Of the text of its specification and its operator's."]
    dtype: Key[str, "The dtype under test."]
    grade: Key[str, "The precision that the bounds are derived for."]
    says: Key[str, "What that precision is."]
    file: Key[str, "The file of its arrays, in this folder."]
    conventions: Key[dict[str, str], "All of its conventions, each with the word that is followed."]
    undeclared: Key[list[str], "Those of them that nobody has declared, so that the first word is followed."]
    mistakes: Key[dict[str, Mistake], "The known mistakes and other words, by name."]


class Output(TypedDict):
    """What is expected of an output."""

    expected: Key[str, "The name of the array of what is expected, float64."]
    bound: Key[str, "The name of the array of how far rounding may take each entry: 0 is exact, inf is open."]
    dtype: Key[str, "The dtype in which it is returned; integer, boolean or number where any of that kind will do."]
    shape: Key[list[int], "Its shape."]


class Input(TypedDict):
    """An array that is passed."""

    tensor: Key[str, "The name of the array."]
    dtype: Key[str, "Its dtype: that of its entries in the file, bit for bit."]
    shape: Key[list[int], "Its shape."]
    required: Key[bool, "Whether it is passed by position; others by name."]


class Vector(TypedDict):
    """One call with what is expected of it."""

    name: Key[str, "Its name, which the names of its arrays begin with."]
    mechanism: Key[str, "The mechanism."]
    dtype: Key[str, "The dtype under test."]
    law: Key[str, "The law that it states: the definition."]
    case: Key[str, "The scenario or the draw that it is."]
    key: Key[str, "The key of the case in attnspec."]
    layout: Key[str, "The memory layout that the case is about; the arrays of the file are contiguous."]
    sizes: Key[dict[str, int], "The sizes."]
    options: Key[dict[str, Plain], "The options that are passed: those that are not at their default."]
    conventions: Key[dict[str, str], "The conventions that the result depends on, each with the word that is followed."]
    inputs: Key[dict[str, Input], "The arrays that are passed, required ones first."]
    outputs: Key[dict[str, Output], "What is expected, the main output first; the others need not be returned."]
    refutes: Key[
        dict[str, dict[str, float | None]],
        "The mistakes and other words that it refutes: for each output the error over the bound; null is no number.",
    ]


class Result(TypedDict):
    """An output of one of several calls."""

    dtype: Key[str, "The dtype in which it is returned; integer, boolean or number where any of that kind will do."]
    shape: Key[list[int], "Its shape."]


class Call(TypedDict):
    """One of several calls."""

    sizes: Key[dict[str, int], "The sizes that the shapes of its inputs fix."]
    options: Key[dict[str, Plain], "The options that are passed: those that are not at their default."]
    inputs: Key[dict[str, Input], "The arrays that are passed, required ones first; calls may share some."]
    outputs: Key[dict[str, Result], "What it returns, the main output first."]


class Term(TypedDict):
    """Entries of an output of a call, moved and multiplied."""

    call: Key[int, "The number of the call, from 0 on."]
    output: Key[str, "The output."]
    factor: Key[float | None, "What each entry is multiplied by; null where each has its own."]
    factors: Key[str | None, "The name of the array of factors, one for each entry of the side; null where it is one."]
    places: Key[str | None, "That of the places in the output, in C order, -1 for none; null: every entry as it is."]


class Side(TypedDict):
    """One side of a relation: a constant and terms, which are added in their order."""

    constant: Key[str | None, "The name of the array of constants; null for zeros."]
    terms: Key[list[Term], "The terms."]


class Relation(TypedDict):
    """Several calls, and how their results stand to one another."""

    name: Key[str, "Its name, which the names of its arrays begin with."]
    mechanism: Key[str, "The mechanism."]
    dtype: Key[str, "The dtype under test."]
    law: Key[str, "The law that it states."]
    says: Key[str, "The law in a sentence."]
    case: Key[str, "The scenario or the draw that the first call is."]
    key: Key[str, "The key of the case in attnspec."]
    conventions: Key[dict[str, str], "The conventions that a result depends on, each with the word that is followed."]
    calls: Key[list[Call], "The calls."]
    kind: Key[
        Literal["equal", "at_most", "differ"],
        "How the left side stands to the right one: entry by entry, or that some entry differs.",
    ]
    shape: Key[list[int], "The shape of both sides."]
    left: Key[Side, "The left side."]
    right: Key[Side, "The right side."]
    bound: Key[
        str | None,
        "The name of the array of how far rounding may take each entry of one side from the other: inf is "
        "open, and only where it is NaN may both be NaN; null for zeros, which are exact.",
    ]
    refutes: Key[
        dict[str, dict[str, float | None]],
        "The mistakes and other words that it refutes: under `relation` the error over the bound; null is no number.",
    ]


class Index(TypedDict):
    """A set of vectors."""

    format: Key[int, "The number of this format."]
    provenance: Key[Provenance, "What it was made by."]
    small: Key[bool, "Whether it has only as many vectors as refute what can be refuted."]
    mechanisms: Key[list[Stated], "The mechanisms, once for each dtype."]
    left_out: Key[dict[str, str], "Mechanisms that were asked for and have no vectors, with the reason."]
    vectors: Key[list[Vector], "The vectors of one call, those of a mechanism and dtype one after the other."]
    relations: Key[list[Relation], "The vectors of several calls, in the same order."]
