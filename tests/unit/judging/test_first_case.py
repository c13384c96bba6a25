"""The first case of a plain function, at sizes that are set."""

import pytest
import torch

from attnspec.judging.first_case import FirstCase
from attnspec.subjects.targets import subject, undecorated


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
