"""Witnesses are made small: the smallest one still fails, in the same way, and is always the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.cases.samples import Case, Sample, Unfit
from attnspec.judging import shrinking
from attnspec.judging.cells import Request, law_of
from attnspec.judging.engine import run
from attnspec.judging.frames import Frames
from attnspec.judging.judge import Kind, judged
from attnspec.judging.shrinking import Reduced, made_small, shrink, simpler
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import mistake, subject

ATTENTION = library()["attention"]
LARGE = {"batch": 3, "kv_heads": 2, "q_len": 17, "k_len": 33, "head_dim": 16, "value_dim": 24}
OPTIONS = {"scale": 0.3, "causal": True, "window_left": 7, "window_right": None, "softcap": 2.0}
DTYPES = ("float32", "float64")
SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=2)


def sample_of(case):
    try:
        return Sample(ATTENTION, case, "float32")
    except Unfit:
        return None


def large(**more):
    case = Case("attention", "large", 7, {**LARGE, **OPTIONS, "mask": True, "bias": 0, "sink": -np.inf}, **more)
    return sample_of(case)


def failing_if(condition):
    """A predicate of cases: the sample where its values meet the condition."""

    def fails(case):
        sample = sample_of(case)
        return sample if sample is not None and condition(sample.values) else None

    return fails


def smallest(condition, sample=None, **allowance):
    return shrink(ATTENTION, sample or large(), failing_if(condition), **{"seconds": 60.0, "tries": 500, **allowance})


SIZES = {"batch": 1, "kv_heads": 1, "q_len": 1, "k_len": 1, "head_dim": 1, "value_dim": 1}
PLAIN = {"scale": None, "causal": False, "window_left": None, "window_right": None, "softcap": None}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (lambda x: True, {}),
        (lambda x: x["k_len"] >= 5, {"k_len": 5}),
        (lambda x: x["k_len"] > 16, {"k_len": 17}),
        (lambda x: x["q_len"] < x["k_len"] and x["causal"], {"k_len": 2, "causal": True}),
        (lambda x: x["value_dim"] > x["head_dim"] > 2, {"head_dim": 3, "value_dim": 4}),
        (lambda x: x["batch"] > 1 and x["softcap"], {"batch": 2, "softcap": 2.0}),
        (lambda x: x["scale"] is not None and x["scale"] != 1.0, {"scale": 0.3}),
    ],
)
def test_only_what_a_failure_needs_is_left(condition, expected):
    found = smallest(condition).sample.values
    assert {**SIZES, **PLAIN, **expected} == {name: found[name] for name in (*SIZES, *PLAIN)}


def test_entries_become_zeros_and_round_numbers():
    found = smallest(lambda x: np.any(x["v"] > 1.6)).sample.values
    assert [0, 0, 1] == [np.count_nonzero(found[name]) for name in ("q", "k", "v")]
    assert 2.0 == found["v"].max()


def test_layout_regime_and_scenario_go_first():
    case = replace(large().case, layout="strided", regime="tiny", scenario="plain")
    first, second, third, *_ = simpler(ATTENTION, Sample(ATTENTION, case, "float32"))
    assert ("contiguous", "tiny", "plain") == (first.layout, first.regime, first.scenario)
    assert ("", "") == (second.regime, third.scenario)


@pytest.mark.parametrize("part", ["layout", "regime"])
def test_what_a_failure_needs_is_kept(part):
    sample = sample_of(replace(large().case, layout="strided", regime="tiny"))

    def fails(case):
        return sample_of(case) if getattr(case, part) == getattr(sample.case, part) else None

    case = shrink(ATTENTION, sample, fails, seconds=60.0).sample.case
    assert {"layout": "contiguous", "regime": "", part: getattr(sample.case, part)} == {
        "layout": case.layout,
        "regime": case.regime,
    }


def test_no_single_step_from_the_smallest_keeps_the_failure():
    def odd(x):
        return x["k_len"] > 3 and np.any(x["q"] > 0.1)

    found = smallest(odd)
    assert odd(found.sample.values)
    assert [] == [case for case in simpler(ATTENTION, found.sample) if failing_if(odd)(case)]


def test_the_same_failure_has_the_same_witness():
    first, second = (smallest(lambda x: np.any(x["v"] > 1.2)) for _ in range(2))
    assert (first.sample.case.key, first.tried) == (second.sample.case.key, second.tried)


@pytest.mark.parametrize(("tries", "tried"), [(0, 0), (3, 3)])
def test_the_allowance_of_tries_is_kept(tries, tried):
    assert tried == smallest(lambda x: False, tries=tries).tried


def test_without_time_the_failure_stays_as_it_was():
    sample = large()
    found = smallest(lambda x: True, sample, seconds=0.0)
    assert (sample, 0) == (found.sample, found.tried)


# Failures of subjects


def failure_of(one, law, mechanism="attention", profile=SCENARIOS, dtype="float32"):
    result = run(Request(one, library()[mechanism], dtype, profile, laws=frozenset({law, "definition"})))
    return next(cell.failure for cell in result.cells if cell.law == law), result


def adapted(function):
    return subject(Adapter("function", "attention", function, "torch"))


@pytest.mark.parametrize("name", ["no_scale", "key_tail", "mixed_batch", "falsy_scale", "swapped", "value_tail"])
def test_the_smallest_witness_of_a_mistake_still_fails(name):
    failure, result = failure_of(mistake(f"attention.{name}"), "definition")
    small = made_small(failure, result)
    again = Sample(ATTENTION, small.sample.case, "float32")
    outcome = judged(Trial(result.bench, again), law_of(ATTENTION, "definition"), result.grades[:1])
    assert (Kind.REFUTED, small.outcome.excess) == (outcome.kind, outcome.excess)
    assert small.sample.entries < failure.sample.entries
    assert failure.sample is small.found


def test_a_law_that_calls_again_has_a_small_witness_too():
    failure, result = failure_of(mistake("attention.mask_ignored"), "removed")
    small = made_small(failure, result)
    assert Kind.REFUTED is small.outcome.kind
    k_len = small.sample.values["k_len"]
    assert {**SIZES, "k_len": k_len} == {name: small.sample.values[name] for name in SIZES}
    assert 2 <= k_len <= 3


def attention(q, k, v):
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)


def raises_and_is_wrong_below(q, k, v):
    if k.shape[2] < 4:
        raise ValueError("too few keys")
    return attention(q, k, v) + 1


def nan_for_few_keys(q, k, v):
    return attention(q, k, v) + (1 if k.shape[2] >= 4 else torch.nan)


def raises_otherwise_for_few_keys(q, k, v):
    raise ValueError("too many keys") if k.shape[2] >= 4 else KeyError("too few keys")


def misshapen_for_few_keys(q, k, v):
    if k.shape[2] >= 4:
        raise ValueError("too many keys")
    return attention(q, k, v)[..., :0]


@pytest.mark.parametrize(
    ("function", "kind", "says"),
    [
        (raises_and_is_wrong_below, Kind.REFUTED, ""),
        (nan_for_few_keys, Kind.REFUTED, ""),
        (raises_otherwise_for_few_keys, Kind.FAULTED, "ValueError: too many keys"),
        (misshapen_for_few_keys, Kind.FAULTED, "ValueError: too many keys"),
    ],
)
def test_a_witness_never_turns_into_another_fault(function, kind, says):
    small = made_small(*failure_of(adapted(function), "definition"))
    assert (kind, says, 4) == (small.outcome.kind, small.outcome.says, small.sample.values["k_len"])


def test_a_witness_stays_within_what_the_subject_claims():
    one = subject(
        Adapter("function", "attention", nan_for_few_keys, "torch", limits={"head_dim": (8, 16), "batch": (2,)})
    )
    values = made_small(*failure_of(one, "definition")).sample.values
    assert (8, 2) == (values["head_dim"], values["batch"])


@pytest.mark.parametrize("law", ["contract.dtype", "contract.precision"])
def test_a_contract_is_left_as_it_was_found(law):
    def double(q, k, v):
        p = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)
        return (p.bfloat16().float() @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)).double()

    failure, result = failure_of(adapted(double), law)
    assert law == failure.law
    assert failure is made_small(failure, result)


def test_who_meets_a_failure_again_meets_the_cases_that_it_was_reduced_to(monkeypatch):
    failure, result = failure_of(mistake("attention.no_scale"), "definition")
    first = made_small(failure, result)
    bounds, bound = [], Frames._bound
    monkeypatch.setattr(Frames, "_bound", lambda *asked: bounds.append(asked[1]) or bound(*asked))
    again = made_small(*failure_of(mistake("attention.no_scale"), "definition"))
    assert first.sample is again.sample
    assert [] == bounds
    assert (first.tried, first.outcome.excess) == (again.tried, again.outcome.excess)


def test_only_the_cases_that_were_tried_last_are_kept(monkeypatch):
    monkeypatch.setattr(shrinking, "TRIED", 3)
    monkeypatch.setattr(library(), "_owned", {})
    small = made_small(*failure_of(mistake("attention.no_scale"), "definition"))
    assert small.tried > 3 == len(library().kept(shrinking.Tried))


def test_a_case_that_was_made_small_in_another_dtype_is_made_the_same_there(monkeypatch):
    reduced = Reduced()
    first, again = (failure_of(mistake("attention.no_scale"), "definition", dtype=dtype) for dtype in DTYPES)
    small = made_small(*first, reduced)
    monkeypatch.setattr(shrinking, "shrink", None)  # nothing is searched for again
    other = made_small(*again, reduced)
    assert (small.sample.case, "float64", 1) == (other.sample.case, other.sample.dtype, other.tried)
    trial = Trial(again[1].bench, other.sample)
    assert Kind.REFUTED is judged(trial, law_of(ATTENTION, "definition"), again[1].grades).kind


def test_what_passes_on_the_case_of_another_dtype_is_made_small_by_itself():
    def only_long(q, k, v):
        return attention(q, k, v) * (2 if q.dtype == torch.float32 or k.shape[2] > 1 else 1)

    reduced = Reduced()
    first, again = (failure_of(adapted(only_long), "definition", dtype=dtype) for dtype in DTYPES)
    small = made_small(*first, reduced)
    assert first[0].sample.key == again[0].sample.key
    assert [1, 2] == [small.sample.values["k_len"], made_small(*again, reduced).sample.values["k_len"]]


def test_another_law_and_another_case_are_made_small_by_themselves():
    failure, result = failure_of(mistake("attention.no_scale"), "definition")
    reduced = Reduced()
    small = made_small(failure, result, reduced)
    assert small.sample.case is reduced.case(result.bench, failure)
    assert None is reduced.case(result.bench, replace(failure, law="linear"))
    assert None is reduced.case(result.bench, replace(failure, sample=small.sample))
