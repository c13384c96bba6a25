"""An interface that is stated in a line: what each parameter is passed, in terms of an operator."""

import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms.signatures import signature_named
from attnspec.mechanisms.stated import is_stated, kind_and_texts, stated, written


def test_a_line_says_the_operator_and_what_parameters_are_passed():
    given = {"keys": "k", "window": "[window_left, -1]", "lse": "{out: lse}", "n": "max(1, q_len)"}
    assert ("attention", given) == stated(written("attention", given))
    assert (True, False) == (is_stated("attention(keys=k)"), is_stated("flash_attn_func"))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("scale", ("array", ("scale",))),
        ("[window_left, max(1, 2)]", ("tuple", ("window_left", "max(1, 2)"))),
        ("{out: lse}", ("out", ("lse",))),
        ("{text: NHD}", ("text", ("NHD",))),
    ],
)
def test_a_parameter_is_passed_an_expression_a_tuple_text_or_room_for_an_output(text, read):
    assert read == kind_and_texts(text)


@pytest.mark.parametrize(
    ("like", "says"),
    [
        ("attention(scale", "an interface is stated as OPERATOR(parameter=input or option, ...)"),
        ("attention(scale)", "'scale' does not say what a parameter is passed; write parameter=option"),
        ("attention(lse={output: lse})", "{output: ...} is none of out, in_place, room, text, left"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused(like, says):
    with pytest.raises(UsageError) as error:
        signature_named(like)
    assert str(error.value).startswith(says)
