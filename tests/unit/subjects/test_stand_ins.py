"""The definition, its mistakes and the reference as subjects."""

import numpy as np
import pytest

from attnspec.cases.profiles import PROFILES
from attnspec.execution.calling import Call
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.numerics.formats import BFLOAT16, FLOAT32, rounded
from attnspec.subjects.stand_ins import DefinitionSubject, ReferenceSubject, Unchanged

SMALL = ("softmax", "alibi_slopes", "alibi_bias")
X = np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 2.0]])
SHARES = np.exp(X) / np.exp(X).sum(-1, keepdims=True)


def definition(name, **more):
    return DefinitionSubject(library()[name], "definition", **more)


def bad(subject, dtype):
    m = library()[subject.operator]
    return [cell.law for cell in run(Request(subject, m, dtype, PROFILES["quick"])).cells if cell.bad]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("make", [definition, lambda name: ReferenceSubject(library()[name])])
@pytest.mark.parametrize("operator", SMALL)
def test_the_definition_and_the_reference_are_conformant(operator, make, dtype):
    assert [] == bad(make(operator), dtype)


@pytest.mark.parametrize(
    ("operator", "mistake"), [(operator, mistake) for operator in SMALL for mistake in library()[operator].mistakes]
)
def test_a_mistake_is_not_conformant(operator, mistake):
    change = library()[operator].mistakes[mistake].change
    assert "definition" in bad(DefinitionSubject(library()[operator], mistake, change), "float32")


@pytest.mark.parametrize(("dtype", "format_"), [("float32", FLOAT32), ("bfloat16", BFLOAT16)])
def test_outputs_are_rounded_once(dtype, format_):
    reply = definition("softmax").call(Call({"x": X}, {}, dtype))
    np.testing.assert_array_equal(rounded(SHARES, format_), reply.outputs["p"])


def test_outputs_may_be_left_unrounded():
    reply = definition("softmax", rounding=False).call(Call({"x": X}, {}, "bfloat16"))
    np.testing.assert_allclose(reply.outputs["p"], SHARES, rtol=1e-15)


def test_an_output_with_a_dtype_of_its_own_is_rounded_to_that():
    x = np.full((1, 1, 1, 2), 0.3)
    reply = definition("attention").call(
        Call({"q": x, "k": np.zeros((1, 1, 3, 2)), "v": np.ones((1, 1, 3, 1))}, {}, "bfloat16")
    )
    assert np.float32(np.log(3)) == reply.outputs["lse"].item()


@pytest.mark.parametrize(
    ("word", "row"), [("zeros", [0, 0, 0, 0]), ("nans", [np.nan] * 4), ("mean_value", [0.25, 0.25, 0.25, 0.25])]
)
def test_every_word_of_a_convention_can_be_chosen(word, row):
    subject = definition("softmax", conventions={"empty_row": word})
    assert word == subject.claims.conventions["empty_row"]
    reply = subject.call(Call({"x": np.full((1, 4), -np.inf)}, {}, "float32"))
    np.testing.assert_array_equal([row], reply.outputs["p"])


def test_everything_that_an_operator_takes_is_claimed():
    claims = definition("attention").claims
    options = {"scale", "causal", "window_left", "window_right", "softcap", "dropout_p", "seed"}
    assert {"mask", "bias", "sink", *options} == claims.names
    assert ("float64", "float32", "bfloat16", "float16") == claims.dtypes


@pytest.mark.parametrize("make", [definition, lambda name: ReferenceSubject(library()[name])])
def test_what_is_outside_the_domain_is_refused(make):
    fault = make("alibi_slopes").call(Call({}, {"heads": 0}, "float32")).fault
    assert "raised" == fault.kind


def test_the_definition_says_what_it_refuses():
    fault = definition("alibi_slopes").call(Call({}, {"heads": 0}, "float32")).fault
    assert "heads > 0" in fault.says


def test_a_number_beyond_the_arithmetic_overflows_as_it_does_there():
    change = library()["softmax"].mistakes["unshifted"].change
    subject = DefinitionSubject(library()["softmax"], "unshifted", change)
    reply = subject.call(Call({"x": np.array([[100.0, 0.0]])}, {}, "float32"))
    assert np.isnan(reply.outputs["p"][0, 0])


def test_equal_claims_of_subjects_that_share_the_definition_are_the_same():
    shared = Unchanged()
    dtypes = ("float32", "float32", "float16")
    one, other, third = (definition("softmax", unchanged=shared, dtypes=(dtype,)) for dtype in dtypes)
    assert one.claims is other.claims
    assert one.claims != third.claims


def test_outputs_that_a_mistake_does_not_change_are_those_of_the_definition():
    m, shared = library()["attention"], Unchanged()
    wrong = DefinitionSubject(m, "wrong", m.mistakes["lse_unscaled"].change, unchanged=shared)
    q, k, v = (np.arange(6.0).reshape(1, 1, 3, 2) + n for n in range(3))
    call = Call({"q": q, "k": k, "v": v}, {}, "float32")
    right = definition("attention", unchanged=shared).call(call).outputs
    found = wrong.call(call).outputs
    assert {"lse"} == {name for name in right if found[name] is not right[name]}


def test_a_call_takes_lines_from_one_of_the_same_dtype_that_has_an_input_in_common():
    m, shared = library()["attention"], Unchanged()
    mistake = m.mistakes["no_scale"]
    one = DefinitionSubject(m, "one", mistake.change, unchanged=shared)
    alone = DefinitionSubject(m, "alone", mistake.change)
    x = np.linspace(-1, 1, 12).reshape(1, 1, 3, 4)
    inputs = {"q": x, "k": x + 1, "v": x - 1}
    calls = [
        Call(inputs, {}, "float32"),
        Call({**inputs, "q": x * 2}, {}, "float32"),
        Call({**inputs, "v": x * 3}, {"causal": True}, "float32"),
        Call({**inputs, "v": x * 3}, {}, "float16"),
        Call({name: y.copy() for name, y in inputs.items()}, {}, "float16"),
    ]
    for call in calls:
        for name, y in alone.call(call).outputs.items():
            np.testing.assert_array_equal(y, one.call(call).outputs[name], strict=True)
    frames = [shared.on(one, call).frame for call in calls]
    assert [None, frames[0], frames[0], None, None] == [frame.unchanged for frame in frames]
