"""What has changed from one state to another: what is new is told from what came with another version of attnspec."""

from dataclasses import replace

import pytest

from attnspec.reporting.baseline import Group, State, Times, Verdict
from attnspec.reporting.changes import changes, mattering

PASS, FAIL, WAIVED = Verdict("pass", 0.5), Verdict("fail", 9.0, "9 x bound"), Verdict("waived", 9.0)
KEY = ("mine", "softmax", "float32", "cpu")


def state(digest="x", seed=0, key=KEY, grade="fp32", conventions=None, **laws):
    group = Group(digest, grade, conventions or {}, laws)
    return State("0.1.0", "quick", seed, {key: group} if laws else {})


def kinds(before, after):
    return [(change.kind, change.law) for change in changes(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"ratio": PASS}, {"ratio": PASS}, []),
        ({"ratio": PASS}, {"ratio": FAIL}, [("new", "ratio")]),
        ({"ratio": WAIVED}, {"ratio": FAIL}, [("new", "ratio")]),
        ({"ratio": FAIL}, {"ratio": FAIL}, []),
        ({"ratio": FAIL}, {"ratio": replace(FAIL, verdict="error")}, []),
        ({"ratio": FAIL}, {"ratio": PASS}, [("mended", "ratio")]),
        ({"ratio": FAIL}, {"ratio": WAIVED}, [("mended", "ratio")]),
        ({"ratio": PASS, "share": PASS}, {"share": PASS}, [("untested", "ratio")]),
        ({"share": PASS}, {"ratio": PASS, "share": PASS}, [("tested", "ratio")]),
        ({"share": PASS}, {"ratio": FAIL, "share": PASS}, [("laws", "ratio")]),
    ],
)
def test_each_change_has_its_kind(before, after, expected):
    assert expected == kinds(state(**before), state(**after))


def test_a_failure_under_a_changed_specification_is_told_apart():
    assert [("laws", "ratio")] == kinds(state(ratio=PASS), state("y", ratio=FAIL))


def test_a_subject_that_nobody_has_agreed_to_fails_anew():
    other = state(key=("other", *KEY[1:]), ratio=FAIL)
    assert [("new", "ratio"), ("untested", ""), ("tested", "")] == kinds(state(ratio=PASS), other)


def test_a_mechanism_that_came_with_another_version_is_told_apart():
    before = state(share=PASS)
    after = State(
        "0.2.0", "quick", 0, {**before.groups, ("mine", "merge", "float32", "cpu"): Group("z", laws={"a": FAIL})}
    )
    assert [("laws", "a"), ("tested", "")] == kinds(before, after)


def test_a_mechanism_that_is_gone_is_one_change():
    before = State(
        "0",
        "quick",
        0,
        {KEY: Group("x", laws={"a": PASS, "b": PASS}), ("mine", "m", *KEY[2:]): Group("x", laws={"a": PASS})},
    )
    after = State("0", "quick", 0, {("mine", "m", *KEY[2:]): Group("x", laws={"a": PASS})})
    assert [("untested", "softmax", "all 2 laws")] == [(c.kind, c.mechanism, c.says) for c in changes(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "seed", "told"),
    [
        (0.2, 0.9, 0, True),
        (0.2, 0.9, 1, False),  # other cases
        (0.5, 0.9, 0, False),
        (0.01, 0.2, 0, False),
        (0.5, None, 0, False),
    ],
)
def test_an_error_that_is_much_larger_on_the_same_cases_is_less_precise(before, after, seed, told):
    found = kinds(state(definition=Verdict("pass", before)), state(seed=seed, definition=Verdict("pass", after)))
    assert ([("precision", "definition")] if told else []) == found


def test_a_coarser_grade_is_less_precise_whatever_was_tried():
    before, after = state(key=KEY, grade="fp32", ratio=PASS), state("y", 3, grade="tf32", ratio=PASS)
    assert ["needs tf32, fp32 before"] == [change.says for change in changes(before, after)]
    assert [] == changes(after, before)


def test_another_word_of_a_convention_is_told():
    one, other = ({"empty_row": word} for word in ("zeros", "nans"))
    (change,) = changes(state(conventions=one, ratio=PASS), state(conventions=other, ratio=PASS))
    assert ("conventions", "empty_row = nans, zeros before") == (change.kind, change.says)


def test_what_matters_is_chosen():
    found = changes(state(ratio=PASS, share=PASS), state(ratio=FAIL))
    assert ["new", "untested"] == [change.kind for change in found]
    assert ["new"] == [change.kind for change in mattering(found, ("new",))]
    assert [] == mattering(found, ())


@pytest.mark.parametrize(
    ("before", "after", "seed", "told"),
    [
        ((1, 2, 3), (4, 5, 6), 0, ["5 s a call (4 to 6), 2 s a call (1 to 3) before"]),
        ((1, 2, 3), (0.004, 0.005, 0.006), 0, []),
        ((1, 2, 3), (3, 5, 6), 0, []),  # within the spread
        ((1, 2, 3), (4, 5, 6), 1, []),  # other cases
    ],
)
def test_calls_that_take_longer_by_more_than_their_spread_are_slower(before, after, seed, told):
    (earlier, later) = state(ratio=PASS), state(seed=seed, ratio=PASS)
    earlier.groups[KEY].times, later.groups[KEY].times = Times(*before), Times(*after)
    found = changes(earlier, later)
    assert told == [change.says for change in found]
    assert found == mattering(found, ("slower",))


def test_short_calls_are_told_in_milliseconds():
    earlier, later = state(ratio=PASS), state(ratio=PASS)
    earlier.groups[KEY].times, later.groups[KEY].times = Times(1e-5, 2e-5, 3e-5), Times(4e-4, 5e-4, 1.6e-3)
    assert ["0.5 ms a call (0.4 to 1.6), 0.02 ms a call (0.01 to 0.03) before"] == [
        change.says for change in changes(earlier, later)
    ]
