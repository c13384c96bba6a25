"""Verdicts of laws, from how they have fared on their cases."""

from collections import Counter

import pytest

from attnspec.judging.cells import PARAMETERS, Cell, Failure, Tally, law_names, law_of, sentence_of
from attnspec.judging.contracts import CONTRACTS
from attnspec.judging.judge import Kind, Outcome, definition_law
from attnspec.mechanisms.loader import library

ATTENTION, CAUSAL = library()["attention"], library()["causal_mask"]


def tally(*kinds, outcome=None, declined="", unanswered=0):
    failure = None if outcome is None else Failure("definition", outcome, None, None)
    law = definition_law(ATTENTION)
    return Tally(law, Counter(kinds), failure=failure, declined=declined, unanswered=unanswered)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((), ("not_tested", "no case reached its condition")),
        ((Kind.IDLE, Kind.IDLE), ("not_tested", "no case reached its condition")),
        ((Kind.VACUOUS, Kind.IDLE), ("not_tested", "every bound was too wide to decide")),
        ((Kind.DECLINED, Kind.VACUOUS), ("not_declared", "does not take mask")),
        ((Kind.HELD, Kind.DECLINED, Kind.VACUOUS, Kind.IDLE), ("pass", "")),
    ],
)
def test_a_law_passes_only_if_it_was_seen_to_hold(kinds, expected):
    assert expected == tally(*kinds, declined="does not take mask").verdict()


def test_a_law_whose_cases_gave_no_result_says_so():
    assert ("not_tested", "no case gave a result to test it on") == tally(Kind.IDLE, unanswered=1).verdict()
    assert ("pass", "") == tally(Kind.HELD, unanswered=1).verdict()


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(Kind.REFUTED, 3.0, says="p is NaN"), ("fail", "p is NaN")),
        (Outcome(Kind.FAULTED, says="ValueError: no"), ("error", "ValueError: no")),
    ],
)
def test_one_failure_outweighs_every_case_that_held(outcome, expected):
    one = tally(Kind.HELD, Kind.HELD, outcome=outcome)
    assert (expected, False) == (one.verdict(), one.open)


def test_a_law_without_a_failure_is_open():
    assert tally(Kind.HELD).open


@pytest.mark.parametrize(
    ("verdict", "bad"),
    [("pass", False), ("fail", True), ("error", True), ("not_tested", False), ("not_declared", False)],
)
def test_failures_and_errors_are_bad(verdict, bad):
    cell = Cell("subject", "attention", "causal_mask", "decoding", "must", "float32", "cpu", verdict)
    assert ("causal_mask.decoding", bad) == (cell.address, cell.bad)


def test_laws_come_before_the_definition_and_contracts_last():
    names = law_names(ATTENTION)
    conventions = [f"convention.{name}" for name in ATTENTION.conventions]
    contracts = [f"contract.{name}" for name in CONTRACTS]
    assert [*ATTENTION.laws, "definition", *ATTENTION.rejects, *conventions, *contracts] == names
    assert len(names) == len(set(names))


def test_conventions_belong_to_their_operator_alone():
    assert CAUSAL.conventions
    assert not any(name.startswith("convention.") for name in law_names(CAUSAL))


@pytest.mark.parametrize("name", ["lengths", "convention.grouping", "contract.shape", "no_such_law"])
def test_only_laws_and_the_definition_are_laws(name):
    assert law_of(ATTENTION, name) is None
    assert (ATTENTION.laws["convex"], "definition") == (
        law_of(ATTENTION, "convex"),
        law_of(ATTENTION, "definition").name,
    )


@pytest.mark.parametrize(
    ("law", "says"),
    [
        ("definition", "Every output agrees with the definition."),
        ("ratio", library()["softmax"].laws["ratio"].says),
        ("contract.dtype", CONTRACTS["dtype"]),
        (PARAMETERS, "Every parameter of the function is an input or an option of the operator."),
        ("convention.empty_row", "One word of empty_row explains the results, the same in every dtype."),
    ],
)
def test_everything_that_gets_a_verdict_has_a_sentence(law, says):
    assert says == sentence_of(library()["softmax"], law)


def test_no_mechanism_has_a_verdict_without_a_sentence():
    assert [] == [(m.name, law) for m in library().values() for law in law_names(m) if not sentence_of(m, law)]
