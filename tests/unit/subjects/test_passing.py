"""What a parameter is passed is computed from the values of a call."""

import numpy as np

from attnspec.execution.calling import Call
from attnspec.language.scopes import Values
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.signatures import Passed
from attnspec.subjects.passing import compiled, plain_value, said_of, used_by, worth

ATTENTION = library()["attention"]
KNOWN = Values({"window_left": None, "window_right": 3, "head_dim": 4, "mask": True, "scale": 0.5}, "float32")


def passed(how, *texts, **given):
    return worth(Passed(how, texts, **given), KNOWN, ATTENTION)


def test_expressions_are_passed_as_plain_values_in_the_form_that_is_asked_for():
    assert (-1, 3) == passed("tuple", "-1 if window_left == none else window_left", "window_right")
    assert {"left": None, "size": 4} == passed("object", "window_left", "head_dim", names=("left", "size"))
    assert 1j + 0.5 == passed("complex", "scale + full(0.0, 1)", "1 + full(0.0, 1)")[0]
    assert passed("left", "It is left.") is None
    assert [True, True] == passed("array", "mask and full(true, 2)").tolist()


def test_a_text_is_passed_where_its_condition_holds():
    assert ("NHD", "causal", None) == (
        passed("text", "NHD"),
        passed("text", "causal", "head_dim == 4", otherwise="none"),
        passed("text", "causal", "head_dim == 5"),
    )


def test_a_device_and_a_dtype_are_those_of_the_call():
    call = Call({}, {}, "float16", "cuda:1", dtypes={"lse": "float32"})

    def said(how, text):
        return said_of(call, Passed(how, (text,)), ATTENTION)

    assert ("cuda:1", "float16", "float32") == (said("device", "out"), said("dtype", "out"), said("dtype", "lse"))
    assert said("array", "scale") is None


def test_an_expression_is_compiled_once():
    assert compiled(ATTENTION, "scale * 2") is compiled(ATTENTION, "scale * 2")
    assert {"scale", "head_dim"} == used_by(Passed("tuple", ("scale", "head_dim")), ATTENTION)


def test_single_numbers_are_no_arrays():
    assert isinstance(plain_value(np.float64(2)), float)
    assert [2.0] == plain_value(np.array([2.0])).tolist()
