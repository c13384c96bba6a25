"""How answers to the first cases of an operator fit its definition."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.judging.fits import CASES, fits_of, giving, share_of_right
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

NORM = library()["rms_norm"]


def right(x, weight, eps=1e-5):
    with np.errstate(all="ignore"):
        return (x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * weight).astype(x.dtype)


def doubled(x, weight, eps=1e-5):
    return 2 * right(x, weight, eps)


def wrong_in_one_case(x, weight):
    wrong_in_one_case.calls += 1
    return right(x, weight) * (2 if wrong_in_one_case.calls == 1 else 1)


def of_another_shape(x, weight):
    return right(x, weight)[..., None]


def refusing(x, weight, eps=1e-5):
    raise ValueError("never")


def norm(function):
    return subject(Adapter("norm", "rms_norm", function, "numpy", dtypes=("float64",)))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (right, ["right"] * CASES),
        (doubled, ["shaped"] * CASES),
        (wrong_in_one_case, ["shaped"] + ["right"] * (CASES - 1)),
        (of_another_shape, ["refused"] * CASES),
        (refusing, ["refused"] * CASES),
    ],
)
def test_answers_are_right_or_have_the_right_shape_or_are_none(function, expected):
    wrong_in_one_case.calls, one = 0, norm(function)
    assert expected == fits_of(one, NORM, giving(one, NORM, "float64", ()), "float64", "cpu")


@pytest.mark.parametrize(("function", "share"), [(right, 1.0), (doubled, 0.0), (refusing, 0.0)])
def test_the_share_of_right_answers_is_of_cases_that_give_what_is_shown(function, share):
    assert share == share_of_right(norm(function), NORM, "float64", "cpu", ("eps",))


def test_cases_give_what_is_to_be_shown():
    one = norm(lambda x, weight, eps=1e-6: x)
    cases = [*giving(one, NORM, "float64", ("eps",))]
    assert len(cases) > CASES
    assert all(case.values["eps"] != NORM.defaults["eps"] for case in cases if case.mechanism is NORM)
