"""Where an error of an expression points, and what may be asked for its truth."""

import pytest

from attnspec.errors import SpecError
from attnspec.language.expressions import Expression

from .test_refusals import SCOPE, refused


@pytest.mark.parametrize("text", ["near", "none", "(zeros if true else top_left)"])
def test_a_claim_that_is_no_truth_is_refused(text: str) -> None:
    assert "is not a boolean" in refused(text, claim=True)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("n + unknown", 14, "unknown name 'unknown'"),
        ("n + lsee", 14, "unknown name 'lsee'; did you mean 'lse'?"),
        ("n == bottom_rigth", 15, "unknown name 'bottom_rigth'; did you mean 'bottom_right'?"),
        ("n + exp", 14, "unknown name 'exp'; it is a function"),
        ("1 + sgimoid(n)", 14, "unknown function 'sgimoid'; did you mean 'sigmoid'?"),
        ("out(w = 1)", 18, "out has no input or option 'w'"),
        ("out(scal = 1)", 21, "out has no input or option 'scal'; did you mean 'scale'?"),
        ("softmax(bas = 1)", 24, "softmax has no input or option 'bas'; did you mean 'base'?"),
        ("n * (x + m[:, :2])", 15, "shapes (3,) and (2, 2) do not fit"),
        ("n + $", 14, "not an expression"),
        ("(n if n", 10, "not an expression"),
        ("n +", 13, "not an expression"),
        ("1 + reshape(x, 7)", 14, "ValueError: cannot reshape array of size 3 into shape (7,)"),
    ],
)
def test_an_error_points_at_its_place(text: str, column: int, message: str) -> None:
    first, *shown = refused(text).split("\n")
    assert first.startswith(f"spec/some.yaml:12:{column}: {message}")
    assert [f"    {text}", f"    {' ' * (column - 10)}^"] == shown


def test_a_letter_beyond_ascii_is_pointed_at() -> None:
    assert refused("n + \u00e4").startswith("spec/some.yaml:12:14: only plain ASCII")


def test_an_error_of_no_known_place_shows_its_text() -> None:
    with pytest.raises(SpecError, match=r"^unknown name 'y'\n    x \+ y\n        \^$"):
        Expression("x + y", SCOPE)
