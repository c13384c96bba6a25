"""Places that are wrong are put into words, where they form a pattern."""

import numpy as np
import pytest

from attnspec.diagnosis.patterns import in_words, noun_of

ROW, COLUMN = np.arange(6)[:, None], np.arange(9)
CAUSAL = ROW >= COLUMN
PLANE = ("query", "key")


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ([], ""),
        (range(9), "everywhere"),
        ([0], "the first key"),
        ([8], "the last key"),
        ([5], "key 5"),
        (range(1, 9), "every key but the first"),
        (range(8), "every key but the last"),
        (range(4), "the first 4 of 9 keys"),
        (range(4, 9), "keys from 4 on"),
        ([4, 5, 6], "keys 4 to 6"),
        ([0, 2, 4, 6, 8], "every second key"),
        ([0, 5], "keys at multiples of 5"),
        ([1, 4, 7], "every third key from 1 on"),
        ([1, 2, 7], "keys 1, 2 and 7"),
        ([0, 1, 4, 7], ""),
    ],
)
def test_indices_of_one_axis(chosen, words):
    wrong = np.isin(np.arange(9), list(chosen))
    assert words == in_words(wrong, ["key"])
    assert words == in_words(np.broadcast_to(wrong, (3, 6, 9)), ["item", *PLANE])


def test_indices_of_several_axes():
    wrong = np.zeros((2, 4, 6), bool)
    wrong[:, 1, 4:] = True
    assert "positions from 4 on of head 1" == in_words(wrong, ["item", "head", "position"])


@pytest.mark.parametrize(
    ("noun", "start", "stop", "words"),
    [
        ("channel", 0, 4, "the first half of the channels"),
        ("channel", 4, 8, "the second half of the channels"),
        ("channel", 3, 7, "channels 3 to 6"),
        ("key", 4, 8, "keys from 4 on"),
    ],
)
def test_channels_have_halves(noun, start, stop, words):
    assert words == in_words((np.arange(8) >= start) & (np.arange(8) < stop), [noun])


@pytest.mark.parametrize(
    ("plane", "words"),
    [
        (COLUMN == ROW, "key = query"),
        (COLUMN == ROW + 2, "key = query + 2"),
        (COLUMN == ROW - 1, "key = query - 1"),
        (COLUMN > ROW, "key >= query + 1"),
        (COLUMN <= ROW - 2, "key <= query - 2"),
        (abs(COLUMN - ROW) <= 1, "query - 1 <= key <= query + 1"),
        (COLUMN // 4 == ROW // 4, "tiles of 4 by 4"),
        (COLUMN // 2 != ROW // 2, "outside tiles of 2 by 2"),
        ((COLUMN * 7 + ROW * 5) % 11 < 3, ""),
    ],
)
def test_patterns_of_a_plane(plane, words):
    assert words == in_words(plane, PLANE)
    assert words == in_words(np.stack([plane, plane]), ["head", *PLANE])


def test_a_plane_of_some_heads():
    plane = COLUMN == ROW + 2
    heads = np.asarray([True, False, False])[:, None, None]
    assert "key = query + 2, in the first head" == in_words(plane & heads, ["head", *PLANE])


@pytest.mark.parametrize(
    ("plane", "words"),
    [
        (COLUMN == ROW + 1, "the key after the last one visible to a query (key = query + 1)"),
        (COLUMN == ROW, "the last key visible to a query (key = query)"),
        (COLUMN > ROW, "every hidden key (key >= query + 1)"),
        (CAUSAL, "every visible key (key <= query)"),
        (COLUMN == 0 * ROW, "the first key visible to a query (the first key)"),
        (COLUMN == ROW + 3, "key = query + 3"),
        (np.ones((6, 9), bool), "everywhere"),
    ],
)
def test_patterns_relative_to_what_may_be_seen(plane, words):
    assert words == in_words(plane, PLANE, CAUSAL)


def test_the_key_before_a_window():
    window = CAUSAL & (ROW - COLUMN <= 2)
    words = "the key before the first one visible to a query (key = query - 3)"
    assert words == in_words(COLUMN == ROW - 3, PLANE, window)


def test_planes_that_differ_have_no_common_pattern():
    planes = np.stack([COLUMN == ROW + 1, COLUMN == ROW + 2])
    assert "" == in_words(planes, ["head", *PLANE])


@pytest.mark.parametrize(
    ("axis", "noun"),
    [
        ("channels", "channel"),
        ("max_pages", "page"),
        ("queries", "query"),
        ("q_len", "query"),
        ("width", "width"),
        (None, "entry"),
    ],
)
def test_one_index_is_called_like_one_of_what_its_size_counts(axis, noun):
    assert noun == noun_of(axis)
