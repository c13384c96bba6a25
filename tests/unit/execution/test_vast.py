"""Arrays in more memory than they fill."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnspec.execution.vast import NoRoomError, bounded, is_vast, out_of_room, spread, vast
from attnspec.frameworks.known import framework_named
from attnspec.numerics.drawn import Drawn

FRAMEWORKS = ("numpy", "torch")
FAR = 2**31 + 7


def plain(x):
    return np.asarray(x, np.float32)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_last_place_of_an_axis_lies_beyond_31_bits(name):
    drawn = Drawn("some", (1, 3, 5, 4), apart=FAR)
    found = vast(framework_named(name), drawn, "float32", 0)
    strides = [n // 4 for n in found.strides] if name == "numpy" else found.stride()
    assert (1, 3, 5, 4) == tuple(found.shape)
    assert FAR <= 2 * strides[1] < FAR + 2 * 20
    assert np.array_equal(drawn.whole(), plain(found))


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_last_row_of_a_mask_lies_beyond_31_bits(name):
    mask = np.arange(15).reshape(1, 3, 5) % 2 == 0
    found = spread(framework_named(name), framework_named(name).make(mask, "float32", "cpu", "contiguous", 0), FAR)
    strides = found.strides if name == "numpy" else found.stride()
    assert FAR <= 2 * strides[1] < FAR + 2 * 5
    assert (True, "bool") == (np.array_equal(mask, np.asarray(found)), framework_named(name).dtype(found))


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_of_a_pool_some_places_alone_are_filled(name):
    drawn = Drawn("some", (3, 2, 4), axis=0, pool=2**29)
    found = vast(framework_named(name), drawn, "bfloat16" if name == "torch" else "float32", 0)
    assert 2**32 == math.prod(found.shape)
    assert 2**29 - 1 == drawn.places[-1]
    taken = plain(found[drawn.places[-1]].float() if name == "torch" else found[drawn.places[-1]])
    assert np.allclose(drawn.whole()[-1], taken, rtol=1e-2)
    assert not plain(found[5].float() if name == "torch" else found[5]).any()


def test_a_pool_has_its_axis_where_the_layout_has_it():
    drawn = Drawn("some", (3, 2, 4), axis=0, pool=50, order=(1, 0, 2), folded=(2, 3, 4))
    found = vast(framework_named("numpy"), drawn, "float32", 0)
    assert (2, 50, 4) == found.shape
    assert np.array_equal(drawn.whole()[:, 1], found[:, drawn.places[1]])


def test_an_axis_that_is_folded_into_another_one_has_no_pool():
    with pytest.raises(ValueError, match="folded into another one"):
        _ = Drawn("some", (3, 2, 4), axis=0, pool=50, order=(1, 0, 2), folded=(6, 4)).handed_axis


def test_what_no_address_space_holds_is_refused():
    with pytest.raises(NoRoomError, match="cannot be mapped"):
        vast(framework_named("numpy"), Drawn("some", (2, 4), apart=2**61), "float32", 0)


def test_a_call_that_takes_more_than_there_may_be_is_told_so():
    with pytest.raises(MemoryError) as told, bounded(1 << 28):
        np.ones(1 << 27)
    assert out_of_room(f"{type(told.value).__name__}: {told.value}")
    assert 8 * (1 << 24) == np.ones(1 << 24).nbytes


def test_arrays_that_lie_one_after_the_other_are_not_vast():
    assert [False, True, True] == [is_vast(Drawn("a", (4,), **more)) for more in ({}, {"apart": 9}, {"pool": 9})]
