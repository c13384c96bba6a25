"""Options that a function is never without, seen by first calls."""

import numpy as np
import pytest
import torch

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging.own_defaults import own_defaults
from attnspec.subjects.targets import subject, undecorated


def capped(q, k, v, softcap=5.0):
    return attended(q, k, v, softcap)


def capped_where_it_is_asked(q, k, v, softcap=0.0):
    return attended(q, k, v, softcap)


def wrong_on_every_call(q, k, v, softcap=5.0):
    return attended(q, k, v, softcap) + 1


def wrong_and_without(q, k, v, softcap=0.0):
    return attended(q, k, v, softcap) + 1


def attended(q, k, v, cap):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return (cap * torch.tanh(scores / cap) if cap else scores).softmax(-1) @ v


def read(function):
    one = subject(undecorated(function, "attention", "attention", "torch"), declared=False)
    return one, [*own_defaults(one, "cpu")]


@pytest.mark.parametrize("function", [capped, wrong_on_every_call])
def test_a_number_by_default_is_what_a_function_is_never_without(function):
    assert [("softcap", "softcap", 5.0)] == read(function)[1]


@pytest.mark.parametrize("function", [capped_where_it_is_asked, wrong_and_without])
def test_zero_says_that_there_is_none(function):
    assert not read(function)[1]


def test_every_case_has_it_then():
    one, _ = read(capped)
    one.have_always("softcap", 5.0)
    caps = [s.values["softcap"] for s in plan(one.mechanism, one.claims, PROFILES["smoke"], 0, "float32").scenarios]
    assert len(caps) > 10
    assert 5.0 in caps
    assert all(np.isfinite(cap) for cap in caps)
