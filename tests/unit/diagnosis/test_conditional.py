"""A known mistake, or an edit of the definition, is named with the condition under which it is made."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.likeness import Likeness
from attnspec.diagnosis.naming import diagnose
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

pytestmark = pytest.mark.usefixtures("steady")


def norm(change, where):
    """Root mean square normalisation whose mean square is another one where a condition holds."""

    def rms_norm(x, weight, *, eps=1e-5):
        square = np.mean(x * x, -1, keepdims=True)
        return x / np.sqrt((change(x) if where(x, eps) else square) + np.float32(eps)) * weight

    return subject(Adapter("norm", "rms_norm", rms_norm, "numpy"))


def found(one):
    laws = frozenset({"definition"})
    result = run(Request(one, library()["rms_norm"], "float32", PROFILES["quick"], laws=laws))
    return diagnose(result.bench, next(cell.failure for cell in result.cells if cell.bad), 0)


def variance(x):
    return x.var(-1, keepdims=True)


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (lambda x, eps: x.shape[-1] >= 17, "rms_norm.variance_for_square where n >= 17"),
        (lambda x, eps: x.ndim == 1 or x.shape[-2] == 1, "rms_norm.variance_for_square where rows = 1"),
        (lambda x, eps: eps != 1e-5, "rms_norm.variance_for_square where eps is given"),
        (lambda x, eps: x.shape[-1] >= 3, "rms_norm.variance_for_square where n >= 3"),
        (lambda x, eps: x.shape[-1] % 2 == 0, "rms_norm.variance_for_square where n is even"),
        (lambda x, eps: x.ndim > 1 and x.shape[-2] >= 3, "rms_norm.variance_for_square where rows >= 3"),
    ],
)
def test_a_known_mistake_is_named_with_its_condition(where, name):
    assert name == found(norm(variance, where)).name


def test_an_edit_is_told_with_its_condition():
    likeness = found(norm(lambda x: np.min(x * x, -1, keepdims=True), lambda x, eps: x.shape[-1] >= 17))
    assert likeness.changed
    assert likeness.causes[0].says.endswith("where n >= 17")


def test_what_depends_on_entries_gets_no_condition():
    likeness = found(norm(variance, lambda x, eps: bool(x.ravel()[0] > 0)))
    assert not isinstance(likeness, Likeness)
