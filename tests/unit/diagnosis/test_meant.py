"""What may be meant by a subject that is wrong."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.answered import observed
from attnspec.diagnosis.meant import fixed_option
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject


def turned(x, positions, *, interleaved):
    angles = positions[:, None] * 10000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
    pairs = (a * cos - b * sin, a * sin + b * cos)
    return np.stack(pairs, -1).reshape(x.shape) if interleaved else np.concatenate(pairs, -1)


def neighbours(x, positions):
    return turned(x, positions, interleaved=True)


def neighbours_that_ignore_it(x, positions, interleaved=False):
    return turned(x, positions, interleaved=True)


def neighbours_but_for_one_token(x, positions):
    return turned(x, positions, interleaved=x.shape[-2] > 1)


def other_base(x, positions):
    return turned(x, positions * 2.0, interleaved=False)


def summed(logits, targets):
    kept = targets != -100
    losses = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    losses = losses - np.take_along_axis(logits, np.where(kept, targets, 0)[:, None], -1)[:, 0]
    return np.where(kept, losses, 0.0).sum()


def unscaled(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2)
    terms = np.exp(scores - scores.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True) @ v


def causal_from(end, until=None):
    """Attention whose first query sees the first key alone, or whose last query sees all; in short calls alone."""

    def causal(q, k, v):
        k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
        scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        seen = np.tri(*scores.shape[-2:], (k.shape[2] - q.shape[2]) * end, bool)
        if until is None or k.shape[2] <= until:
            scores = np.where(seen, scores, -np.inf)
        with np.errstate(invalid="ignore"):
            terms = np.exp(scores - scores.max(-1, keepdims=True))
            return terms / terms.sum(-1, keepdims=True) @ v

    return causal


@pytest.mark.parametrize(
    ("operator", "function", "expected"),
    [
        ("attention", causal_from(end=0), ("causal", True)),
        ("attention", causal_from(end=1), ("causal", True)),
        ("attention", causal_from(end=0, until=9), None),
        ("rotary", neighbours, ("interleaved", True)),
        ("cross_entropy", summed, ("reduction", "summed")),
        ("attention", unscaled, ("scale", 1.0)),
        ("rotary", neighbours_that_ignore_it, None),
        ("rotary", neighbours_but_for_one_token, None),
        ("rotary", other_base, None),
    ],
)
def test_an_option_that_a_subject_does_not_take_may_have_one_value_in_every_call(operator, function, expected):
    one = subject(Adapter(function.__name__, operator, function, "numpy", dtypes=("float64",)))
    result = run(Request(one, library()[operator], "float64", PROFILES["quick"], laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    assert expected == fixed_option(result.bench, observed(result.bench, failure, 0))
