"""Which channels are turned with which, and by which position, is found by probing, and put into words."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.diagnosis.maps import mapped
from attnspec.diagnosis.turns import pairs_told, positions_told, turns
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)


def kernel(*, paired=lambda interleaved: interleaved, position=lambda p: p, sign=1):
    """Rotary positions in NumPy with other pairs, other positions, or another direction."""

    def rotary(x, positions, *, base=10000.0, interleaved=False):
        n = x.shape[-1]
        angle = sign * position(positions)[:, None] * base ** (-2 * np.arange(n // 2) / n)
        cos, sin = np.cos(angle), np.sin(angle)
        halves = slice(0, n // 2), slice(n // 2, n)
        pairs = slice(0, n, 2), slice(1, n, 2)
        first, second = pairs if paired(interleaved) else halves
        out = np.empty(x.shape)
        out[..., first] = x[..., first] * cos - x[..., second] * sin
        out[..., second] = x[..., second] * cos + x[..., first] * sin
        return out.astype(x.dtype)

    return rotary


def told(function):
    one = subject(Adapter("kernel", "rotary", function, "numpy", conventions={"pair_place": "kept"}))
    result = run(Request(one, library()["rotary"], "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = next((cell.failure for cell in result.cells if cell.bad), None)
    return failure and mapped(result.bench, failure, 0).words


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, None),
        (
            {"paired": lambda _: False},
            "channel 0 is turned with channel 4, and not with channel 1, and 7 more of 8 channels otherwise",
        ),
        ({"position": lambda p: p + 1}, "every row is turned as one position later"),
        ({"position": lambda p: np.arange(len(p))}, "every row is turned by its place, and not by its position"),
        ({"position": lambda p: 0 * p + p[:1]}, "every row is turned as the first"),
        (
            {"position": lambda p: p[:1] + np.arange(len(p))},
            "every row is turned by its place, counted from the first position",
        ),
        ({"position": abs}, "row 0, of position -4, is turned as position 4"),
        ({"sign": -1}, "every row is turned the other way"),
    ],
)
def test_pairs_and_positions_of_a_kernel_are_told(more, words):
    assert words == told(kernel(**more))


def square(*places):
    found = np.eye(4, dtype=bool)
    for row, column in places:
        found[row, column] = found[column, row] = True
    return found[None]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (square((0, 2), (1, 3)), ""),
        (square((1, 3)), "channel 0 is not turned, and should be with channel 2, and 1 more of 4 channels otherwise"),
        (
            square((0, 2), (1, 3), (0, 1)),
            "channel 0 is turned with channel 1, and should not be, and 1 more of 4 channels otherwise",
        ),
        (square((0, 2), (1, 3)) & (np.arange(4) != 3), "channel 3 is lost"),
    ],
)
def test_pairs_in_words(found, words):
    assert words == pairs_told(found, square((0, 2), (1, 3)))


def test_of_a_row_that_is_turned_by_no_position_nothing_is_told():
    exact = np.arange(5.0)[:, None, None] * np.ones((5, 4, 4))
    positions, radius = np.arange(3), np.full((3, 4, 4), 0.1)
    assert "" == positions_told(exact[:3] + 0.5, radius, exact, positions, np.arange(5))


def test_what_has_no_position_for_each_row_is_left_alone():
    assert [True, False, False] == [turns(library()[name]) for name in ("rotary", "mrope", "softmax")]
