"""What depends on the order of entries is in doubt where rounding may exchange two of them."""

from typing import Any

import numpy as np
import pytest

from attnspec.numerics import ranking
from attnspec.numerics.numbers import Number, value
from attnspec.numerics.streams import Stream


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


def ahead_by_pairs(w: Any, x: Any, then: Any = None) -> Any:
    """The same by a square of all pairs."""
    before = x[..., None, :] > x[..., None]
    if then is not None:
        before |= (x[..., None, :] == x[..., None]) & (then[None] > then[:, None])
    return np.where(before, w[..., None, :], 0).sum(-1)


def drawn(seed: int) -> tuple[Any, Any]:
    """Keys of which many are equal and some are minus infinity, and what is added up."""
    stream = Stream("ahead", seed)
    x = np.rint(2 * stream.normal((3, 9))) / 2
    return np.where(stream.uniform((3, 9)) < 0.2, -np.inf, x), stream.uniform((3, 9))


@pytest.mark.parametrize("seed", range(8))
def test_what_comes_ahead_is_added_up_without_a_square(seed: int) -> None:
    x, w = drawn(seed)
    index = np.arange(9)
    for then in (None, index, -index):
        np.testing.assert_allclose(ahead_by_pairs(w, x, then), ranking.ahead(w, x, then), atol=1e-12)
    assert np.array_equal(ahead_by_pairs(np.ones_like(x), x), ranking.ahead(1, x))
    number = Number(w, np.full(w.shape, 0.01), np.full(w.shape, 1e-6), np.full(w.shape, 1e-3))
    found = ranking.ahead(number, x)
    for part, bound in ((number.worst, found.worst), (number.variance, found.variance), (number.shared, found.shared)):
        np.testing.assert_allclose(ahead_by_pairs(part, x), bound, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_what_rounding_may_exchange_counts_as_an_error(seed: int) -> None:
    x, w = drawn(seed)
    radius = np.where(np.isfinite(x) & (w < 0.6), w, 0.0)
    low, high = x - radius, x + radius
    meets = (low[:, None] <= high[..., None]) & (high[:, None] >= low[..., None]) & ~np.eye(9, dtype=bool)
    doubt = (meets & ((radius[:, None] > 0) | (radius[..., None] > 0))) * w[:, None]
    np.testing.assert_allclose(doubt.sum(-1), ranking.ahead(w, Number.within(x, radius)).radius, atol=1e-12)


def test_entries_that_are_alike_are_equal_whatever_rounding_does() -> None:
    x = Number.within(np.array([2.0, 1.0, 2.0, 5.0]), np.full(4, 0.1))
    assert [1.0, 0.0, 1.0, 0.0] == ranking.ahead(1, x).radius.tolist()
    assert [1, 3, 1, 0] == ranking.ahead(1, x, alike=np.array([7, 3, 7, 9])).tolist()


def test_nothing_comes_ahead_of_what_is_no_number_and_it_of_nothing() -> None:
    assert [1, 0, 0, 2] == ranking.ahead(1, np.array([2.0, np.nan, 3.0, 1.0])).tolist()
