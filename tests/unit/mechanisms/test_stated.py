"""An interface that is stated in a line: what each parameter is passed, in terms of an operator."""

import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms.signatures import signature_named
from attnspec.mechanisms.stated import Line, expressions_in, is_stated, kind_and_texts, stated


def test_a_line_says_the_operator_and_what_parameters_are_passed():
    given = {"keys": "k", "window": "[window_left, -1]", "lse": "{out: lse}", "n": "max(1, q_len)"}
    assert Line("attention", given) == stated(str(Line("attention", given)))
    assert (True, False) == (is_stated("attention(keys=k)"), is_stated("flash_attn_func"))


def test_what_holds_of_every_call_may_follow():
    text = "rotary(cos=cos(base)) fixed(interleaved=true) requires(dim == max(2, 4)) dtypes(cos=float32)"
    line = stated(text)
    assert ("rotary", {"cos": "cos(base)"}, {"interleaved": "true"}) == (line.operator, line.parameters, line.fixed)
    assert ("dim == max(2, 4)",) == line.requires
    assert {"cos": "float32"} == line.dtypes
    assert text == str(line)


def test_what_is_returned_and_assembled_may_follow():
    text = "moe_routing(gates=logits) returns(w, ids) outputs(weights=sum(where(ids == range(experts), w, 0), 1))"
    line = stated(text)
    assert (("w", "ids"), {"weights"}) == (line.returns, {*line.outputs})
    one = signature_named(text)
    assert (line.returns, line.outputs) == (one.returns, one.outputs)
    assert text == str(line)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("scale", ("array", ("scale",))),
        ("[window_left, max(1, 2)]", ("tuple", ("window_left", "max(1, 2)"))),
        ("{out: lse}", ("out", ("lse",))),
        ("{text: NHD}", ("text", ("NHD",))),
        ("{text: silu, where: silu}", ("text", ("silu", "silu"))),
    ],
)
def test_a_parameter_is_passed_an_expression_a_tuple_text_or_room_for_an_output(text, read):
    assert read == kind_and_texts(text)


@pytest.mark.parametrize(
    ("like", "says"),
    [
        ("attention(scale", "an interface is stated as OPERATOR(parameter=input or option, ...)"),
        ("attention(scale=scale) limits(q_len=1)", "an interface is stated as OPERATOR("),
        ("attention(scale=scale) requires(", "an interface is stated as OPERATOR("),
        ("attention(scale)", "'scale' does not say what a parameter is passed; write parameter=option"),
        ("attention(lse={output: lse})", "{output: ...} is none of out, in_place, room, text, complex, left"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused(like, says):
    with pytest.raises(UsageError) as error:
        signature_named(like)
    assert str(error.value).startswith(says)


@pytest.mark.parametrize(
    ("text", "texts", "computed"),
    [
        ("{in_place: key_cache, as: keys}", ("key_cache", "keys"), ("key_cache",)),
        ("{in_place: key_cache}", ("key_cache",), ("key_cache",)),
        ("{in_place: f(x, 2)}", ("f(x, 2)",), ("f(x, 2)",)),
        ("[a, b]", ("a", "b"), ("a", "b")),
    ],
)
def test_what_is_changed_in_place_may_be_another_output(text, texts, computed):
    assert (texts, computed) == (kind_and_texts(text)[1], expressions_in(text))
