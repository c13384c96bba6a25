"""The choice of blocks by importance: both witnesses by hand, and kernels that choose wrongly found."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.block_selection import control_blocks_by_threshold, control_blocks_sorted
from attnspec.adapters.faults.block_selection import IN_TILES
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

SELECTION = library()["block_selection"]


def by_definition(importance, **more):
    return np.asarray(Frame(SELECTION, {"importance": importance, **more}).outputs()["chosen"]) > 0


witnesses = pytest.mark.parametrize(
    "witness", [pytest.param(f, id=f.__name__) for f in (reference.block_selection, by_definition)]
)
IMPORTANCE = np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.05, 0.7])[None, None, None]


def numbers(chosen):
    return np.flatnonzero(chosen[0, 0, 0]).tolist()


@witnesses
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"count": 4, "offset": 11}, [0, 1, 4, 5]),
        ({"count": 5, "offset": 10}, [0, 1, 3, 4, 5]),
        ({"count": 2, "offset": 13, "first_blocks": 0, "local_blocks": 0}, [1, 3]),
        ({"count": 3, "offset": 13, "first_blocks": 2, "local_blocks": 0}, [0, 1, 3]),
        ({"count": 4, "offset": 2}, [0, 1]),
    ],
)
def test_first_local_and_important_blocks_are_chosen(witness, asked, expected):
    assert expected == numbers(witness(IMPORTANCE, block_size=2, **asked))


@witnesses
def test_of_equal_importance_as_many_are_chosen_as_are_asked_for(witness):
    assert 5 == len(numbers(witness(np.zeros((1, 1, 1, 9)), count=5, block_size=1, offset=8)))


def test_the_reference_refuses_a_query_behind_the_last_block():
    with pytest.raises(ValueError, match="7 blocks of 2 keys"):
        reference.block_selection(IMPORTANCE, count=3, block_size=2, offset=14)


def failures(function):
    one = subject(Adapter("function", "block_selection", function, "torch"))
    cells = run(Request(one, SELECTION, "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def only_complete(importance, *, count, block_size=2, first_blocks=1, local_blocks=2, offset=0):
    """Chooses of the blocks that are complete, without the query's own."""
    chosen = control_blocks_sorted(
        importance,
        count=count,
        block_size=block_size,
        first_blocks=first_blocks,
        local_blocks=local_blocks,
        offset=offset,
    )
    ends = torch.arange(1, importance.shape[3] + 1) * block_size - 1
    return chosen & (ends <= (torch.arange(importance.shape[2]) + offset)[:, None])


def test_an_own_block_that_is_not_chosen_is_found():
    assert {"local", "determined"} <= failures(only_complete)


RIGHT = [control_blocks_sorted, control_blocks_by_threshold, IN_TILES.right()]


@pytest.mark.parametrize("right", RIGHT, ids=["sorted", "by_threshold", "in_tiles"])
def test_sorting_thresholds_and_tiles_are_right(right):
    assert set() == failures(right)
