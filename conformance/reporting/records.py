"""The lines of a results file, by kind, and the meaning of each key.

`results.schema.json` and docs/results.md are made of these types: `python -m attnspec.reporting.form` writes both.
"""

from typing import Annotated as Key
from typing import Any, Literal, NotRequired, TypedDict

FORMAT = 1
"""The number of this format, which is raised when a key goes or comes to mean something else."""
Value = str | int | float | bool | None
"""A value of a size or an option."""
Verdict = Literal["pass", "fail", "error", "internal", "waived", "not_declared", "not_tested"]
Stands = Literal["conformant", "violated", "partial", "waived", "not_tested"]
Level = Literal["must", "should"]
FailOn = Literal["must", "should", "new"]


class PythonEnvironment(TypedDict):
    """What is installed where another interpreter makes calls."""

    python: Key[str, "Its version of Python."]
    packages: Key[dict[str, str], "The versions of the packages there that are called or imported by a target."]


class WorkloadCall(TypedDict):
    """One call of a workload."""

    id: Key[str, "What its verdict is called, behind `workload.`."]
    operator: Key[str, "What is computed."]
    dtype: Key[str, "The dtype of its arrays."]
    says: Key[str, "Its sizes and options."]
    count: Key[int, "How often it was made."]


class LeftCalls(TypedDict):
    """Calls of a workload that are said of no operator."""

    interface: Key[str, "The function that was called."]
    says: Key[str, "Why they are not tried."]
    count: Key[int, "How many there are."]


class WorkloadPart(TypedDict):
    """What of a workload was to be tried."""

    path: Key[str, "Its file."]
    uses: Key[list[WorkloadCall], "Its calls, the most frequent first."]
    left: Key[list[LeftCalls], "What is not tried."]


class RunLine(TypedDict):
    """The first line: what was asked for, where, and with what."""

    kind: Literal["run"]
    format: Key[int, "The number of the format; files without one are older than the first."]
    attnspec: Key[str, "The version of attnspec."]
    python: Key[str, "The version of Python."]
    platform: Key[str, "System and machine."]
    packages: Key[dict[str, str], "The versions of the packages that were called, and of NumPy and torch."]
    sources: Key[dict[str, str], "Digests of the files that were named, by path."]
    command: Key[str, "The command, or call, as it was typed."]
    started: Key[str, "The start time."]
    profile: Key[str, "The profile."]
    seed: Key[int, "The seed of all cases."]
    device: Key[str, "The device of the calls: cpu, cuda, cuda:N, or another device of a framework."]
    fail_on: Key[FailOn, "What fails a run: 'must' laws, 'should' laws as well, or only new failures."]
    operator: Key[str | None, "The operator that was given for functions, if any."]
    framework: Key[str | None, "The framework that was given for functions, if any."]
    waivers_missing: Key[NotRequired[str], "The file of waivers that was named and is not there."]
    layout: Key[NotRequired[str], "The layout that was given for functions, if any."]
    like: Key[NotRequired[str], "The known interface that was given for functions, if any."]
    pin: Key[NotRequired[str], "The file of the laws that count, if there is one."]
    specs: Key[NotRequired[list[str]], "The folders of further specifications."]
    require: Key[list[str], "The requirements of --require."]
    shard: Key[str, "The part of the run, as I/N; empty for a whole run."]
    isolation: Key[str, "Whether calls were made in worker processes; empty if no function was called."]
    workload: Key[NotRequired[WorkloadPart], "The recorded calls, if a workload was checked."]
    targets: Key[list[str], "The targets."]
    environments: Key[
        NotRequired[dict[str, PythonEnvironment]],
        "Other environments that made calls, by the paths of their interpreters.",
    ]


class ExpectedLine(TypedDict):
    """The cells that are to come of one subject, mechanism and dtype; one that does not come is missing."""

    kind: Literal["expected"]
    subject: Key[str, "The name of the subject."]
    operator: Key[str, "The operator."]
    mechanism: Key[str, "The mechanism that it is tested against."]
    dtype: Key[str, "The dtype of its inputs."]
    device: Key[str, "The device of its calls."]
    laws: Key[list[str], "The planned laws."]
    place: Key[NotRequired[str], "The file and line of its function, if the file is in the folder of the run."]


class Convention(TypedDict):
    """Which word of a convention was followed."""

    word: Key[str, "The word."]
    how: Key[str, "Whether it was declared, was observed, or explains only most cases."]
    agreed: Key[int, "Cases that agree with it."]
    cases: Key[int, "Cases that were compared."]


class Coverage(TypedDict):
    """What was refused of the scenarios that a declaration admits."""

    answered: Key[int, "Scenarios that were answered."]
    scenarios: Key[int, "Scenarios that were run."]
    share: Key[float, "The share of them that must be answered."]
    says: Key[str, "Why the first one was refused."]
    by_value: Key[list[str], "Calls that were refused because of the values of inputs."]
    given: Key[list[str], "The options that were given in an answered scenario."]


class Evidence(TypedDict):
    """What the answered scenarios would have shown."""

    scenarios: Key[int, "Scenarios that were answered."]
    mistakes: Key[int, "Known mistakes of the mechanism."]
    unclaimed: Key[int, "Those that no case within the claims could show."]
    unshown: Key[list[str], "Those that no scenario of the run is known to show."]


class CaseError(TypedDict):
    """How far the outputs of one case were from the definition, which they keep."""

    case: Key[str, "The origin of the case."]
    length: Key[int, "The largest of its sizes that are numbers of tokens."]
    units: Key[float, "The largest error in units of the bound."]
    row: Key[int, "The index of that entry along the last axis but one of its output."]
    rows: Key[int, "The length of that axis."]
    score: Key[NotRequired[float], "The largest absolute finite score of the case, if it has scores."]


class CallTimes(TypedDict):
    """How long the calls of a group took, each until its results were there, in seconds: their quartiles."""

    low: Key[float, "The first quartile."]
    median: Key[float, "The median."]
    high: Key[float, "The third quartile."]


class GroupRun(TypedDict):
    """What the cells of a group have in common; stored with the first of them."""

    cases: Key[int, "Cases that were tried."]
    calls: Key[int, "Calls that were made."]
    seconds: Key[float, "The duration in seconds."]
    grade: Key[str, "The loosest grade of precision that was needed; empty if none was."]
    partial: Key[bool, "Whether it ended before its last case."]
    ended: Key[str, "Why it ended early."]
    conventions: Key[dict[str, Convention], "The words that were followed, by convention."]
    claimed: Key[NotRequired[str], "The grade that is claimed, if it is coarser than the usual one."]
    untested: Key[NotRequired[list[str]], "Parameters that could not be tried."]
    layout: Key[NotRequired[str], "The layout in which it is called, if that is not the operator's own."]
    like: Key[NotRequired[str], "The known interface that it is called by, if any."]
    taken: Key[NotRequired[str], "The first lines of the report: how a function is treated, and a layout to declare."]
    notes: Key[NotRequired[list[str]], "What the first calls showed, in words."]
    interpreted: Key[NotRequired[str], "The interpreter that ran device kernels on the CPU, if any."]
    coverage: Key[NotRequired[Coverage], "What was refused."]
    evidence: Key[NotRequired[Evidence], "The mistakes that the scenarios detect."]
    mended: Key[NotRequired[list[str]], "Known findings that were tested here and no longer fail."]
    errors: Key[
        NotRequired[list[CaseError]],
        "The largest errors of the cases that agree with the definition, for each length and each size of scores.",
    ]
    times: Key[NotRequired[CallTimes], "The durations of calls, if known."]


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
    unusual: Key[dict[str, Value], "The options that are neither at their defaults nor fixed by the declaration."]
    broken: Key[list[str], "The other laws that fail for the same reason."]
    full: Key[bool, "Whether it is shown in full; each fault is shown in full once."]


class Trouble(TypedDict):
    """What went wrong in explaining a failure, whose verdict stands."""

    says: Key[str, "The error."]
    trace: Key[str, "Where."]


class CellLine(TypedDict):
    """One verdict: a law of a mechanism, for one subject and dtype."""

    kind: Literal["cell"]
    subject: Key[str, "The name of the subject."]
    operator: Key[str, "The operator."]
    mechanism: Key[str, "The specification."]
    law: Key[str, "The law, contract.NAME, convention.NAME, or definition."]
    level: Key[Level, "The level: must or should."]
    dtype: Key[str, "The dtype of its inputs."]
    device: Key[str, "The device of its calls."]
    verdict: Key[Verdict, "The verdict."]
    cases: Key[int, "Cases that could have refuted the law."]
    worst: Key[float | None, "The largest error in units of its bound; null if it is not finite."]
    says: Key[str, "The reason, in a sentence."]
    version: Key[int, "The version of the specification."]
    digest: Key[str, "The digest of the specification."]
    sentence: Key[NotRequired[str], "The sentence of the law, if it fails."]
    finding: Key[NotRequired[str], "The known finding that all of its failures belong to."]
    note: Key[NotRequired[str], "Why its failure is only a note: the pin does not have the law."]
    spread: Key[
        NotRequired[list[int]],
        "Entries of cases on which it holds, by their errors in units of the bound: how many have none, and how many "
        "are in each quarter of a power of ten up to 1, from 0.0001 or less.",
    ]
    run: Key[NotRequired[GroupRun], "What its group has in common; stored with the first judged cell of the group."]
    witness: Key[NotRequired[Witness], "The failure in full; stored with one cell, for all cells with the same fault."]
    unexplained: Key[NotRequired[list[Trouble]], "Errors in explaining the failure."]
    trace: Key[NotRequired[str], "Where attnspec itself failed."]
    resumed: Key[NotRequired[bool], "Whether it was taken from the previous run."]


class Known(TypedDict):
    """The violations of a subject by what is known of them."""

    cells: Key[dict[str, int], "How many belong to each known finding, by its id."]
    new: Key[int, "How many belong to none."]
    mended: Key[list[str], "The known findings that were tested and no longer fail."]


class SubjectLine(TypedDict):
    """How a subject stands."""

    kind: Literal["subject"]
    subject: Key[str, "The name of the subject."]
    operator: Key[str, "The operator."]
    verdict: Key[Stands, "Its verdict as a whole."]
    reasons: Key[list[str], "Why it is incomplete."]
    beside: Key[list[str], "Further remarks on the verdict."]
    unmet: Key[list[str], "The requirements that are not met."]
    cells: Key[dict[str, int], "Its cells, counted by verdict."]
    conventions: Key[dict[str, dict[str, str]], "The words that were observed, by dtype and convention."]
    grades: Key[dict[str, str], "The loosest grade that was needed, by dtype."]
    known: Key[NotRequired[Known], "Its violations, known and new, if any are known."]


class EndLine(TypedDict):
    """The last line, without which a file is known to be partial."""

    kind: Literal["end"]
    partial: Key[bool, "Whether any planned result is missing."]
    ended: Key[str, "Why the run ended early; empty if it did not."]
    seconds: Key[float, "The duration in seconds."]
    altered: Key[NotRequired[bool], "Whether another process wrote to the file; it was then written again."]


Record = RunLine | ExpectedLine | CellLine | SubjectLine | EndLine
KINDS: dict[str, Any] = {
    "run": RunLine,
    "expected": ExpectedLine,
    "cell": CellLine,
    "subject": SubjectLine,
    "end": EndLine,
}
"""The types of lines, in the order in which they come."""
