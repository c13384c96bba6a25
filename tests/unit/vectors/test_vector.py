"""A vector is a call in its stored dtypes, with what is expected of every entry and how nearly."""

import numpy as np
import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging.bench import Bench
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import BF16_NAIVE, STANDARD
from attnspec.strategies import Case
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.vectors.vector import Output, unvectored, vector_of


def vector(name, scenario, dtype="float32", grade=None):
    m = library()[name]
    subject = DefinitionSubject(m, "definition", dtypes=(dtype,))
    samples = plan(m, subject.claims, PROFILES["smoke"], 0, dtype).scenarios
    sample = next(sample for sample in samples if sample.case.label == scenario)
    return vector_of(Bench(subject, m, dtype, "cpu", m.words), sample, grade or STANDARD[dtype])


@pytest.mark.parametrize(
    ("name", "scenario"), [("softmax", "plain"), ("attention", "plain"), ("decay_groups", "every_rank")]
)
def test_expected_values_and_bounds_are_those_of_a_drawn_case(name, scenario):
    found = vector(name, scenario, "bfloat16")
    case = Case(found.sample, found.trial.bench.subject, "bfloat16")
    assert [*case.expected] == [*found.outputs]
    for output, stated in found.outputs.items():
        np.testing.assert_array_equal(case.expected[output], stated.expected)
        np.testing.assert_array_equal(case.bounds[output], stated.bound)


def test_inputs_are_kept_in_their_stored_dtypes():
    found = vector("quantized_attention", next(iter(library()["quantized_attention"].scenarios)), "bfloat16")
    dtypes = {name.rpartition("/")[2]: str(x.dtype) for name, x in found.tensors().items()}
    stated = {name: found.mechanism.dtype_of(name, "bfloat16", found.sample.values) for name in found.call.inputs}
    assert stated == {name: dtypes[name] for name in found.call.inputs}
    for name, x in found.call.inputs.items():
        np.testing.assert_array_equal(x, found.tensors()[f"{found.name}/{name}"].astype(float))


def test_a_grade_of_more_rounding_has_wider_bounds():
    plain, naive = (vector("softmax", "plain", "bfloat16", grade) for grade in (None, BF16_NAIVE))
    assert (naive.outputs["p"].bound >= plain.outputs["p"].bound).all()
    assert (naive.outputs["p"].bound > plain.outputs["p"].bound).any()


def test_integers_are_exact():
    output = vector("decay_groups", next(iter(library()["decay_groups"].scenarios))).outputs["decayed"]
    assert ("boolean", 0.0) == (output.dtype, output.bound.max())


def test_conventions_are_those_that_the_case_asks_for():
    assert {"empty_row": "zeros"} == vector("softmax", "nothing_left").conventions
    assert "causal_alignment" not in vector("attention", "plain").conventions


@pytest.mark.parametrize(
    ("y", "excess"),
    [
        ([1.0, np.inf, np.nan, 7.0], 0.0),
        ([1.5, np.inf, np.nan, np.nan], 2.0),
        ([np.nan, np.inf, np.nan, 7.0], np.inf),
        ([1.0, 3.0, np.nan, 7.0], np.inf),
        ([1.0, np.inf, 0.0, 7.0], np.inf),
        ([1.0, np.inf, np.nan], np.inf),
    ],
)
def test_an_error_is_told_in_units_of_the_bound(y, excess):
    output = Output(np.array([1.0, np.inf, np.nan, 5.0]), np.array([0.25, 0.25, 0.25, np.inf]), "float32")
    assert excess == output.excess(np.array(y))


def test_where_nothing_may_differ_anything_is_infinitely_wrong():
    assert np.inf == Output(np.array([2.0]), np.array([0.0]), "integer").excess(np.array([3]))


def test_what_has_no_vectors_says_why():
    found = {m.name: unvectored(m) for m in library().values() if unvectored(m)}
    drawn = {"attention_dropout", "dropout", "sample", "sample_rows", "speculative_sampling"}
    assert {
        *drawn,
        "lightning_indexer",
        "quantized_indexer",
        "block_selection",
        "alibi_bias",
        "attention_mask",
        "band_scores",
    } == found.keys()
    assert "its outputs are random, and judged by laws alone" == found["dropout"]
