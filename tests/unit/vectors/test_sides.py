"""A side of a comparison is the sum of moved entries that it is found to be."""

import numpy as np
import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.vectors.claims import NotPlain, comparisons
from attnspec.vectors.sides import side_of

MECHANISM = library()["softmax"]
LAW = MECHANISM.laws["reordered"]
SUBJECT = DefinitionSubject(MECHANISM, "definition", dtypes=("float32",))
SAMPLES = plan(MECHANISM, SUBJECT.claims, PROFILES["quick"], 0, "float32").scenarios
SAMPLE = next(sample for sample in SAMPLES if sample.case.label == "plain")


def trial():
    return Trial(Bench(SUBJECT, MECHANISM, "float32", "cpu", MECHANISM.words), SAMPLE, fair=False)


def side(text):
    return side_of(Expression(text, LAW.holds.scope), trial(), LAW)


def test_an_output_is_itself():
    found, asked = side("p")
    (term,) = found.terms
    assert [((), "p")] == [*asked]
    np.testing.assert_array_equal(np.arange(term.place.size).reshape(term.place.shape), term.place)
    assert {1.0} == {*term.factor.flat}
    assert not found.constant.any()


def test_entries_are_moved_multiplied_and_added():
    found, asked = side("3 + 2 * p[..., ::-1] - p(x = 2 * x)")
    assert 2 == len(asked) == len(found.terms)
    shape = found.constant.shape
    y = {key: np.random.default_rng(i).normal(size=shape) for i, key in enumerate(asked)}
    first, second = y.values()
    np.testing.assert_allclose(3 + 2 * first[..., ::-1] - second, found.of(y))
    assert {3.0} == {*found.constant.flat}


def test_what_is_hidden_is_no_term_and_minus_infinity_stays():
    found, _ = side("where(range(n) > 0, p, -infinity)")
    assert np.isneginf(found.constant[..., 0]).all()
    assert {-1} == {*found.terms[0].place[..., 0].flat}
    y = {((), "p"): np.ones(found.constant.shape)}
    assert np.isneginf(found.of(y)[..., 0]).all()
    assert (found.of(y)[..., 1:] == 1).all()


def test_an_output_that_counts_nowhere_is_not_asked_for():
    found, asked = side("1 + 0 * p(x = 2 * x)")
    assert ([], {}) == (found.terms, asked)


@pytest.mark.parametrize(
    "text", ["p * p", "exp(p)", "sum(p)", "max(p)", "p @ transpose(p)", "exp(100 * p) @ transpose(x)"]
)
def test_what_is_no_such_sum_is_told(text):
    with pytest.raises(NotPlain):
        side(text)


def test_a_side_takes_the_shape_of_the_other():
    found, _ = side("p[:1]")
    wide = found.spread((3, *found.constant.shape[1:]))
    assert (3, *found.constant.shape[1:]) == wide.terms[0].place.shape
    x = SAMPLE.values["x"]
    y = {((), "p"): np.arange(x.size, dtype=float).reshape(x.shape)}
    np.testing.assert_array_equal(np.broadcast_to(found.of(y), wide.constant.shape), wide.of(y))


def test_the_sides_of_a_law_are_found():
    (comparison,) = comparisons(LAW)
    for expression in (comparison.left, comparison.right):
        found, asked = side_of(expression, trial(), LAW)
        assert 1 == len(asked) == len(found.terms)
