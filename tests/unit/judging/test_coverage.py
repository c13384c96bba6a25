"""What a verdict rests on is said beside it, and who refuses too much is partial."""

import numpy as np
import pytest

import attnspec
from attnspec.adapters import Unsupported
from attnspec.judging.coverage import beside, declined

WORDS = {"empty_row": "zeros"}


def cell(mechanism="softmax", dtype="float32", operator="softmax", **run):
    return {"mechanism": mechanism, "operator": operator, "dtype": dtype, "law": "definition", "run": run}


def covered(answered, scenarios, share=0.9, says="no", by_value=()):
    return {"answered": answered, "scenarios": scenarios, "share": share, "says": says, "by_value": list(by_value)}


def evidence(mistakes, unclaimed=0, unshown=()):
    return {"mistakes": mistakes, "unclaimed": unclaimed, "unshown": list(unshown)}


@pytest.mark.parametrize(
    ("answered", "share", "partial"),
    [(26, 0.9, False), (24, 0.9, False), (23, 0.9, True), (23, 0.8, False), (0, 0.0, False), (0, 0.9, True)],
)
def test_who_answers_less_than_a_mechanism_asks_is_partial(answered, share, partial):
    found = list(declined([cell(coverage=covered(answered, 26, share, "too\nwide"))]))
    said = f"answers {answered} of 26 scenarios of softmax (float32), where {share:.0%} are asked: too\\nwide"
    assert ([said] if partial else []) == found


def test_a_further_mechanism_that_is_refused_as_a_whole_is_not_declared():
    cells = [cell("alibi", operator="attention", coverage=covered(0, 9, says="no bias"))]
    assert ([], ["where it answers: 0 of 9 scenarios", "refuses all of alibi: no bias"]) == (
        [*declined(cells)],
        beside(cells),
    )


def test_dtypes_that_answer_alike_stand_in_one_sentence():
    cells = [cell(dtype=dtype, coverage=covered(3, 26)) for dtype in ("float32", "float16")]
    assert ["answers 3 of 26 scenarios of softmax (float32 float16), where 90% are asked: no"] == [*declined(cells)]


def test_beside_a_verdict_stand_scenarios_mistakes_and_precision():
    cells = [
        cell(coverage=covered(3, 26), evidence=evidence(16, 2, list("abcdefghijkl")), claimed="fp16_naive"),
        cell("other", coverage=covered(9, 9), evidence=evidence(5, 0, "a")),
    ]
    assert ["where it answers: 12 of 35 scenarios; 2 of 14 mistakes could be noticed; precision as fp16_naive"] == (
        beside(cells)
    )


def untested(says, verdict="not_declared", law="definition", **more):
    return {**cell(**more), "verdict": verdict, "says": says, "law": law}


def test_where_no_law_was_tested_the_reason_is_said():
    cells = [untested("groups of 16"), *(untested(says, "not_tested", "other") for says in ("no case", "no case", ""))]
    assert ["nothing was tested: groups of 16"] == beside(cells)
    assert ["nothing was tested: no case"] == beside(cells[1:])
    assert [] == beside([untested("", "not_tested"), untested("no convention", law="convention.empty_row")])
    assert [] == beside([*cells, untested("", "pass", "third")])


def test_what_was_interpreted_is_said_first():
    cells = [
        cell(interpreted="Triton's interpreter", claimed="bf16"),
        cell("other", interpreted="Triton's interpreter"),
    ]
    says = "interpreted by Triton's interpreter: neither a compiler nor a device was tested"
    assert [says, "precision as bf16"] == beside(cells)


def test_nothing_is_said_beside_a_verdict_that_rests_on_everything():
    assert [] == beside([cell(coverage=covered(26, 26), evidence=evidence(14))])


def test_refusals_by_value_are_repeated_safely_and_the_first_ones_alone():
    said = ["\x1b[31mlarge", "x" * 500, "ties", "signs"]
    assert [
        "where it answers: 25 of 26 scenarios",
        "refuses by value: \\x1b[31mlarge",
        f"refuses by value: {'x' * 100} ... (400 more characters)",
        "refuses by value for 2 more reasons",
    ] == beside([cell(coverage=covered(25, 26, by_value=said))])


# Kernels that used to be conformant


def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)


def coward(x):
    if x.shape[-1] > 1:
        raise Unsupported("more than one entry")
    return softmax(x)


def unshifted(x):
    if np.any(np.abs(x) > 80):
        raise Unsupported("large numbers")
    terms = np.exp(np.where(x > -np.inf, x, -np.inf))
    return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-300).astype(x.dtype)


def last_lines(report):
    return str(report).partition("SUMMARY")[2].splitlines()[1:]


def test_who_refuses_almost_everything_is_partial():
    report = attnspec.check(coward, operator="softmax", conventions=WORDS)
    assert ({"coward": "partial"}, False) == (report.verdicts, bool(report))
    verdict, answers, reason = last_lines(report)[:3]
    assert verdict.startswith("PARTIAL         coward (float32)")
    assert "where it answers: 1 of 27 scenarios; 5 of 16 mistakes could be noticed" == answers.strip()
    assert reason.strip().startswith("answers 1 of 27 scenarios of softmax (float32), where 90% are asked: more than")


def test_who_refuses_what_it_would_get_wrong_is_partial_and_told_so():
    report = attnspec.check(unshifted, operator="softmax", conventions=WORDS)
    assert {"unshifted": "partial"} == report.verdicts
    assert "refuses by value: large numbers" in [line.strip() for line in last_lines(report)]


def test_who_declares_the_limit_is_conformant():
    report = attnspec.check(coward, operator="softmax", conventions=WORDS, limits={"n": (1,)})
    assert {"coward": "conformant"} == report.verdicts


def test_a_looser_claim_than_the_usual_one_is_said_beside_the_verdict():
    report = attnspec.check(softmax, conventions=WORDS, grade="fp16_naive")
    assert ({"softmax": "conformant"}, "precision as fp16_naive") == (report.verdicts, last_lines(report)[1].strip())


# Parameters


def scaled(x, *, temperature=1.0, dim=-1, **more):
    return softmax(x)


def test_parameters_that_are_not_tested_are_told():
    report = attnspec.check(scaled, operator="softmax", framework="numpy")
    assert {"scaled": "conformant"} == report.verdicts
    assert [
        "`temperature` is not an option: not tested",
        "`dim` is not an option: not tested",
        "`**more` accepts any arguments; they are not tested",
    ] == [line.strip() for line in last_lines(report)[1:4]]


@pytest.mark.parametrize(("profile", "verdict"), [("smoke", "not_tested"), ("quick", "not_tested"), ("ci", "fail")])
def test_a_gate_fails_on_parameters_that_are_not_tested(profile, verdict, monkeypatch):
    from attnspec.cases.profiles import PROFILES
    from attnspec.judging.cells import PARAMETERS, Request
    from attnspec.judging.engine import run
    from attnspec.mechanisms.loader import library
    from attnspec.subjects.targets import subject, undecorated

    one = subject(undecorated(scaled, "scaled", "softmax", "numpy"), declared=False)
    cells = run(Request(one, library()["softmax"], "float32", PROFILES[profile], laws={PARAMETERS})).cells
    said = "; ".join(one.claims.untested)
    assert [(PARAMETERS, verdict, said)] == [(cell.law, cell.verdict, cell.says) for cell in cells]


def test_a_parameter_that_is_declared_to_have_its_default_only_is_no_gap():
    def strict(x, *, temperature=1.0):
        return softmax(x)

    report = attnspec.check(
        strict, operator="softmax", framework="numpy", conventions=WORDS, fixed={"temperature": 1.0}
    )
    assert ({"strict": "conformant"}, set()) == (report.verdicts, {c["law"] for c in report.cells} & {"parameters"})
    assert not any("temperature" in line for line in last_lines(report))


def test_a_parameter_has_no_other_value_than_its_default():
    with pytest.raises(attnspec.UsageError, match=r"fixed says dim = 0, and the function's default is -1"):
        attnspec.check(scaled, operator="softmax", framework="numpy", fixed={"dim": 0})


def groups_of(*laws):
    from attnspec.mechanisms.loader import library
    from attnspec.runs.groups import Group, completed
    from attnspec.runs.options import Options
    from attnspec.subjects.targets import subject, undecorated

    def attention(q, k, v, *, block_size=64):
        return v

    one = subject(undecorated(attention, "attention", None, "torch"), declared=False)
    found = [
        Group("t", one, library()[mechanism], dtype, ("definition",))
        for mechanism in ("attention", "alibi")
        for dtype in ("float32", "float16")
    ]
    return [group.laws for group in completed(found, Options(laws=laws))]


def test_the_parameters_of_a_subject_are_asked_about_once():
    plain = ("definition",)
    assert [(*plain, "contract.parameters"), plain, plain, plain] == groups_of()


def test_who_names_laws_asks_for_nothing_else():
    assert [("definition",)] * 4 == groups_of("attention.definition")
