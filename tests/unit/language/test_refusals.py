"""What the expression language refuses, with what message, and where the error points."""

import re
from typing import Any

import numpy as np
import pytest

from attnspec.errors import Place, SpecError
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope, Takes, Values
from attnspec.language.syntax import assignments
from attnspec.numerics.numbers import Number

NAMES: dict[str, Any] = {
    "n": 3,
    "x": np.array([1.0, 2.0, 3.0]),
    "m": np.arange(6).reshape(2, 3),
    "yes": np.array([True, False, True]),
    "near": Number.within([1.0, 2.0, 3.0], np.asarray(0.1)),
}
SCOPE = Scope(
    frozenset(NAMES),
    words={"top_left": "alignment", "bottom_right": "alignment", "zeros": "empty"},
    outputs=frozenset({"out", "lse"}),
    replaceable=frozenset({"q", "k", "scale"}),
    operators={"softmax": Takes(("x",), frozenset({"x", "base"}))},
)
PLACE = Place("spec/some.yaml", 12, 10)


def refused(text: str, scope: Scope = SCOPE, *, claim: bool = False) -> str:
    with pytest.raises(SpecError) as caught:
        Expression(text, scope, PLACE, claim=claim)(Values(NAMES, "float32"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x.shape", "Attribute is not part of the language"),
        ("x.__class__.__bases__", "Attribute is not part of the language"),
        ("().__class__", "Attribute is not part of the language"),
        ("lambda: 1", "Lambda is not part of the language"),
        ("(i for i in x)", "GeneratorExp is not part of the language"),
        ("[i for i in x]", "ListComp is not part of the language"),
        ("{i for i in x}", "SetComp is not part of the language"),
        ("{1: 2}", "Dict is not part of the language"),
        ("{1}", "Set is not part of the language"),
        ("(1, 2)", "Tuple is not part of the language"),
        ("'text'", "the constant 'text' is not part of the language"),
        ("b'text'", "is not part of the language"),
        ("f'{n}'", "JoinedStr is not part of the language"),
        ("1j", "the constant '1j' is not part of the language"),
        ("True", "the constant 'True' is not part of the language"),
        ("None", "the constant 'None' is not part of the language"),
        ("(a := 1)", "NamedExpr is not part of the language"),
        ("await x", "Await is not part of the language"),
        ("x is none", "Is is not part of the language; write == or !="),
        ("1 in x", "In is not part of the language; write == or !="),
        ("~x", "the operator Invert is not part of the language"),
        ("+x", "the operator UAdd is not part of the language"),
        ("1 << 30", "the operator LShift is not part of the language"),
        ("yes & yes", "the operator BitAnd is not part of the language"),
        ("x.sum()", "only a plain name can be called"),
        ("(lambda: 1)()", "only a plain name can be called"),
        ("x[0](1)", "only a plain name can be called"),
        ("exp(*x)", "* and ** arguments are not part of the language"),
        ("exp(**x)", "* and ** arguments are not part of the language"),
        ("__import__(n)", "unknown function '__import__'"),
        ("eval(n)", "unknown function 'eval'"),
        ("open(n)", "unknown function 'open'"),
        ("__builtins__", "unknown name '__builtins__'"),
        ("import os", "not an expression"),
        ("a = 1", "not an expression"),
        ("x; n", "not an expression"),
        ("x if", "not an expression"),
        ("", "not an expression"),
        ("1if yes else 2", "not an expression: invalid decimal literal"),
        ("'\\d'", "not an expression: invalid escape sequence"),
        ("[1.0, " + "9" * 400 + "]", "a list holds numbers, in rows of equal length"),
        ("[-9223372036854775808]", "a number of the list is over the limit"),
        ("x\ny", r"only plain ASCII is allowed in an expression, not '\n'"),
        ("n\u00b2", "only plain ASCII is allowed in an expression, not '\u00b2'"),
        ("n\x00", r"only plain ASCII is allowed in an expression, not '\x00'"),
    ],
)
def test_nothing_else_of_python_is_part_of_the_language(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize("text", ["[[1], [2, 3]]", "[true]", "[n, 1]", "[1j]", "['a']", "[none]", "[[1], 2]"])
def test_a_list_holds_numbers_in_rows_of_equal_length(text: str) -> None:
    assert "a list holds numbers, in rows of equal length" in refused(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exp()", "exp(x): missing a required argument: 'x'"),
        ("sum(x, 0, true, 1)", "sum(x, axis = -1, keep = false): too many positional arguments"),
        ("sum(x, axes = 0)", "sum(x, axis = -1, keep = false): got an unexpected keyword argument 'axes'"),
        ("max(axis = 0)", "max(x, y, ..., axis = -1, keep = false): missing a required argument: 'x'"),
        ("sum(x, axis = 0, axis = 1)", "an argument is given twice"),
        ("out(k = 0, k = 1)", "an argument is given twice"),
        ("implies(true)", "write implies(condition, claim)"),
        ("normal(2)", "normal draws, which is allowed only where cases are drawn"),
        ("out(x)", "write out(input = value, ...)"),
        ("softmax(n, 2)", "softmax takes 1 inputs by position"),
        ("softmax", "unknown name 'softmax'"),
        ("x(1)", "unknown function 'x'"),
        ("order(x)", "unknown function 'order'; it is now called 'argsort'"),
        ("take(x, 0)", "unknown function 'take'; it is now called 'gather'"),
        ("out", "there is no out here"),
        ("softmax(x)", "softmax cannot be called here"),
        ("1 if top_left else 2", "alignment does not apply here"),
        ("range(1, 2, 3)", "range takes one number or two"),
        ("max(x, x, x)", "max and min take one array or two"),
    ],
)
def test_a_call_is_checked_against_what_is_called(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("top_left + 1", "'top_left' is not a number"),
        ("-zeros", "'zeros' is not a number"),
        ("exp(zeros)", "'zeros' is not a number"),
        ("none * 2", "none is not a number"),
        ("exp(none)", "none is not a number"),
        ("sum(none)", "none is not a number"),
        ("top_left < 1", "words and none can only be compared with == and !="),
        ("none < 1", "words and none can only be compared with == and !="),
        ("(near > 1) < (near > 2)", "booleans can only be compared with == and !="),
        ("top_left[0]", "only arrays can be indexed"),
        ("scan(eye(2), eye(2), eye(2))", "no states go on by matrices of shape (2, 2) with (2, 2) added to them"),
        ("scan(eye(2)[none], eye(3)[none], eye(3))", "no states go on by matrices of shape (1, 2, 2)"),
        ("scan(eye(2)[none], eye(2)[none], eye(3))", "have no steps in common from (3, 3) on"),
        (
            "scan(eye(2)[none], eye(2)[none], eye(2), eye(2)[none])",
            "no factors of shape (1, 2, 2) are kept of the rows",
        ),
        ("none[0]", "only arrays can be indexed"),
        ("all(top_left)", "'top_left' is not a boolean"),
        ("where(zeros, 1, 2)", "'zeros' is not a boolean"),
        ("true and none", "none is not a boolean"),
        ("not none", "none is not a boolean"),
        ("1 if none else 2", "none is not a boolean"),
        ("near and yes", "a number is not a boolean"),
        ("not near", "a number is not a boolean"),
        ("1 if near[0] else 2", "a number is not a boolean"),
        ("implies(true, near)", "a number is not a boolean"),
        ("any(near)", "a number is not a boolean"),
        ("1 if near[0] == 1 else 2", "'if' takes one decided boolean; choose between arrays with where(...)"),
        ("argsort(m[" + "none, " * 50 + "0])", "RuntimeError"),
        ("1 if yes else 2", "'if' takes one decided boolean; choose between arrays with where(...)"),
        ("x[0.5]", "an index is not an integer"),
        ("gather(x, 0.5)", "an index is not an integer"),
        ("x[near > 1]", "an index is an integer, a slice, none, or an array of integers or booleans"),
        ("x[0.5:]", "is not an integer"),
        ("x[5]", "IndexError: index 5 is out of bounds"),
        ("near // 2", "// and % take exact numbers"),
        ("1 % 0", "division by zero"),
        ("x @ x", "cannot multiply matrices of shapes (3,) and (3,)"),
        ("average(x, x)", "average takes weights [..., q, n] and values [..., n, d], not (3,) and (3,)"),
        ("identical(near > 1, near > 1)", "identical takes numbers; compare booleans with =="),
    ],
)
def test_what_has_no_meaning_is_refused(text: str, message: str) -> None:
    assert message in refused(text)


def test_a_name_of_another_scope_is_unknown() -> None:
    assert "unknown name 'x'" in refused("x + 1", Scope(frozenset({"n"})))
    assert "unknown function 'out'" in refused("out(k = 1)", Scope(frozenset({"n"})))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1", "spec/some.yaml:12:10: write assignments as: name = expression, name = expression"),
        ("x, y = 1", "write assignments as"),
        ("**x", "write assignments as"),
        ("a == 1", "write assignments as"),
        ("a = 1)(b = 2", "write assignments as"),
        ("a = 1) + f(b = 2", "write assignments as"),
        ("a = 1, a = 2", "spec/some.yaml:12:21: 'a' is assigned twice"),
        ("a = ", "not an expression"),
        ("x[0] = 1", "not an expression"),
        ("a = 1, b = $", "spec/some.yaml:12:21: not an expression"),
    ],
)
def test_what_is_no_assignment_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        assignments(text, PLACE)
    assert message in str(caught.value)


def run(text: str) -> Any:
    return Expression(text, SCOPE)(Values(NAMES, "float32"))


def test_nothing_of_an_expression_reaches_the_values_it_reads() -> None:
    before = NAMES["x"].copy()
    run("sum(x * 2 + exp(x)[::-1])")
    np.testing.assert_array_equal(before, NAMES["x"])


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        ("choice()", "write choice(x, ...)"),
        ("maybe(x = 1, otherwise = 2)", "write maybe(x, otherwise)"),
        ("maybe(1, otherwise = 2)", "write maybe(x, otherwise)"),
    ],
)
def test_a_draw_that_has_a_default_shows_it_by_its_position(text: str, usage: str) -> None:
    with pytest.raises(SpecError, match=re.escape(usage)):
        Expression(text, Scope(draws=True), PLACE)
