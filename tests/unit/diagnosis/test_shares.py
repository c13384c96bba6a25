"""Which query heads have a share in the gradient of a key is found by probing, and put into words."""

import numpy as np
import pytest

from attnspec.cases.profiles import Profile
from attnspec.diagnosis.maps import mapped
from attnspec.diagnosis.shares import told
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import mistake

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)
OWN = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], bool)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("first_of_group", "d_k has the share of the first query head of each group alone"),
        ("mean_of_group", "d_k has the mean of the shares of its group, and not their sum"),
        ("group_by_the_other_map", "d_k has the shares of every so many query heads, and not of consecutive ones"),
    ],
)
def test_the_shares_of_query_heads_are_told(address, words):
    one = mistake(f"attention_gradient.{address}")
    laws = frozenset({"definition"})
    result = run(Request(one, library()["attention_gradient"], "float32", SCENARIOS, laws=laws))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    assert words == mapped(result.bench, failure, 0).words


@pytest.mark.parametrize(
    ("reached", "words"),
    [
        (OWN, ""),
        (OWN & False, "the share of no query head"),
        (OWN | True, "the shares of all query heads, and not of its group alone"),
        (OWN & (np.arange(6) % 3 < 2), "the share of every query head but the last of each group alone"),
        (OWN & (np.arange(6) != 4), "no share of query head 4"),
        (~OWN, "shares of query heads that are not of its group"),
    ],
)
def test_shares_in_words(reached, words):
    assert words == told(reached, OWN)
