"""The first case of a plain function, at sizes that are set."""

import math
from types import SimpleNamespace

import pytest
import torch

from attnspec.judging.first_call import noticed
from attnspec.judging.first_case import FirstCase
from attnspec.subjects.targets import subject, undecorated

MOST = 10_000_000
"""Scores of a small case, in whatever layout it is tried."""


def softmax(x):
    if x.shape[-1] == 3:
        raise ValueError("three")
    x = x.unflatten(-1, (-1, 2))
    return torch.softmax(x.flatten(-2), -1) if x.shape[-2] > 1 else x


@pytest.fixture
def asked():
    return FirstCase(subject(undecorated(softmax, "softmax", "softmax", "torch"), declared=False), "cpu")


def test_a_case_is_answered_refused_or_fails(asked):
    assert asked.takes({"n": 4}, {})
    assert ("ValueError: three", "ValueError: three", None) == (
        asked.refusal({"n": 3}),
        asked.error({"n": 3}),
        asked.failure({"n": 3}),
    )
    assert asked.refusal({"n": 5}) is None
    assert asked.error({"n": 5}) == asked.failure({"n": 5}) != ""
    assert {"unsupported", "raised"} == asked.faulty
    assert "" == asked.error({"n": 4}) == asked.refusal({"n": 4})
    assert asked.failure({"n": 2})  # of another shape
    assert asked.error({"n": 2}) is None
    assert "misshapen" in asked.faulty


def test_a_case_may_begin_at_other_sizes(asked):
    assert asked.begin({"n": 5})
    assert asked.error({})
    assert not asked.begin({"n": "none"})
    assert asked.first is None


def attention(q, k, v, *, causal=False):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones(2 * q.shape[2:3], dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1) @ v


def test_cases_of_pairs_are_laid_out_as_usual_where_no_other_shows_something():
    asked = FirstCase(subject(undecorated(attention, "attention", "attention", "torch"), declared=False), "cpu")
    beyond = "not causal or k_len == q_len or q_len == 1"
    scattered = [case for case in asked.planned.pairs if case.layout != "contiguous"]
    asked.planned = SimpleNamespace(one_by_one=lambda: iter(scattered[:0]), pairs=scattered)
    assert "RuntimeError" in asked.beyond(beyond, ("raised", "misshapen"), wrong=True)


def each(logits, targets):
    """NaN where a target is none, as JAX has it."""
    found = torch.nn.functional.cross_entropy(logits, targets.clamp(min=0), reduction="none")
    return found.where(targets >= 0, torch.nan)


def of_another(logits, targets):
    return torch.nn.functional.cross_entropy(logits, targets.clamp(min=0), reduction="none")


@pytest.mark.parametrize(("function", "says"), [(each, "NaN in the result"), (of_another, "")])
def test_no_number_is_what_is_read_beyond_the_end(function, says):
    one = subject(undecorated(function, "cross_entropy", "cross_entropy", "torch"), declared=False)
    one.take_as("cross_entropy(logits=logits, targets=targets) fixed(reduction=each)")
    asked = FirstCase(one, "cpu")
    assert says == asked.beyond("all(targets != ignore_index)", ("raised",), wrong=True)


def test_first_calls_make_no_array_of_all_pairs_of_items():
    sizes = list[int]()

    def masked_attention(q, k, v, mask=None):
        scores = torch.broadcast_shapes((*q.shape[:-1], 1), (*k.shape[:-2], 1, k.shape[-2]))
        sizes.append(math.prod(scores))
        if mask is not None and (q.ndim != k.ndim or mask.shape != (len(q), 1, *scores[2:]) or sizes[-1] > MOST):
            raise ValueError("a mask is [batch, 1, q_len, k_len]")
        hidden = 0 if mask is None else torch.where(mask, 0.0, -torch.inf)
        return (q @ k.mT * q.shape[-1] ** -0.5 + hidden).softmax(-1) @ v

    noticed(subject(undecorated(masked_attention, "masked_attention", "attention", "torch"), declared=False), "cpu")
    assert max(sizes) < MOST
