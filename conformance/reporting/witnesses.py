"""A failure in full, as results and stored cases have it, and the meaning of each key."""

from typing import Annotated as Key
from typing import Literal, NotRequired, TypedDict

Value = str | int | float | bool | None
"""A value of a size or an option."""
Level = Literal["must", "should"]


class Array(TypedDict):
    """An array, written out."""

    dtype: Key[Literal["bool", "int64", "float64"], "The kind of its entries."]
    shape: Key[list[int], "Its shape."]
    entries: Key[list[Value], "Its entries in C order; inf, -inf and nan are texts."]


class Case(TypedDict):
    """A case, from which its arrays are drawn."""

    mechanism: Key[str, "Its mechanism."]
    label: Key[str, "Where it comes from."]
    seed: Key[int, "The seed of its arrays."]
    fixed: Key[dict[str, Value], "Sizes and options."]
    picks: Key[dict[str, int], "Which of several values was chosen, by name."]
    scenario: Key[str, "The scenario, if it is one."]
    regime: Key[str, "The regime of its entries, if any."]
    layout: Key[str, "The memory layout of its arrays."]
    literals: Key[dict[str, Array], "Arrays that are not drawn."]


class Origin(TypedDict):
    """The case on which a failure was found."""

    label: Key[str, "The scenario, pair or draw in which it was found."]
    regime: Key[str, "The regime of its entries, if any."]
    tried: Key[int, "The number of shrinking steps."]
    sizes: Key[dict[str, Value], "Its sizes before shrinking."]


class Missed(TypedDict):
    """The error against the definition on the same case."""

    units: Key[float | None, "The error in units of the bound; null if it is not finite."]
    bound: Key[float | None, "The bound; null if it is not finite."]


class Worst(TypedDict):
    """Where a law fails most."""

    found: Key[Value, "The value found."]
    expected: Key[Value, "The expected value."]
    bound: Key[float | None, "The bound; null if it is not finite."]
    units: Key[float | None, "The error in units of the bound; null if it is not finite."]
    where: Key[list[int], "The index of the entry."]
    spoiled: Key[int, "Entries beyond their bounds."]
    entries: Key[int, "Entries in all."]
    missed: Key[Missed | None, "The error from the definition, if the bound contains the subject's own error."]
    output: Key[NotRequired[str], "The output of the entry, if only some of its rows were judged."]


class Cause(TypedDict):
    """A known mistake, another word of a convention, or a faulty function."""

    name: Key[str, "Its name."]
    says: Key[str, "What it does."]


class Changed(TypedDict):
    """A line of a definition, or an option, as it was and as it would have to be."""

    line: Key[str, "Its name."]
    before: Key[str, "The part that is changed, as it was."]
    after: Key[str, "The same, changed."]


class Likeness(TypedDict):
    """What a subject behaves like, on every case that was looked at."""

    name: Key[str, "Its name; two at once are joined by a plus sign."]
    causes: Key[list[Cause], "One, or two at once."]
    agreed: Key[int, "Cases on which it differs from the definition; it matches the subject on all of them."]
    others: Key[list[str], "What gives the same results."]
    by_laws: Key[bool, "Whether laws were compared instead of outputs."]
    runner_up: Key[str, "The next best explanation."]
    differs: Key[int, "Cases on which the next best differs."]
    changed: Key[list[Changed], "The changed lines, if it has no name."]
    convention: Key[str, "The convention that would explain it, if it is one."]
    word: Key[str, "The word of it."]


class Nearest(TypedDict):
    """The nearest known mistake, if nothing fits."""

    name: Key[str, "Its name."]
    says: Key[str, "What it does."]
    agreed: Key[int, "Cases on which it agrees."]
    cases: Key[int, "Cases that were compared."]


class When(TypedDict):
    """The condition under which a subject is wrong."""

    says: Key[str, "The sentence."]
    where: Key[str, "The condition; empty if the subject is wrong on every case."]
    wrong: Key[int, "Wrong cases; the condition holds on all of them."]
    inside: Key[int, "Cases on which it holds."]
    outside: Key[int, "Cases on which it does not hold; all of them are right."]
    tested: Key[bool, "Whether it was tested on all cases drawn against it before the time ran out."]
    right_in: Key[list[str], "The other dtypes, if the subject is right in all of them."]
    at: Key[str, "The wrong entries in words, if they are the same on several cases."]


class Fixed(TypedDict):
    """An option that the subject does not take, and may be meant to have in every call."""

    option: Key[str, "Its name."]
    value: Key[Value, "Its value, with which the definition agrees with the subject on every call."]


class Follows(TypedDict):
    """Gradients that are those of what the function returns, which is wrong itself."""

    operator: Key[str, "The operator of the function."]
    told: Key[int, "Differences of its outputs that agree with the gradients, and not with the right ones."]


class Map(TypedDict):
    """The pattern of what is wrong."""

    words: Key[str, "The pattern in words."]
    case: Key[str, "The case on which it was seen."]
    rows: Key[list[str], "Its rows, a letter for each entry."]
    first: Key[int, "The number of the first row."]
    plane: Key[str, "Which item and head it shows."]
    subject: Key[NotRequired[list[list[Value]]], "The weights of these rows, a row for each query."]
    definition: Key[NotRequired[list[list[Value]]], "The expected weights."]


class Field(TypedDict):
    """Both sides of what a law compares, around the entry at which it fails most."""

    case: Key[str, "The case on which it was seen."]
    plane: Key[list[int], "The index along the axes before the last two."]
    first: Key[list[int], "Its first row and column."]
    found: Key[list[list[Value]], "The values found, row by row."]
    expected: Key[list[list[Value]], "The expected value."]
    units: Key[list[list[float | None]], "The errors in units of the bound; null if one is not finite."]


_Witness = TypedDict("_Witness", {"from": Key[Origin, "The case on which it was found."]})


class Witness(_Witness):
    """A failure in full: what `replay` needs, and what is shown of it; `cases/KEY.json` holds the same."""

    key: Key[str, "Its short name."]
    target: Key[str, "The target of the subject."]
    alone: Key[NotRequired[bool], "Whether no other process can load the subject."]
    subject: Key[str, "The name of the subject."]
    mechanism: Key[str, "The specification."]
    law: Key[str, "The law that fails."]
    says: Key[str, "The sentence of the law."]
    holds: Key[str, "Its expression; empty for the definition and contracts."]
    level: Key[Level, "The level: must or should."]
    place: Key[str, "File, line and column."]
    dtype: Key[str, "The dtype of its inputs."]
    device: Key[str, "The device of the call."]
    words: Key[dict[str, str], "The word of every convention."]
    layout: Key[NotRequired[str], "The layout in which it is called, if that is not the operator's own."]
    like: Key[NotRequired[str], "The known interface that it is called by, if any."]
    least: Key[NotRequired[list[float]], "The numbers that it returns in the place of minus infinity, if any."]
    declared: Key[list[str], "The conventions that are declared."]
    digest: Key[str, "The digest of the specification."]
    case: Key[Case, "The smallest case that fails."]
    before: Key[list[Case], "The earlier cases that it needs to fail, if any."]
    retraced: Key[bool, "Whether the earlier cases are exactly the calls that it needs, each made once."]
    after: Key[str, "The calls that it needs to fail, in words; empty if unknown."]
    stress: Key[NotRequired[int], "How often the call was made beside other threads."]
    large: Key[NotRequired[bool], "Whether the case has production size; its arrays are not stored."]
    dependent: Key[bool, "Whether it fails only after earlier calls, and passes in a new process."]
    sizes: Key[dict[str, Value], "Sizes, and options that are not at their defaults."]
    arrays: Key[dict[str, str], "The inputs, as shown."]
    givens: Key[dict[str, str], "The law's own draws, as shown."]
    reason: Key[str, "The reason."]
    trace: Key[str, "The trace of a call that raised."]
    certain: Key[bool, "Whether the error exceeds the worst-case bound, not only the likely one."]
    grade: Key[str, "The claimed grade."]
    units: Key[float | None, "The error in units of the bound; null if it is not finite."]
    outcome: Key[Worst | None, "The worst entry; null if no numbers were compared."]
    field: Key[NotRequired[Field | None], "Both sides around that entry, on the case before shrinking."]
    likeness: Key[Likeness | None, "What the subject behaves like; null if nothing fits, or nothing was searched."]
    nearest: Key[Nearest | None, "The nearest known mistake, if nothing fits."]
    map: Key[Map | None, "The pattern of what is wrong."]
    when: Key[When | None, "The condition under which the subject is wrong; null if none was found."]
    fixed: Key[NotRequired[Fixed], "What the subject may be meant to have in every call; missing where it is nothing."]
    follows: Key[NotRequired[Follows], "What wrong gradients follow from; missing where that is nothing."]
    unusual: Key[dict[str, Value], "The options that are neither at their defaults nor fixed by the declaration."]
    broken: Key[list[str], "The other laws that fail for the same reason."]
    full: Key[bool, "Whether it is shown in full; each fault is shown in full once."]


class Trouble(TypedDict):
    """What went wrong in explaining a failure, whose verdict stands."""

    says: Key[str, "The error."]
    trace: Key[str, "Where."]
