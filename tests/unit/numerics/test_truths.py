"""Truths are three-valued: Kleene's tables, arrays of them, and what is sure of them."""

import itertools

import numpy as np
import pytest

from attnspec.numerics.truths import Truth, every, some, truth

NO, MAYBE, YES = Truth(np.False_, np.False_), Truth(np.True_, np.False_), Truth(np.True_, np.True_)
NAMES = {(False, False): "no", (True, False): "maybe", (True, True): "yes"}
ALL = {"no": NO, "maybe": MAYBE, "yes": YES}
RANKS = ["no", "maybe", "yes"]
pairs = pytest.mark.parametrize(("a", "b"), list(itertools.product(RANKS, RANKS)))


def named(t: Truth) -> str:
    return NAMES[bool(t.can), bool(t.must)]


def row(*entries: str, excess: list[float] | None = None) -> Truth:
    can, must = (np.array([getattr(ALL[entry], part) for entry in entries], bool) for part in ("can", "must"))
    return Truth(can, must, None if excess is None else np.array(excess))


def names(t: Truth) -> list[str]:
    return [named(t[i]) for i in range(t.shape[0])]


@pytest.mark.parametrize(("a", "negated"), [("no", "yes"), ("maybe", "maybe"), ("yes", "no")])
def test_not_leaves_doubt_in_place(a: str, negated: str) -> None:
    assert negated == named(~ALL[a])


@pairs
def test_and_is_the_lesser_and_or_the_greater(a: str, b: str) -> None:
    ranks = sorted([a, b], key=RANKS.index)
    assert ranks == [named(ALL[a] & ALL[b]), named(ALL[a] | ALL[b])]


@pairs
def test_the_laws_of_de_morgan_hold_with_doubt(a: str, b: str) -> None:
    assert named(~(ALL[a] & ALL[b])) == named(~ALL[a] | ~ALL[b])


def test_truths_combine_entry_by_entry_and_broadcast() -> None:
    column, line = row("no", "maybe", "yes")[:, None], row("no", "maybe", "yes")
    assert [["no", "no", "no"], ["no", "maybe", "maybe"], ["no", "maybe", "yes"]] == [
        names((column & line)[i]) for i in range(3)
    ]
    assert (3, 3) == (column | line).shape


def test_a_plain_truth_joins_from_either_side() -> None:
    line = row("no", "maybe", "yes")
    assert ["no", "maybe", "yes"] == names(True & line) == names(line & np.array([True, True, True]))
    assert ["yes", "yes", "yes"] == names(True | line)
    assert ["no", "no", "no"] == names(np.array([False]) & line)


@pytest.mark.parametrize(
    ("entries", "every", "some"),
    [
        (["yes", "yes"], "yes", "yes"),
        (["yes", "maybe"], "maybe", "yes"),
        (["maybe", "no"], "no", "maybe"),
        (["no", "no"], "no", "no"),
        ([], "yes", "no"),
    ],
)
def test_all_and_any_quantify_with_doubt(entries: list[str], every: str, some: str) -> None:
    assert (every, some) == (named(row(*entries).over(np.all, None)), named(row(*entries).over(np.any, None)))


def test_all_goes_along_an_axis() -> None:
    table = row("yes", "maybe", "no", "yes").map(lambda part: part.reshape(2, 2))
    assert ["maybe", "no"] == names(table.over(np.all, -1))
    assert ["no", "maybe"] == names(table.over(np.all, 0))


@pytest.mark.parametrize(
    ("entries", "refuted", "sure"),
    [(["yes", "maybe"], False, False), (["yes", "no"], True, False), (["yes", "yes"], False, True)],
)
def test_only_a_sure_falsehood_refutes(entries: list[str], refuted: bool, sure: bool) -> None:
    assert (refuted, sure) == (row(*entries).refuted, row(*entries).sure)


def test_a_plain_truth_is_sure() -> None:
    assert ["yes", "no"] == names(truth(np.array([True, False])))
    assert truth(MAYBE) is MAYBE


def test_rearranging_moves_what_was_measured_along() -> None:
    t = row("yes", "no", excess=[0.5, 3.0]).map(lambda part: part[::-1])
    assert (["no", "yes"], [3.0, 0.5]) == (names(t), t.excess.tolist())


@pytest.mark.parametrize(
    ("claim", "worst"),
    [
        (row("yes", "maybe", excess=[0.0, 0.75]), 0.75),
        (row("maybe", "no", excess=[0.75, 3.0]), 3.0),
        (row("yes", excess=[5.0]), 1.0),
        (row("yes", "no"), np.inf),
        (row("yes", "maybe"), 0.0),
        (row(), 0.0),
        (row(excess=[]), 0.0),
        (row("no", excess=[3.0]) & row("maybe", excess=[0.5]), 3.0),
        (row("no", excess=[3.0]) | row("maybe", excess=[0.5]), 0.5),
        (row("no", excess=[3.0]) & row("no"), np.inf),
        (row("no", excess=[3.0]) | row("yes"), 0.0),
        (row("no", excess=[3.0]) & row("yes"), 3.0),
        (~row("yes", excess=[0.5]), np.inf),
        (row("maybe", "no", excess=[0.75, 3.0]).over(np.all, None), 3.0),
        (row("maybe", "no", excess=[0.75, 3.0]).over(np.any, None), 0.75),
        (row(excess=[]).over(np.all, None), 0.0),
    ],
)
def test_the_worst_excess_is_that_of_the_claim_as_a_whole(claim: Truth, worst: float) -> None:
    assert worst == claim.worst


@pytest.mark.parametrize("flags", [[], [True], [False], [True, False], [[True, True], [True, True]], True, False])
def test_every_and_some_are_those_of_numpy(flags):
    array = np.asarray(flags, bool)
    for each in (array, array.T, array[()]):
        assert bool(np.all(each)) == every(each)
        assert bool(np.any(each)) == some(each)
