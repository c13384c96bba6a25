"""The lines of a results file, by kind, and the meaning of each key.

`results.schema.json` and docs/results.md are made of these types and those of `witnesses`:
`python -m attnspec.reporting.form` writes both.
"""

from typing import Annotated as Key
from typing import Any, Literal, NotRequired, TypedDict

from .witnesses import Level, Trouble, Witness

FORMAT = 1
"""The number of this format, which is raised when a key goes or comes to mean something else."""
Verdict = Literal["pass", "fail", "error", "internal", "waived", "not_declared", "not_tested"]
Stands = Literal["conformant", "violated", "partial", "waived", "not_tested"]
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
    model: Key[NotRequired[str], "The model of the device, if it is known."]
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
