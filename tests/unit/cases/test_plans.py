"""Which cases a subject is tried on: scenarios first, then pairs of settings, then draws; all inside its claims."""

import itertools
import math

import numpy as np
import pytest

from attnspec.cases.applicability import plain_options, undeclared
from attnspec.cases.drawing import drawn
from attnspec.cases.plans import Plan, beyond_limits, directed, plan, scenarios_of
from attnspec.cases.profiles import PROFILES, Profile
from attnspec.errors import SpecError, UsageError
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope
from attnspec.mechanisms.loader import library
from attnspec.subjects.claims import Claims

ATTENTION = library()["attention"]
EVERYTHING = ATTENTION.takes
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
        for option in {*mechanism.optional, *mechanism.options} - claims.names - {*claims.fixed}:
            assert agree(mechanism.defaults[option], sample.values[option])


def test_a_scenario_is_drawn_when_it_is_first_asked_for(monkeypatch):
    made = []
    monkeypatch.setattr("attnspec.cases.plans.drawn", lambda m, case, *more: made.append(case) or drawn(m, case, *more))
    own = Plan(ATTENTION, CLAIMS["nothing"], SMALL, 0, "float32")
    first = [*itertools.islice(own.one_by_one(), 2)]
    assert 2 == len(made) < len(own.scenarios) == len(made)
    assert first == own.scenarios[:2]
    assert own.scenarios + own.pairs == [*own.one_by_one(pairs=True)]


def test_a_scenario_that_cannot_be_drawn_is_told_each_time(monkeypatch):
    own = Plan(ATTENTION, CLAIMS["nothing"], SMALL, 0, "float32")
    monkeypatch.setattr("attnspec.cases.plans.drawn", lambda *_: unevaluable())
    for _ in range(2):
        with pytest.raises(SpecError):
            next(own.one_by_one())


def unevaluable():
    raise SpecError("too large")


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


def pairs_of(rows):
    return {pair for row in rows for pair in itertools.combinations(sorted(row.items()), 2)}


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


def test_more_samples_go_on_beyond_draws_that_are_unfit():
    m = library()["policy_loss"]
    one = Plan(m, Claims(m.takes, ("float32",)), SMALL, 0, "float32")
    assert [] == [*one.further(8)]
    assert 8 == len({sample.case.key for sample in one.more(8)})


def test_what_compiles_for_every_shape_is_tried_on_few():
    claims = Claims(EVERYTHING, ("float32",), compiled=True)
    few = Plan(ATTENTION, claims, SMALL, 0, "float32")
    assert (4, 0) == (len(few.pairs), len(few.draws))
    assert few.scenarios == few.first


def test_what_is_taken_to_compile_for_every_shape_is_tried_on_fewer_unless_much_is_asked():
    claims = Claims(EVERYTHING, ("float32",), compiled=True, sparing=True)
    spared = Plan(ATTENTION, claims, SMALL, 0, "float32")
    assert (2, 0) == (len(spared.pairs), len(spared.draws))
    assert spared.core == [label for label in spared.core if label in {x.case.label for x in spared.first}]
    assert len(spared.core) == len(spared.first) < len(spared.scenarios) // 2
    strict = Plan(ATTENTION, claims, PROFILES["ci"], 0, "float32")
    assert (4, strict.scenarios) == (len(strict.pairs), strict.first)


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


def test_scenarios_that_a_fixed_option_does_not_go_with_are_beyond_the_limits():
    mrope = library()["mrope"]
    claims = Claims(frozenset({*mrope.options}), ("float32",), limits={"batch": (2,)}, fixed={"striped": True})
    assert ["striped"] == beyond_limits(mrope, claims, "float32")["uneven"]


def test_further_samples_go_on_beyond_those_that_do_not_meet_a_condition():
    further = [*Plan(ATTENTION, conditioned("batch == 2"), SMALL, 0, "float32").further(16)]
    assert (True, {2}) == (len(further) > 1, {sample.values["batch"] for sample in further})


def test_a_condition_without_a_truth_is_an_error_of_the_declaration():
    with pytest.raises(UsageError, match=r"^requires: .*do not fit"):
        every(ATTENTION, conditioned("identical(q, k)"))
