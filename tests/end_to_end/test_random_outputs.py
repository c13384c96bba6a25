"""Outputs that no definition determines: laws alone judge them, on every case, and nothing is accused by chance."""

import math

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.environments import FALSE_ALARM
from attnspec.language.arranging import noise
from attnspec.language.deciding import counts, likely
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import FP64
from attnspec.numerics.numbers import Number
from attnspec.subjects.targets import subject


class Environment:
    false_alarm = FALSE_ALARM


def cells(function, law):
    one = subject(Adapter("function", "dropout", function, "torch"))
    found = run(Request(one, library()["dropout"], "float32", PROFILES["quick"], laws={law})).cells
    return {cell.law: cell for cell in found}


def right(x, *, p, seed, training=True):
    kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) >= p
    return torch.where(kept, x / (1 - p), 0.0) if training else x.clone()


def test_a_call_without_a_result_is_found_where_nothing_is_determined():
    def raises(x, *, p, seed, training=True):
        raise RuntimeError("no kernel")

    found = cells(raises, "definition")["definition"]
    assert ("error", "RuntimeError: no kernel") == (found.verdict, found.says)


def test_a_result_of_another_shape_is_found_where_nothing_is_determined():
    def flat(x, *, p, seed, training=True):
        return right(x, p=p, seed=seed, training=training).reshape(-1)

    assert "error" == cells(flat, "definition")["definition"].verdict


def test_what_is_random_is_not_judged_by_the_definition():
    assert "not_declared" == cells(right, "definition")["definition"].verdict


def test_laws_of_random_outputs_are_tried_on_every_case():
    assert len(library()["dropout"].scenarios) <= cells(right, "rate")["rate"].cases


def test_an_implementation_that_takes_a_seed_must_repeat_itself():
    def unseeded(x, *, p, seed, training=True):
        return torch.nn.functional.dropout(x, p, training).clone()

    found = cells(unseeded, "contract.repeatable")["contract.repeatable"]
    assert ("must", "fail") == (found.level, found.verdict)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_likely_is_false_beyond_the_bound_of_chernoff(share):
    n = 1000
    limit = math.log(4 / FALSE_ALARM)

    def surprise(k):
        q = k / n
        return n * (q * math.log(q / share) + (1 - q) * math.log((1 - q) / (1 - share)))

    first = next(k for k in range(int(share * n) + 1, n) if surprise(k) > limit)
    chances = np.array([1 - share, share])
    assert [True, False] == [
        bool(np.all(likely(Environment(), np.array([n - k, k]), chances))) for k in (first - 1, first)
    ]


def test_likely_takes_the_closest_of_the_chances_within_their_bounds():
    observed, chances = np.array([350, 650]), np.array([0.5, 0.5])
    assert not np.all(likely(Environment(), observed, chances))
    assert np.all(likely(Environment(), observed, Number.within(chances, np.full(2, 0.1), grade=FP64)))


def test_likely_allows_more_where_it_makes_more_comparisons():
    found = [np.all(likely(Environment(), np.tile([360, 640], (n, 1)), np.array([0.5, 0.5]))) for n in (1, 10**4)]
    assert [False, True] == found


def test_counts_say_how_often_each_number_stands():
    np.testing.assert_array_equal([[1, 0, 2], [0, 3, 0]], counts(np.array([[2, 0, 2], [1, 1, 1]]), 3))
    np.testing.assert_array_equal(
        [[1, 1], [1, 1], [1, 1]], counts(np.array([[True, False, True], [False, True, False]]), 2, 0)
    )


def test_noise_takes_the_shape_of_an_array():
    np.testing.assert_array_equal(noise(5, 2, 3), noise(5, np.zeros((2, 3))))
