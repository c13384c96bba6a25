"""The simplest condition that holds on every wrong case, and on hardly any right one."""

from dataclasses import replace

import pytest

from attnspec.diagnosis.conditions import Condition, Literal, fitting, opposite, others_fitting
from attnspec.diagnosis.facts import Facts
from attnspec.diagnosis.phrases import phrase, where

SIZES = {"batch": 2, "kv_heads": 2, "heads": 2, "q_len": 4, "k_len": 6, "head_dim": 8, "value_dim": 8}
MEMORY = {"q": "contiguous", "k": "contiguous", "v": "contiguous"}


def call(*, mask=False, layout="contiguous", regime="", q="contiguous", scale=None, causal=None, **sizes):
    options, usual = {"scale": scale, "causal": causal}, {"scale": None, "causal": False}
    return Facts({**SIZES, **sizes}, options, usual, {"mask": mask}, {**MEMORY, "q": q}, layout, regime)


KEYS = [call(k_len=n) for n in range(1, 80)]
CALLS = [
    *KEYS,
    *(call(q_len=n) for n in range(1, 9)),
    *(call(heads=n) for n in (2, 4, 6)),
    *(call(batch=n) for n in (1, 2, 3)),
    *(call(value_dim=n) for n in (3, 8, 24)),
    *(call(mask=mask, causal=causal, q_len=n) for mask in (False, True) for causal in (None, True) for n in (1, 4)),
    *(call(scale=x) for x in (0.3, -0.5, 0.0)),
    *(call(layout="strided", q="strided"), call(layout="lone")),
    *(call(regime="ties"), call(regime="tiny"), call(heads=4, q_len=1)),
]
CONDITIONS = {
    "k_len >= 33": lambda c: c.sizes["k_len"] >= 33,
    "k_len <= 7": lambda c: c.sizes["k_len"] <= 7,
    "k_len % 16 is not 0": lambda c: c.sizes["k_len"] % 16 != 0,
    "k_len % 16 is 1 to 3": lambda c: 1 <= c.sizes["k_len"] % 16 <= 3,
    "k_len is odd": lambda c: c.sizes["k_len"] % 2,
    "q_len = 1": lambda c: c.sizes["q_len"] == 1,
    "batch >= 3": lambda c: c.sizes["batch"] >= 3,
    "kv_heads < heads": lambda c: c.sizes["kv_heads"] < c.sizes["heads"],
    "kv_heads < heads and q_len = 1": lambda c: c.sizes["q_len"] == 1 and c.sizes["heads"] > 2,
    "head_dim is not value_dim": lambda c: c.sizes["value_dim"] != 8,
    "a mask is given": lambda c: c.given["mask"],
    "a mask is given and causal = True": lambda c: c.given["mask"] and c.options["causal"],
    "causal = True and no mask is given": lambda c: not c.given["mask"] and c.options["causal"],
    "scale <= 0": lambda c: c.options["scale"] is not None and c.options["scale"] <= 0,
    "scale < 0": lambda c: (c.options["scale"] or 0) < 0,
    "scale is given": lambda c: c.options["scale"] is not None,
    "q is not contiguous": lambda c: c.memory["q"] != "contiguous",
    "the regime is ties": lambda c: c.regime == "ties",
    "": lambda c: True,
}


@pytest.mark.parametrize("words", CONDITIONS)
def test_the_simplest_condition_is_found(words):
    wrong = [c for c in CALLS if CONDITIONS[words](c)]
    right = [c for c in CALLS if not CONDITIONS[words](c)]
    assert words == where(fitting(wrong, right).condition)


def test_sizes_that_have_nothing_in_common_may_have_to_differ():
    calls = [call(batch=b, q_len=n) for b in range(1, 5) for n in range(1, 5)]
    parts = [[c for c in calls if (c.sizes["batch"] != c.sizes["q_len"]) is wrong] for wrong in (True, False)]
    assert "batch is not q_len" == where(fitting(*parts).condition)


def test_a_share_of_heads_that_is_no_power_of_two_is_told():
    shared = [replace(call(heads=2 * n), multiples=frozenset({("heads", "kv_heads")})) for n in range(1, 9)]
    wrong, right = ([c for c in shared if (c.sizes["heads"] in (6, 10, 12, 14)) is side] for side in (True, False))
    assert "heads / kv_heads is no power of two" == where(fitting(wrong, right).condition)


def test_of_sizes_that_may_be_anything_no_share_is_told():
    wrong, right = [call(q_len=2, k_len=n) for n in (6, 10, 12)], [call(q_len=2, k_len=n) for n in (4, 8, 16)]
    assert not any(one.kind in ("power", "unpowered") for one in fitting(wrong, right).condition.literals)


def test_one_number_may_be_right_among_wrong_ones():
    calls = [call(k_len=n, q_len=m) for n in (1, 2, 5, 16, 17, 32, 33) for m in range(1, 4)]
    parts = [[c for c in calls if (c.sizes["k_len"] != 16) is wrong] for wrong in (True, False)]
    assert "k_len is not 16" == where(fitting(*parts).condition)


def test_what_no_few_literals_separate_has_no_condition():
    odd = [call(k_len=n) for n in (1, 2, 4, 8, 16, 32, 64)]
    assert fitting(odd, [c for c in KEYS if c not in odd]) is None


def test_a_condition_may_hold_on_few_right_cases_and_they_are_counted():
    wrong, right = [c for c in KEYS if c.sizes["k_len"] > 32], [c for c in KEYS if c.sizes["k_len"] <= 32]
    fit = fitting(wrong, [*right, call(k_len=50, regime="ties")])
    assert ("k_len >= 33", 1) == (where(fit.condition), fit.exceptions)
    assert fitting(wrong, [*right, call(k_len=50)], exact=True) is None


def test_what_shows_on_some_entries_alone_has_a_condition_outside_of_which_all_is_right():
    inside = [call(batch=n, k_len=k) for n in (2, 3, 5) for k in range(3, 15)]
    outside = [call(batch=1, k_len=k) for k in range(3, 60)]
    fit = fitting(inside[::3], [*outside, *(c for c in inside if c not in inside[::3])])
    assert ("batch >= 2", True) == (where(fit.condition), fit.partly)


def test_of_two_calls_of_which_the_same_is_known_the_right_one_says_nothing():
    mask = [call(mask=True, k_len=n) for n in (3, 4, 5, 6)]
    fit = fitting(mask, [*mask, *(call(k_len=n) for n in range(2, 9))])
    assert ("a mask is given", 0, True) == (where(fit.condition), fit.exceptions, fit.partly)


@pytest.mark.parametrize(
    ("literal", "words"),
    [
        (Literal("from", "k_len", 33), "k_len <= 32"),
        (Literal("up to", "q_len", 1), "q_len >= 2"),
        (Literal("given", "mask"), "no mask is given"),
        (Literal("usual", "causal", False), "causal = True"),
        (Literal("set", "scale"), "scale is not given"),
    ],
)
def test_what_holds_where_a_literal_does_not(literal, words):
    assert words == phrase(opposite(literal))
    assert opposite(Literal("layout", "layout", "strided")) is None


def test_where_nothing_is_wrong_there_is_nothing_to_separate():
    assert fitting([], KEYS) is None


def test_a_condition_on_what_a_call_has_not_does_not_hold():
    one = call()
    assert not any(Literal(kind, "pages", 4).holds(one) for kind in ("from", "up to", "less", "same", "other"))
    assert not Literal("remainder", "pages", (4, 0, 0)).holds(one)


def test_an_option_from_a_number_on_is_told_where_entries_tell_as_well():
    told = []
    for kind in (int, float):
        inside = [call(scale=kind(x), k_len=n) for x in (3, 4, 5) for n in range(3, 15)]
        outside = [call(scale=x if x is None else kind(x), k_len=n) for x in (None, 1, 2) for n in range(3, 15)]
        told.append(fitting(inside[::3], [*outside, *(c for c in inside if c not in inside[::3])]))
    assert ("scale >= 3", True) == (where(told[0].condition), told[0].partly)
    assert told[1] is None  # a fraction is rather where cases lie


def test_that_two_rows_differ_says_more_than_that_their_sums_do():
    def packed(q_tokens, k_tokens, **more):
        return Facts({"q_tokens": q_tokens, "k_tokens": k_tokens}, {}, {}, {}, {}, "contiguous", "", **more)

    counted = frozenset({("k_lens", "not q_lens")})
    wrong, right = [packed(n, 13 - n, counted=counted) for n in (6, 7)], [packed(6, 6), packed(7, 7)]
    assert "some of k_lens are not those of q_lens" == where(fitting(wrong, right).condition)


def test_of_a_word_it_is_told_which_one_it_is_unless_another_is_wrong_as_well():
    def kind(word):
        return Facts({}, {"kind": word}, {"kind": None}, {}, {}, "contiguous", "")

    right = [kind(None)] * 3
    assert "kind = yarn" == where(fitting([kind("yarn")] * 3, right).condition)
    assert "kind is given" == where(fitting([kind("yarn"), kind("linear")], right).condition)


def test_other_conditions_fit_where_no_case_tells_them_from_one():
    wrong, right = [call(heads=4, value_dim=16), call(heads=6, value_dim=20)], [call(), call(value_dim=24)]
    one = Condition((Literal("from", "heads", 4, 1.6),))
    assert [] == [x for x in others_fitting(one, wrong, right) if any(x.holds(facts) for facts in right)]
    others = {where(x) for x in others_fitting(one, wrong, [call()])}
    assert "value_dim >= 16" in others
    assert "value_dim >= 16" not in {where(x) for x in others_fitting(one, wrong, right)}
