"""Large arrays that are made of a key, in whole or in part."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.numerics.drawn import CHUNK, Drawn, pool_places

DRAWN = Drawn("key", (2, 3, 50, 8))


def test_a_part_is_that_part_of_the_whole():
    whole = DRAWN.whole().astype(float)
    assert np.array_equal(whole, DRAWN.part({}))
    assert np.array_equal(whole[1:][:, [0, 2]][:, :, [3, 4, 49]], DRAWN.part({0: [1], 1: [0, 2], 2: [3, 4, 49]}))
    assert np.array_equal(whole[..., [7, 2]], DRAWN.part({3: [7, 2]}))


def test_a_stretch_begins_anywhere():
    entries = Drawn("other", (CHUNK + 9,)).whole()
    assert np.array_equal(entries[CHUNK - 3 :], Drawn("other", (CHUNK + 9,)).entries(CHUNK - 3, CHUNK + 9))


def test_entries_are_the_same_on_every_machine():
    assert [-1.69354248046875, -0.7066650390625, 0.897125244140625] == Drawn("key", (9,)).entries(0, 3).tolist()


def test_entries_are_nearly_normal_and_exact_in_single_precision():
    entries = Drawn("many", (1 << 16,)).whole()
    assert abs(float(entries.mean())) < 0.02
    assert abs(float(entries.var()) - 4 / 3) < 0.02
    assert np.array_equal(entries * 2**15, np.rint(entries * 2**15))


def test_axes_lie_in_another_order_for_who_is_handed_the_whole():
    moved = Drawn("key", (2, 3, 50, 8), (0, 2, 1, 3), (2, 50, 24))
    assert np.array_equal(DRAWN.whole().transpose(0, 2, 1, 3).reshape(2, 50, 24), moved.whole())


def test_without_a_key_nothing_is_written():
    assert np.isnan(Drawn("", (3, 2)).whole()).all()


def test_a_large_array_is_not_computed_with():
    assert DRAWN == DRAWN * 1
    with pytest.raises(TypeError, match="drawn as it is"):
        _ = DRAWN * 2


def test_places_of_a_pool_are_far_apart_and_the_last_is_its_last():
    assert [33, 66, 99] == pool_places(3, 100).tolist()
    assert [0, 1, 2] == pool_places(3, 3).tolist()
