"""The values that a size may have: lists, ranges and multiples."""

import numpy as np
import pytest

from attnspec.execution.limits import Multiples, allows, nearest, settled


@pytest.mark.parametrize(
    "limit", [range(1, 9), range(3, 40, 4), range(40, 3, -4), range(7, 8), range(-8, 8, 5), range(20, 0, -1)]
)
def test_a_range_has_and_is_nearest_to_what_its_list_is(limit):
    listed = list(limit)
    for n in range(-20, 60):
        assert (n in listed) == allows(limit, n)
        assert min(listed, key=lambda other: (abs(other - n), other)) == nearest(limit, n) == nearest(listed, n)


@pytest.mark.parametrize(("x", "has"), [(4.0, True), (4.5, False), (np.int64(4), True), (None, False), ("4", False)])
def test_a_long_range_has_whole_numbers_alone(x, has):
    assert has == allows(range(1, 2**62), x)
    assert False is allows(range(1, 2**62), float("inf"))


def test_short_ranges_and_their_lists_are_one_key():
    assert settled(range(1, 4)) == settled([1, 2, 3])
    assert range(1, 10**12) == settled(range(1, 10**12))


def test_small_sizes_come_to_several_chunks_and_large_ones_to_the_nearest():
    chunks = Multiples(64)
    assert [64, 64, 64, 128, 128, 192, 192, 192] == [nearest(chunks, n) for n in (0, 1, 2, 3, 6, 7, 17, 65)]
    assert [16, 32, 48, 64, 4096] == [nearest(Multiples(16), n) for n in (1, 5, 33, 65, 4100)]
    for chunk in (2, 16, 64):
        near = [nearest(Multiples(chunk), n) for n in range(600)]
        assert near == sorted(near)
        assert all(allows(Multiples(chunk), n) for n in near)
        assert all(abs(x - n) <= max(chunk / 2, 3 * chunk - n) for n, x in enumerate(near))


def test_multiples_are_not_gone_through():
    chunks = Multiples(64)
    assert (False, True, True, False) == tuple(allows(chunks, n) for n in (0, 64, 128.0, 100))
    assert chunks == settled(chunks) != settled(Multiples(32))
    assert (64, "multiples of 64") == (next(iter(chunks)), str(chunks))
    assert len(chunks) == len([*chunks])
