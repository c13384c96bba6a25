"""The expression language: what it means, and what it knows of what it reads, calls and draws."""

import math
from typing import Any

import numpy as np
import pytest

from attnspec.errors import Place, SpecError
from attnspec.language.expressions import Expression
from attnspec.language.scopes import CONSTANTS, CallSite, Scope, Takes, Values
from attnspec.language.syntax import assignments
from attnspec.numerics.grades import BF16, FP32, Grade
from attnspec.numerics.numbers import Number
from attnspec.numerics.truths import Truth

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinities are as in a run

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


class World(Values):
    """The names above, one word of each convention, and a record of what is called."""

    def __init__(self, grade: Grade | None = None) -> None:
        super().__init__(NAMES, "float32")
        self.grade = grade
        self.called: list[Any] = []

    def word(self, convention: str) -> str:
        return {"alignment": "top_left", "empty": "nans"}[convention]

    def output(self, name: str, site: CallSite | None) -> Any:
        self.called.append((name, None if site is None else site(self)))
        return np.array([1.0, 2.0])

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        self.called.append((name, arguments))
        return np.array([0.5])


def evaluated(text: str, grade: Grade | None = None, claim: bool = False) -> Any:
    return Expression(text, SCOPE, claim=claim)(World(grade))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4", 3),
        ("-n ** 2", -9),
        ("7 / 2", 3.5),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("2 ** -1", 0.5),
        ("2 ** 3", 8),
        ("1 / 0", math.inf),
        ("0.5e1", 5.0),
        ("true + true", 2),
        ("x * 2", [2, 4, 6]),
        ("yes + 1", [2, 1, 2]),
        ("-yes", [-1, 0, -1]),
        ("[[1, 2]] @ [[3], [4]]", [[11]]),
        ("m + 10 * x[:2, none]", [[10, 11, 12], [23, 24, 25]]),
        ("[1, 2.5]", [1, 2.5]),
        ("[[1], [-2]]", [[1], [-2]]),
        ("[]", []),
        ("-infinity", -math.inf),
        ("nan == nan", True),
        ("nan != nan", False),
        ("none == none", True),
        ("none == 0", False),
        ("top_left != none", True),
        ("infinity == infinity", True),
        ("n  # a comment", 3),
    ],
)
def test_arithmetic_is_that_of_python_and_numpy(text: str, expected: Any) -> None:
    np.testing.assert_array_equal(expected, evaluated(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 < 2", True),
        ("1 < n <= 3 != 4", True),
        ("1 < n < 3", False),
        ("x >= 2", [False, True, True]),
        ("0 < x < 3", [True, True, False]),
        ("yes and x > 1", [False, False, True]),
        ("yes or x > 1", [True, True, True]),
        ("not yes", [False, True, False]),
        ("not n > 1 or true", True),
        ("true and yes", [True, False, True]),
        ("yes == (x > 1)", [False, False, True]),
        ("implies(x > 1, x > 2)", [True, False, True]),
        ("implies(false, x > 2)", True),
        ("n if n > 2 else x", 3),
        ("x if false else n if true else 0", 3),
    ],
)
def test_truths_combine_entry_by_entry(text: str, expected: Any) -> None:
    np.testing.assert_array_equal(expected, evaluated(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x[0]", 1),
        ("x[-1]", 3),
        ("x[1:]", [2, 3]),
        ("x[::-1]", [3, 2, 1]),
        ("x[:n - 1]", [1, 2]),
        ("m[:, 1]", [1, 4]),
        ("m[..., none, 0]", [[0], [3]]),
        ("x[yes]", [1, 3]),
        ("m[m > 3]", [4, 5]),
        ("x[[2, 0]]", [3, 1]),
        ("m[[0, 1], [1, 2]]", [1, 5]),
        ("x[none]", [[1, 2, 3]]),
        ("n[..., :2, none]", 3),
        ("true[:, 0]", True),
    ],
)
def test_indices_are_those_of_numpy_and_a_single_value_is_constant_along_every_axis(text: str, expected: Any) -> None:
    np.testing.assert_array_equal(expected, evaluated(text))


@pytest.mark.parametrize(
    ("decided", "undecided", "result"),
    [
        ("n < 2 and 1 // 0 == 1", "n > 2 and 1 // 0 == 1", False),
        ("n > 2 or 1 // 0 == 1", "n < 2 or 1 // 0 == 1", True),
        ("implies(n < 2, 1 // 0 == 1)", "implies(n > 2, 1 // 0 == 1)", True),
        ("true if n > 2 else 1 // 0", "true if n < 2 else 1 // 0", True),
    ],
)
def test_what_is_decided_leaves_the_rest_unevaluated(decided: str, undecided: str, result: bool) -> None:
    assert result == evaluated(decided)
    with pytest.raises(SpecError, match="division by zero"):
        evaluated(undecided)


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_what_they_are_called(name: str) -> None:
    expected = {"true": True, "false": False, "none": None, "infinity": math.inf, "nan": math.nan, "pi": math.pi}
    assert repr(expected[name]) == repr(evaluated(name))


def test_an_undecided_truth_stays_undecided() -> None:
    claim = evaluated("near == x and 1 < 2")
    assert isinstance(claim, Truth)
    assert ([True] * 3, [False] * 3) == (claim.can.tolist(), claim.must.tolist())
    assert [False] * 3 == evaluated("near > x + 1 or near < 0").can.tolist()
    assert [True] * 3 == evaluated("implies(near == 9, near == 9)").must.tolist()


@pytest.mark.parametrize(
    "text",
    ["n / 7", "exp(0.5)", "exp(x = 0.5)", "mean(x, -1)", "mean(x, -1, false)", "mean(x, keep = false)", "x * 0.3"],
)
def test_under_a_grade_what_is_reckoned_in_fractions_is_rounded(text: str) -> None:
    plain, graded = evaluated(text), evaluated(text, FP32)
    np.testing.assert_allclose(plain, graded.value)
    assert np.shape(plain) == graded.shape
    assert np.all(graded.worst > 0)


@pytest.mark.parametrize("text", ["n * 2 + 1", "n // 2", "n ** 2", "sum(m)", "cumsum(yes)", "size(x)"])
def test_under_a_grade_whole_numbers_are_exact(text: str) -> None:
    assert not isinstance(evaluated(text, BF16), Number)


def test_nothing_is_known_of_the_unspecified() -> None:
    assert math.isnan(evaluated("unspecified"))
    claim = evaluated("unspecified == 1", FP32)
    assert (True, False) == (bool(claim.can), bool(claim.must))


# Words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("top_left", True),
        ("bottom_right", False),
        ("not bottom_right", True),
        ("top_left and n > 2", True),
        ("zeros or bottom_right", False),
        ("1 if top_left else 2", 1),
        ("implies(top_left, bottom_right)", False),
        ("implies(true, top_left)", True),
    ],
)
def test_a_bare_word_is_a_truth_where_a_truth_is_asked_for(text: str, expected: Any) -> None:
    assert expected == evaluated(text, claim=True)


def test_a_bare_word_is_itself_elsewhere() -> None:
    assert "bottom_right" == evaluated("bottom_right")
    assert (True, False) == (evaluated("zeros == zeros"), evaluated("zeros == top_left"))


# Scopes and calls


def test_an_expression_knows_what_it_reads_and_asks() -> None:
    assert frozenset({"n", "x"}) == Expression("n * sum(x[:n])", SCOPE).uses
    assert frozenset({"out", "x"}) == Expression("out(k = x)", SCOPE).uses
    assert [True, True, False] == [Expression(text, SCOPE).asks for text in ("out", "lse(k = 2)", "x")]
    assert frozenset({"softmax"}) == Expression("softmax(x)", SCOPE).calls
    assert "Expression('n + 1')" == repr(Expression("n + 1", SCOPE))


def test_a_scope_can_have_further_names() -> None:
    assert frozenset({"y"}) == Expression("y + 1", SCOPE.having("y")).uses
    assert frozenset({"out"}) == Expression("out(k = 1)", SCOPE.having("y")).uses


# Assignments


def test_assignments_are_names_with_expressions_and_places() -> None:
    found = assignments("k = x[:, 0], q_len = (1 + 2), s = f(a, b = 1)", Place("some.yaml", 3, 10))
    assert {"k": "x[:, 0]", "q_len": "1 + 2", "s": "f(a, b = 1)"} == {name: text for name, (text, _) in found.items()}
    assert [14, 32, 44] == [place.column for _, place in found.values() if place]
    assert {} == assignments("")
