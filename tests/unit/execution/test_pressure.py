"""A call that is made again beside other threads."""

from __future__ import annotations

import itertools
import threading

import numpy as np

from attnspec.execution.pressure import THREADS, pressed


def entries(result):
    return None if result is None else {"out": np.asarray(result, float)}


def turns(*results):
    """What comes of calls that give these results, one after the other."""
    each = iter(results)
    return pressed(len(results) - 1, lambda: next(each), lambda: None, entries)


def test_what_is_always_the_same_is_steady():
    found = turns([1, 2], [1, 2], [1, 2])
    assert ("", [1, 2]) == (found.says, found.result)


def test_the_turn_that_differs_most_is_kept_and_all_are_counted():
    found = turns([1, 2, np.nan], [1, 5, np.nan], [3, 2, np.nan], [1, 2, np.nan])
    assert [1, 5, np.nan] == found.result
    assert f"others in 2 of 3 turns beside {THREADS} threads: 2 of 3 entries of 'out'" == found.says


def test_what_is_no_number_differs_most():
    assert [np.nan, 2] == turns([1, 2], [100, 2], [np.nan, 2]).result


def test_a_fault_ends_the_turns():
    assert "no result in turn 2 of 3" == turns([1], [1], None, [1]).says


def test_other_threads_make_other_calls_meanwhile_and_end_with_them():
    numbers, called, waits = itertools.count(), threading.Event(), iter([0, 10])

    def beside():
        next(numbers)
        called.set()
        raise ValueError("of no account")

    before = threading.active_count()
    pressed(1, lambda: [called.wait(next(waits))], beside, entries)  # nobody calls beside the first one
    assert next(numbers) > 0
    assert before == threading.active_count()
