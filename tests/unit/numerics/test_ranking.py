"""What depends on the order of entries is in doubt where rounding may exchange two of them."""

import numpy as np
import pytest

from attnspec.numerics import ranking
from attnspec.numerics.numbers import Number, value


def test_the_largest_are_in_doubt_where_rounding_may_exchange_them() -> None:
    x = np.array([5.0, 1.0, 3.0, 3.05, 2.0])
    assert [True, False, False, True, False] == ranking.largest(x, 2).tolist()
    chosen = ranking.largest(Number.within(x, np.asarray(0.1)), 2)
    assert [True, False, True, True, False] == chosen.can.tolist()
    assert [True, False, False, False, False] == chosen.must.tolist()
    assert [True, False] == ranking.largest(np.array([1.0, 1.0]), 1).tolist()


@pytest.mark.parametrize("radius", [np.nan, np.inf])
def test_nothing_is_among_the_largest_for_certain_where_the_bound_says_nothing(radius: float) -> None:
    chosen = ranking.largest(Number.within(np.array([5.0, 1.0]), np.full(2, radius)), 1)
    assert ([True, True], [False, False]) == (chosen.can.tolist(), chosen.must.tolist())


@pytest.mark.parametrize(
    ("radius", "unsure"), [(0.01, [0, 0, 0, 0]), (0.1, [0, 1, 1, 0]), (np.nan, [1, 1, 1, 1]), (np.inf, [1, 1, 1, 1])]
)
def test_an_order_is_in_doubt_where_rounding_may_exchange_two(radius: float, unsure: list[int]) -> None:
    order = ranking.order(Number.within(np.array([[1.0, 3.0, 3.05, 5.0]]), np.full((1, 4), radius)))
    assert [[3, 2, 1, 0]] == np.asarray(value(order)).tolist()
    assert [[np.inf if doubt else 0.0 for doubt in unsure]] == np.broadcast_to(
        getattr(order, "radius", 0.0), (1, 4)
    ).tolist()


def test_nothing_is_known_of_an_entry_whose_index_is_in_doubt() -> None:
    rows = ranking.taken(np.eye(3), Number.within(np.array([2.0, 0.0]), np.array([0.0, np.inf])), 0)
    assert [[0, 0, 1], [1, 0, 0]] == rows.value.tolist()
    assert [[0.0] * 3, [np.inf] * 3] == np.broadcast_to(rows.radius, (2, 3)).tolist()


def test_what_stands_above_is_in_doubt_by_what_may_be_exchanged() -> None:
    x = np.array([1.0, 4.0, 2.0, 2.05])
    np.testing.assert_allclose([8.05, 0.0, 6.05, 4.0], ranking.above(x))
    bounded = ranking.above(Number.within(x, np.asarray(0.1)))
    np.testing.assert_allclose([8.05, 0.0, 6.05, 4.0], bounded.value)
    assert bounded.worst[3] > 2
    assert bounded.worst[2] > 2
    assert bounded.worst[0] < 0.4
