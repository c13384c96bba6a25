"""Several calls of which a law says how their results stand to one another."""

import functools

import numpy as np
import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging.bench import Bench
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import BF16_NAIVE, STANDARD
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.vectors.relation import relations_of, replies, single
from attnspec.vectors.vector import vector_of


def made(name, scenario, law, *, dtype="float32", grade=None):
    m = library()[name]
    subject = DefinitionSubject(m, "definition", dtypes=(dtype,))
    samples = plan(m, subject.claims, PROFILES["quick"], 0, dtype).scenarios
    sample = next(sample for sample in samples if sample.case.label == scenario)
    bench = Bench(subject, m, dtype, "cpu", m.words)
    return bench, sample, relations_of(bench, sample, grade or STANDARD[dtype], m.laws[law])


@functools.cache
def one(name="softmax", scenario="plain", law="reordered"):
    (found,) = made(name, scenario, law)[2]
    return found


def wrong(mechanism, mistake):
    change = library()[mechanism].mistakes[mistake].change
    return DefinitionSubject(library()[mechanism], mistake, change, dtypes=("float32",))


def test_the_case_itself_comes_first_and_what_is_replaced_second():
    first, second = one().calls.values()
    np.testing.assert_array_equal(np.sort(first.inputs["x"]), np.sort(second.inputs["x"]))
    assert not np.array_equal(first.inputs["x"], second.inputs["x"])
    np.testing.assert_array_equal(one().sample.values["x"], first.inputs["x"])


def test_the_bound_is_that_of_both_results():
    bench, sample, (found,) = made("softmax", "plain", "shift_invariant")
    alone = vector_of(bench, sample, STANDARD["float32"]).outputs["p"].bound
    assert (found.bound > alone).all()
    assert (found.bound < 8 * alone).all()


def test_a_grade_of_more_rounding_has_wider_bounds():
    plain, naive = (
        made("softmax", "plain", "reordered", dtype="bfloat16", grade=grade)[2][0] for grade in (None, BF16_NAIVE)
    )
    assert (naive.bound >= plain.bound).all()
    assert (naive.bound > plain.bound).any()


def test_the_definition_keeps_the_law_and_a_mistake_breaks_it():
    found = one("softmax", "plain", "doubled")
    right = DefinitionSubject(found.mechanism, "definition", dtypes=("float32",))
    assert found.excess(replies(found, right.call)) < 1
    assert found.excess(replies(found, wrong("softmax", "unnormalised").call)) > 1e3


def test_another_shape_breaks_it_and_a_call_without_a_result_is_none():
    found = one()
    outputs = {asked: np.zeros(shape) for asked, shape in found.asked.items()}
    assert found.excess(outputs) == 0.0
    assert np.inf == found.excess({asked: y[:1, :1] for asked, y in outputs.items()})
    refusing = DefinitionSubject(library()["attention"], "definition", dtypes=("float32",))
    assert replies(found, refusing.call) is None


def test_results_that_are_to_differ_may_not_be_the_same():
    found = one("softmax", "plain", "entries_matter")
    assert "differ" == found.kind
    same = {asked: np.ones(shape) for asked, shape in found.asked.items()}
    other = {asked: np.full(shape, float(i)) for i, (asked, shape) in enumerate(found.asked.items())}
    assert [np.inf, 0.0] == [found.excess(same), found.excess(other)]


def test_nan_on_both_sides_breaks_it_where_there_is_a_number():
    found = one()
    lost = {asked: np.full(shape, np.nan) for asked, shape in found.asked.items()}
    assert np.inf == found.excess(lost)


def test_a_law_of_one_call_or_of_another_case_has_none():
    assert [] == made("softmax", "plain", "sums_to_one")[2]
    assert [] == made("attention", "plain", "bias_shift")[2]
    assert [] == made("attention", "plain", "merged")[2]


def test_each_comparison_of_a_law_is_a_relation_of_its_own():
    found = made("attention", "plain", "bias_axes")[2]
    assert ["bias_axes.0", "bias_axes.1", "bias_axes.2"] == [x.name.split(".", 3)[3] for x in found]
    assert "bias" in next(iter(found[0].calls.values())).inputs


def test_what_calls_have_in_common_is_stored_once():
    found = one("attention", "plain", "key_shift")
    passed = found.passed()
    assert passed[0, "q"] == passed[1, "q"]
    assert passed[0, "k"] != passed[1, "k"]
    arrays = found.tensors()
    assert {*passed.values()} == {name for name in arrays if name.rpartition("/")[2][:2] in ("0.", "1.")}
    assert "float32" == str(arrays[passed[1, "k"]].dtype)
    assert found.nbytes == sum(x.nbytes for x in arrays.values())


def test_sizes_and_shapes_are_those_of_each_call():
    found = one("softmax", "plain", "doubled")
    first, second = (found.sizes(key)["n"] for key in found.order)
    assert 2 * first == second
    assert [first, second] == [found.shapes(key)["p"][-1] for key in found.order]


@pytest.mark.parametrize(("x", "expected"), [([2.0, 2.0], 2.0), ([1.0, 2.0], None), ([], None)])
def test_a_factor_of_all_entries_is_a_single_number(x, expected):
    assert expected == single(np.array(x))
