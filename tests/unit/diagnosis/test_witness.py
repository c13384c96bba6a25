"""A failure as plain data: it is shown, kept, read again and still fails."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from attnspec.cases.profiles import Profile
from attnspec.cases.samples import Case, Sample
from attnspec.diagnosis.likeness import Cause, Likeness, Nearest
from attnspec.diagnosis.maps import Map
from attnspec.diagnosis.stored import find, kept, read_case, save, stored_case
from attnspec.diagnosis.witness import describe, finite_or_none, shown
from attnspec.errors import UsageError
from attnspec.execution.calling import Reply
from attnspec.execution.faults import raised
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request, law_of
from attnspec.judging.contracts import CONTRACTS
from attnspec.judging.engine import run
from attnspec.judging.environments import LawEnvironment
from attnspec.judging.judge import judged
from attnspec.judging.shrinking import made_small
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import mistake

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=2)


def failure_of(one, mechanism, law="definition"):
    result = run(Request(one, library()[mechanism], "float32", SCENARIOS, laws=frozenset({law, "definition"})))
    return made_small(next(cell.failure for cell in result.cells if cell.law == law), result), result


def described(address, law="definition", likeness=None, broken=(), seen=None):
    failure, result = failure_of(mistake(address), address.partition(".")[0], law)
    return describe(failure, result.bench, f"mistake:{address}", likeness, list(broken), seen)


@pytest.fixture(scope="module")
def base_two():
    return described("softmax.base_two", broken=["ratio"])


def test_a_witness_is_plain_data(base_two):
    assert base_two == json.loads(json.dumps(base_two, allow_nan=False))


def test_a_witness_says_what_broke_where_and_on_what(base_two):
    expected = {
        "target": "mistake:softmax.base_two",
        "subject": "mistake:softmax.base_two",
        "mechanism": "softmax",
        "law": "definition",
        "says": "Every output agrees with the definition.",
        "holds": "",
        "dtype": "float32",
        "device": "cpu",
        "sizes": {"rows": 1, "n": 2},
        "words": {"empty_row": "zeros"},
        "declared": ["empty_row"],
        "digest": library()["softmax"].digest,
        "broken": ["ratio"],
        "likeness": None,
        "map": None,
        "certain": True,
        "grade": "fp32",
        "trace": "",
    }
    assert expected == {name: base_two[name] for name in expected}
    assert ("plain", 7) == (base_two["from"]["label"], base_two["from"]["sizes"]["n"])


def test_the_worst_entry_is_shown_with_its_bound(base_two):
    x = np.asarray(base_two["case"]["literals"]["x"]["entries"])
    outcome = base_two["outcome"]
    where = outcome["where"][-1]
    assert outcome["found"] == pytest.approx((2**x / (2**x).sum())[where])
    assert outcome["expected"] == pytest.approx((np.exp(x) / np.exp(x).sum())[where])
    assert outcome["units"] == pytest.approx(abs(outcome["found"] - outcome["expected"]) / outcome["bound"], rel=1e-3)
    assert (2, 2) == (outcome["spoiled"], outcome["entries"])


def test_the_worst_entry_is_found_wherever_it_is():
    class WrongAtTheEnd(DefinitionSubject):
        def call(self, call):
            p = super().call(call).outputs["p"]
            error = np.where(np.arange(p.shape[-1]) == p.shape[-1] - 1, 0.5, 0.1)
            return Reply({"p": p + (error if p.shape[-1] > 2 else 0.0)})

    failure, result = failure_of(WrongAtTheEnd(library()["softmax"], "wrong"), "softmax")
    assert [0, 2] == describe(failure, result.bench, "wrong", None, [])["outcome"]["where"]


def test_a_law_is_shown_with_what_it_drew():
    data = described("attention.mask_ignored", "removed")
    law = library()["attention"].laws["removed"]
    assert (law.says, law.holds.text, {"t"}) == (data["says"], data["holds"], set(data["givens"]))
    assert str(law.place) == data["place"]


def test_a_likeness_is_part_of_the_witness():
    mistake, word = Cause("softmax.base_two", "Powers of two."), Cause("empty_row = nans", "NaN.", "empty_row", "nans")
    likeness = Likeness((mistake, word), 18, ("softmax.base_three",), runner_up="softmax.no_shift", differs=3)
    expected = {
        "name": "softmax.base_two and empty_row = nans",
        "causes": [{"name": mistake.name, "says": mistake.says}, {"name": "empty_row = nans", "says": "NaN."}],
        "agreed": 18,
        "others": ["softmax.base_three"],
        "by_laws": False,
        "runner_up": "softmax.no_shift",
        "differs": 3,
        "convention": "empty_row",
        "word": "nans",
        "changed": [],
    }
    assert expected == described("softmax.base_two", likeness=likeness)["likeness"]


def test_what_comes_nearest_is_part_of_the_witness_and_is_no_likeness():
    data = described("softmax.base_two", likeness=Nearest("softmax.no_shift", "No shift.", 23, 25))
    expected = {"name": "softmax.no_shift", "says": "No shift.", "agreed": 23, "cases": 25}
    assert (None, expected) == (data["likeness"], data["nearest"])


def test_a_map_is_part_of_the_witness():
    weights = ((1 / 3, math.nan),), ((1.0, 0.0),)
    seen = Map("other weights", "plain", ("o+", "oo"), 4, "head 1", True, *weights)
    expected = {"words": "other weights", "case": "plain", "rows": ["o+", "oo"], "first": 4, "plane": "head 1"}
    expected |= {"subject": [[0.33333, "nan"]], "definition": [[1.0, 0.0]]}
    assert expected == described("softmax.base_two", seen=seen)["map"]


def test_whole_numbers_are_shown_where_they_first_differ():
    outcome = described("beam_search.backwards")["outcome"]
    assert outcome["found"] != outcome["expected"]
    assert None is outcome["units"]


def test_options_at_their_default_are_left_out_of_the_sizes():
    sizes = described("attention.cap_ignored")["sizes"]
    assert ({"softcap": 0.5}, set()) == (
        {name: sizes[name] for name in ("softcap",)},
        {"dropout_p", "scale", "causal", "mask"} & set(sizes),
    )


def test_options_that_are_not_at_their_default_are_unusual():
    assert {"softcap": 0.5} == described("attention.cap_ignored")["unusual"]


def test_every_failure_has_a_key_of_its_own(base_two):
    again, other = described("softmax.base_two"), described("softmax.unnormalised")
    assert base_two["key"] == again["key"]
    assert base_two["key"] != other["key"]


def test_where_the_outputs_are_wrong_already_the_error_is_that_against_the_definition():
    data = described("softmax.base_two", "ratio")
    assert None is data["outcome"]["units"]
    assert None is data["outcome"]["bound"]
    definition = described("softmax.base_two")["outcome"]["units"]
    assert data["outcome"]["missed"]["units"] > 1e4
    assert definition > 1e4


def test_where_a_call_of_a_law_is_wrong_and_the_case_itself_is_right_the_error_is_that_of_the_law():
    outcome = described("rotary.half_by_default", "part_alone")["outcome"]
    assert None is outcome["missed"]
    assert outcome["units"] > 1e4


@pytest.mark.parametrize("law", ["ratio", "definition"])
def test_a_bound_is_that_of_the_precision_that_is_claimed(law):
    one = mistake("softmax.base_two")
    result = run(Request(one, library()["softmax"], "float32", SCENARIOS, laws=frozenset({law, "definition"})))
    failure = next(cell.failure for cell in result.cells if cell.law == law)
    assert "bf16" == failure.outcome.grade.name
    assert "fp32" == describe(failure, result.bench, "mistake:softmax.base_two", None, [])["grade"]


@pytest.mark.parametrize(("name", "found"), [("two_at_least", 0.0), ("least_likely", 0.0)])
def test_of_a_claim_about_truths_it_is_shown_what_they_are_about(name, found):
    outcome = described(f"top_p_filter.{name}", "one_sure")["outcome"]
    assert (found, "-inf") == (outcome["found"], outcome["expected"])


def test_what_is_found_and_what_is_expected_are_not_the_same():
    class Hiding(DefinitionSubject):
        def call(self, call):
            out = super().call(call).outputs["out"]
            return Reply({"out": np.where(out == 40.0, -np.inf, out)})

    failure, result = failure_of(Hiding(library()["top_p_filter"], "hiding"), "top_p_filter", "one_sure")
    outcome = describe(failure, result.bench, "hiding", None, [])["outcome"]
    assert ("-inf", "another value") == (outcome["found"], outcome["expected"])


def test_nan_is_shown_where_it_lies():
    data = described("softmax.clipped_maximum")
    assert "p is NaN where the definition has a number" == data["reason"]
    assert ("nan", None) == (data["outcome"]["found"], data["outcome"]["units"])


def test_a_raised_error_keeps_its_trace():
    class Failing(DefinitionSubject):
        def call(self, call):
            try:
                raise ValueError("no kernel")
            except ValueError as error:
                return Reply(fault=raised(error))

    failure, result = failure_of(Failing(library()["softmax"], "failing"), "softmax")
    data = describe(failure, result.bench, "failing", None, [])
    assert ("ValueError: no kernel", None) == (data["reason"], data["outcome"])
    assert "ValueError: no kernel" == data["trace"].splitlines()[-1]


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_contract_is_said_in_its_sentence(name):
    failure, result = failure_of(mistake("softmax.base_two"), "softmax")
    assert CONTRACTS[name] == describe(replace(failure, law=f"contract.{name}"), result.bench, "t", None, [])["says"]


# Keeping


@pytest.mark.parametrize(
    ("address", "law"),
    [
        ("softmax.base_two", "definition"),
        ("softmax.first_thousand", "definition"),
        ("attention.sink_ignored", "definition"),
        ("attention.mask_ignored", "removed"),
        ("grouped_query.first_head", "own_group"),
        ("alibi_slopes.from_zero", "first_slope"),
    ],
)
def test_a_kept_case_is_the_same_case_and_still_fails(address, law):
    mechanism = library()[address.partition(".")[0]]
    failure, result = failure_of(mistake(address), mechanism.name, law)
    data = json.loads(json.dumps(stored_case(failure.sample, law_of(mechanism, law), result.bench.words_key)))
    again = Sample(mechanism, read_case(data), "float32")
    for name, x in failure.sample.values.items():
        np.testing.assert_array_equal(x, again.values[name], strict=isinstance(x, np.ndarray))
    outcome = judged(Trial(result.bench, again), law_of(mechanism, law), result.grades[:1])
    assert (failure.outcome.kind, failure.outcome.excess) == (outcome.kind, outcome.excess)


def test_special_numbers_truths_and_empty_arrays_are_kept():
    arrays = {
        "x": np.array([[np.nan, np.inf], [-np.inf, -0.0]]),
        "truths": np.array([[True], [False]]),
        "empty": np.zeros((0, 3), np.int64),
    }
    case = Case("softmax", "label", 5, {"scale": np.inf, "n": 3}, {"a.0": 1}, "plain", "tiny", "strided", arrays)
    sample = SimpleNamespace(mechanism=SimpleNamespace(inputs=tuple(arrays)), case=case, values=arrays, cache={})
    again = read_case(json.loads(json.dumps(stored_case(sample, None, ()), allow_nan=False)))
    assert replace(case, literals={}) == replace(again, literals={})
    for name, x in arrays.items():
        np.testing.assert_array_equal(x, again.literals[name], strict=True)


def test_large_arrays_are_drawn_again():
    softmax = library()["softmax"]
    large = Sample(softmax, Case("softmax", "large", 3, {"rows": 3, "n": 129}), "float32")
    data = stored_case(large, None, ())
    assert {} == data["literals"]
    np.testing.assert_array_equal(large.values["x"], Sample(softmax, read_case(data), "float32").values["x"])


def test_what_a_law_drew_under_other_words_is_not_kept():
    m = library()["grouped_query"]
    sizes = {"batch": 1, "kv_heads": 2, "group": 2, "q_len": 1, "k_len": 2, "head_dim": 1}
    sample = Sample(m, Case(m.name, "own", 1, sizes), "float32")
    law, groups = m.laws["own_group"], {}
    for grouping in ("block", "tiled"):
        bench = Bench(DefinitionSubject(m, "one"), m, "float32", "cpu", {**m.words, "grouping": grouping})
        assert LawEnvironment(Trial(bench, sample), law, None)["group_of"].shape == (4, 1, 1)
        groups[grouping] = bench.words_key
    block, tiled = (stored_case(sample, law, groups[word])["literals"] for word in ("block", "tiled"))
    assert [0, 0, 1, 1] == block["own_group.group_of"]["entries"]
    assert [0, 1, 0, 1] == tiled["own_group.group_of"]["entries"]


def test_a_witness_is_found_by_key_and_by_path(base_two, tmp_path):
    path = save(tmp_path, base_two)
    assert (tmp_path / "cases" / f"{base_two['key']}.json") == path
    assert base_two == find(base_two["key"], tmp_path) == find(str(path), tmp_path / "elsewhere")
    assert [base_two["key"]] == list(kept(tmp_path))


def test_a_missing_witness_lists_those_that_there_are(base_two, tmp_path):
    with pytest.raises(UsageError, match=r"^no case 'abc' in .*cases$"):
        find("abc", tmp_path)
    save(tmp_path, base_two)
    with pytest.raises(UsageError, match=rf"no case 'abc' in .*cases \(available: {base_two['key']}\)"):
        find("abc", tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"case": {"fixed": 1}}'])
def test_a_broken_witness_is_named(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(UsageError, match=r"bad\.json:"):
        find(str(tmp_path / "bad.json"), tmp_path)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.array([1.0, 2.5]), "[1. , 2.5]"),
        (np.array([[1.0], [-np.inf]]), "[[  1.], [-inf]]"),
        (np.arange(20.0), "[20], from 0 to 19"),
        (np.arange(20) % 4 == 0, "[20], 5 of 20 true"),
    ],
)
def test_few_entries_are_shown_and_many_are_summed_up(x, text):
    assert text == shown(x)


@pytest.mark.parametrize(("x", "expected"), [(1.5, 1.5), (np.inf, None), (np.nan, None)])
def test_json_has_no_infinities(x, expected):
    assert expected == finite_or_none(x)
