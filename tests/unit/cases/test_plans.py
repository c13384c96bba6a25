"""Which cases a subject is tried on: scenarios first, then pairs of settings, then draws; all inside its claims."""

import itertools
import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from attnspec.cases.plans import (
    PROFILES,
    Factor,
    Plan,
    Profile,
    applicable,
    beyond_limits,
    covered,
    covering,
    directed,
    drawn,
    explored,
    factors,
    pins,
    plain_options,
    plan,
    profile_named,
    scenarios_of,
    undeclared,
)
from attnspec.errors import SpecError, UsageError
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import DRAWN_LAYOUTS
from attnspec.subjects.claims import Claims

ATTENTION = library()["attention"]
EVERYTHING = frozenset({*ATTENTION.optional, *ATTENTION.options})
CLAIMS = {
    "everything": Claims(EVERYTHING, ("float32",)),
    "nothing": Claims(frozenset(), ("float32",)),
    "tuples": Claims(EVERYTHING, ("float32",), limits={"head_dim": (8, 64), "q_len": (16,), "kv_heads": (2, 4)}),
    "ranges": Claims(EVERYTHING, ("float32",), limits={"k_len": range(16, 257, 16), "batch": range(2, 3)}),
    "derived": Claims(EVERYTHING, ("float32",), limits={"heads": range(2, 9, 2), "value_dim": [8]}),
    "fixed": Claims(frozenset({"mask"}), ("float32",), fixed={"causal": True, "scale": 0.3}),
    "both": Claims(frozenset({"causal"}), ("float32",), limits={"q_len": (1,)}, fixed={"window_left": 1}),
}
SMALL = Profile("small", covering=12, draws=8, admitted=2)


def every(mechanism, claims, profile=SMALL):
    return list(itertools.chain(*Plan(mechanism, claims, profile, 0, "float32").blocks()))


def agree(expected, x):
    return expected == x or (isinstance(expected, float) and math.isclose(expected, x))


@pytest.mark.parametrize("claimed", CLAIMS)
@pytest.mark.parametrize("name", [name for name, m in library().items() if m.operator == "attention"])
def test_every_case_keeps_to_what_is_claimed(name, claimed):
    mechanism, claims = library()[name], CLAIMS[claimed]
    if undeclared(mechanism, claims) is not None:
        assert claimed not in ("everything", "tuples", "ranges", "derived")
        return
    samples = every(mechanism, claims)
    assert len(samples) >= 6
    for sample in samples:
        for size, allowed in claims.limits.items():
            assert size not in sample.values or sample.values[size] in allowed
        for option, value in claims.fixed.items():
            assert agree(value, sample.values[option])
        for option in EVERYTHING - claims.names - set(claims.fixed):
            assert agree(mechanism.defaults[option], sample.values[option])


@pytest.mark.parametrize("name", library())
def test_every_scenario_is_drawn_where_everything_is_claimed(name):
    mechanism = library()[name]
    claims = Claims(frozenset({*mechanism.optional, *mechanism.options}), ("float32",))
    wanted = {*mechanism.scenarios, *(f"example:{example}" for example in mechanism.examples)}
    assert wanted == {sample.case.scenario for sample in Plan(mechanism, claims, SMALL, 0, "float32").scenarios}


def test_scenarios_come_first_then_pairs_then_draws():
    labels = [
        [sample.case.label for sample in block]
        for block in Plan(ATTENTION, CLAIMS["everything"], SMALL, 0, "float32").blocks()
    ]
    assert {*ATTENTION.scenarios, *ATTENTION.examples} == set(labels[0])
    assert [f"pair {n}" for n in range(1, 13)] == labels[1]
    assert [f"draw {n}" for n in range(1, 9)] == labels[2]


def test_what_a_scenario_leaves_open_is_at_its_default():
    scenarios = Plan(ATTENTION, CLAIMS["everything"], SMALL, 3, "float32").scenarios
    sample = next(sample for sample in scenarios if sample.case.label == "plain")
    assert plain_options(ATTENTION) == {name: sample.values[name] for name in (*ATTENTION.optional, *ATTENTION.options)}


def test_every_stands_for_one_case_each():
    claims = Claims(frozenset({"heads"}), ("float64",))
    cases = [c for c in directed(library()["alibi_slopes"], claims, 0) if c.scenario == "every_count"]
    assert [f"every_count[{n}]" for n in range(128)] == [case.label for case in cases]
    samples = [drawn(library()["alibi_slopes"], case, claims, "float64") for case in cases]
    assert list(range(1, 129)) == [sample.values["heads"] for sample in samples]


def test_a_scenario_that_asks_for_what_is_not_claimed_is_left_out():
    scenarios = {case.scenario for case in directed(ATTENTION, CLAIMS["fixed"], 0)}
    assert {"given_scale", "masked_decode"} <= scenarios
    assert set() == scenarios & {"negative_scale", "biased", "capped", "sunk"}


@pytest.mark.parametrize(
    ("text", "pinned", "expected"),
    [
        ("3", {}, True),
        ("3", {"a": 3}, True),
        ("3", {"a": 4}, False),
        ("b + 1", {"a": 3}, False),
        ("none", {"a": None}, True),
        ("normal(b)", {"a": 0}, False),
        ("3", {"b": 1}, True),
    ],
)
def test_a_setting_applies_where_it_asks_for_nothing_but_what_is_pinned(text, pinned, expected):
    assert expected is applicable({"a": Expression(text, Scope(frozenset({"b"}), draws=True))}, pinned)


@pytest.mark.parametrize(
    ("name", "claims", "reason"),
    [
        ("attention", {}, None),
        ("softmax", {}, None),
        ("causal_mask", {}, "does not take causal"),
        ("causal_mask", {"names": {"causal"}}, None),
        ("causal_mask", {"fixed": {"causal": True}}, None),
        ("causal_mask", {"fixed": {"causal": False}}, "takes causal = False only"),
        ("sliding_window", {"names": {"causal"}}, "does not take window_left"),
        ("sliding_window", {"names": {"window_left"}}, None),
        ("sliding_window", {"names": {"window_right"}}, "does not take window_left"),
        ("padding_mask", {}, "does not take mask"),
        ("alibi", {"names": {"mask"}}, "does not take bias"),
        ("alibi_slopes", {}, "does not take heads"),
        ("alibi_slopes", {"fixed": {"heads": 8}}, None),
    ],
)
def test_a_mechanism_that_is_not_claimed_is_named_with_the_reason(name, claims, reason):
    declared = {"names": frozenset(claims.get("names", ())), "fixed": claims.get("fixed", {})}
    assert reason == undeclared(library()[name], Claims(dtypes=("float32",), **declared))


def test_what_is_not_claimed_is_pinned_to_its_default_and_what_is_fixed_to_its_value():
    expected = {"bias": 0, "sink": -math.inf, "window_left": None, "window_right": None, "softcap": None}
    expected |= {"dropout_p": 0.0, "seed": None}
    assert {**expected, "causal": True, "scale": 0.3} == pins(ATTENTION, CLAIMS["fixed"])
    assert {} == pins(ATTENTION, CLAIMS["everything"])


def test_what_is_drawn_the_regime_and_the_layout_are_factors():
    found = {factor.key: factor.levels for factor in factors(ATTENTION, CLAIMS["fixed"])}
    assert (0, 1) == found["mask.0"]
    assert tuple(range(8)) == found["k_len.0"]
    assert ("", *ATTENTION.regimes) == found["regime"]
    assert DRAWN_LAYOUTS == found["layout"]
    assert set() == {key.partition(".")[0] for key in found} & set(pins(ATTENTION, CLAIMS["fixed"]))


def test_a_long_draw_has_its_ends_and_its_first_inner_value_as_levels():
    claims = Claims(frozenset({"heads"}), ("float32",))
    assert [Factor("heads.0", (0, -1, 1)), Factor("regime", ("",))] == factors(library()["alibi_slopes"], claims)


def pairs_of(rows):
    return {pair for row in rows for pair in itertools.combinations(sorted(row.items()), 2)}


@hypothesis.given(strategies.lists(strategies.integers(1, 5), min_size=1, max_size=6))
def test_the_covering_set_holds_every_pair_of_levels_and_no_row_in_vain(counts):
    given = [Factor(f"f{i}", tuple(f"{i}:{level}" for level in range(count))) for i, count in enumerate(counts)]
    rows = list(covering(given))
    wanted = {((f.key, a), (g.key, b)) for f, g in itertools.combinations(given, 2) for a in f.levels for b in g.levels}
    assert wanted == pairs_of(rows)
    assert all({f.key for f in given} == set(row) for row in rows)
    for count in range(1, len(rows) + 1):
        assert pairs_of(rows[:count]) > pairs_of(rows[: count - 1])
    assert len(rows) <= len(wanted)


def test_the_covering_set_of_attention_is_small_and_always_the_same():
    given = factors(ATTENTION, CLAIMS["everything"])
    rows = list(covering(given))
    most = sorted(len(f.levels) for f in given)[-2:]
    assert math.prod(most) <= len(rows) <= 2.5 * math.prod(most)
    assert rows == list(covering(given))


def test_a_sample_of_the_covering_set_has_the_settings_of_its_row():
    claims = CLAIMS["everything"]
    rows = list(covering(factors(ATTENTION, claims)))
    for sample in itertools.islice(covered(ATTENTION, claims, 0, "float32"), 40):
        row = rows[int(sample.case.label.removeprefix("pair ")) - 1]
        assert (row["regime"], row["layout"]) == (sample.case.regime, sample.layout)
        assert (False, True)[row["causal.0"]] is sample.values["causal"]
        assert (None, 2.0, 20.0)[row["softcap.0"]] == sample.values["softcap"]
        assert row["bias.0"] == isinstance(sample.values["bias"], np.ndarray)
        assert (1, 2, 5, 16, 17, 33)[row["q_len.0"]] == sample.values["q_len"]


def test_explored_cases_are_as_many_as_asked_for_and_differ():
    samples = explored(ATTENTION, CLAIMS["everything"], 0, "float32", 20)
    assert 20 == len(samples)
    assert len({sample.case.key for sample in samples}) > 15
    assert len({sample.layout for sample in samples}) > 1
    assert len({sample.case.regime for sample in samples}) > 1


@pytest.mark.parametrize("block", ["scenarios", "pairs", "draws"])
def test_a_plan_is_the_same_for_the_same_seed_and_another_for_another(block):
    first, same, other = (
        [sample.case.key for sample in getattr(Plan(ATTENTION, CLAIMS["ranges"], SMALL, seed, "float32"), block)]
        for seed in (0, 0, 1)
    )
    assert first == same
    assert first != other
    assert len(set(first)) > len(first) // 2


def test_further_samples_go_on_where_the_last_ended():
    one = Plan(ATTENTION, CLAIMS["everything"], SMALL, 0, "float32")
    three = [sample.case.key for sample in one.further(3)]
    assert three == [sample.case.key for sample in one.further(5)][:3]
    assert 3 == len(set(three))


def test_what_compiles_for_every_shape_is_tried_on_few():
    claims = Claims(EVERYTHING, ("float32",), compiled=True)
    few = Plan(ATTENTION, claims, SMALL, 0, "float32")
    assert (4, 0) == (len(few.pairs), len(few.draws))


def test_the_last_plans_are_kept_and_no_more():
    first = plan(ATTENTION, CLAIMS["nothing"], SMALL, 0, "float32", room=2)
    assert first is plan(ATTENTION, CLAIMS["nothing"], SMALL, 0, "float32", room=2)
    for seed in range(130):
        plan(ATTENTION, CLAIMS["nothing"], SMALL, seed + 1, "float32")
    assert first is not plan(ATTENTION, CLAIMS["nothing"], SMALL, 0, "float32")


def test_the_scenarios_of_an_operator_are_those_of_all_its_mechanisms_that_are_claimed():
    names = {sample.mechanism.name for sample in scenarios_of(ATTENTION, CLAIMS["nothing"], seed=0, dtype="float32")}
    assert {"attention", "grouped_query", "multi_query"} <= names
    assert set() == names & {"causal_mask", "padding_mask", "alibi", "softmax"}


def test_what_is_too_large_is_left_out_under_limits_and_else_an_error():
    case = next(directed(ATTENTION, CLAIMS["everything"], 0))
    limited = Claims(EVERYTHING, ("float32",), limits={"q_len": (10**6,)})
    assert None is drawn(ATTENTION, case, limited, "float32")
    huge = Claims(EVERYTHING, ("float32",))
    large = type(case)("attention", "", 0, {"q_len": 10**6, "k_len": 10**6})
    with pytest.raises(SpecError, match="is over the limit of"):
        drawn(ATTENTION, large, huge, "float32")


def test_an_unknown_profile_is_bad_usage():
    assert PROFILES["ci"] is profile_named("ci")
    with pytest.raises(UsageError) as caught:
        profile_named("nigthly")
    assert "unknown profile 'nigthly'; did you mean 'nightly'? (profiles: smoke, quick, ci, nightly)" == str(
        caught.value
    )


def conditioned(*texts):
    scope = Scope(frozenset({*ATTENTION.sizes, *ATTENTION.inputs, *ATTENTION.options}))
    return Claims(EVERYTHING, ("float32",), requires=tuple(Expression(text, scope) for text in texts))


def test_every_case_meets_the_declared_conditions():
    claims = conditioned("value_dim == head_dim", "not causal or single(mask) and single(bias)")
    found = every(ATTENTION, claims)
    assert {(True, True)} == {
        (
            v["value_dim"] == v["head_dim"],
            not v["causal"] or not (isinstance(v["mask"], np.ndarray) or isinstance(v["bias"], np.ndarray)),
        )
        for v in (sample.values for sample in found)
    }
    assert {True, False} == {sample.values["causal"] for sample in found}


def test_scenarios_that_do_not_meet_a_condition_are_beyond_the_limits():
    claims = conditioned("value_dim == head_dim")
    beyond = beyond_limits(ATTENTION, claims, "float32")
    tried = {sample.case.label for sample in Plan(ATTENTION, claims, SMALL, 0, "float32").scenarios}
    assert (["head_dim", "value_dim"], set()) == (beyond["plain"], tried & set(beyond))


def test_further_samples_go_on_beyond_those_that_do_not_meet_a_condition():
    further = [*Plan(ATTENTION, conditioned("batch == 2"), SMALL, 0, "float32").further(16)]
    assert (True, {2}) == (len(further) > 1, {sample.values["batch"] for sample in further})


def test_a_condition_without_a_truth_is_an_error_of_the_declaration():
    with pytest.raises(UsageError, match=r"^requires: .*do not fit"):
        every(ATTENTION, conditioned("identical(q, k)"))
