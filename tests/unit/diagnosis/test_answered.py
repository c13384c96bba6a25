"""Which calls a diagnosis looks at."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.answered import observed, raising, scenarios
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import FP32
from attnspec.subjects.targets import subject

SOFTMAX = library()["softmax"]


def without_rows(x):
    if x.shape[0] == 0 or x.shape[1] == 1:
        raise ValueError("no")
    terms = np.exp2(x - np.max(x, -1, keepdims=True, initial=-1e30))
    return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)


def raises(x):
    raise ValueError("no")


def failed(function):
    one = subject(Adapter("function", "softmax", function, "numpy"))
    result = run(Request(one, SOFTMAX, "float32", PROFILES["quick"], laws=frozenset({"definition"})))
    return result.bench, next(cell.failure for cell in result.cells if cell.bad)


def test_calls_are_the_failing_one_and_the_scenarios_that_are_answered_the_smallest_first():
    bench, failure = failed(without_rows)
    first, *others = observed(bench, failure, 0)
    assert first.trial.sample in (failure.sample, failure.found)
    known = [o for o in scenarios(bench, (failure.sample, failure.found), FP32, 0) if o.mechanism is SOFTMAX]
    assert known
    assert sorted(o.entries for o in known) == [o.entries for o in known]
    assert not any(o.raises() for o in [first, *others])


@pytest.mark.parametrize(("function", "expected"), [(without_rows, False), (raises, True)])
def test_errors_are_looked_at_where_the_subject_raises_them_more_often_than_not(function, expected):
    bench, failure = failed(function)
    assert expected is bool([*raising(bench, failure, FP32)])
