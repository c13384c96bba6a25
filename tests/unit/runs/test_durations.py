"""Parts end together, by what groups have taken before."""

import pytest

from attnspec.runs.durations import durations, expected, shared_out


@pytest.mark.parametrize(
    ("seconds", "parts", "found"),
    [
        ([1, 1, 1, 1], 2, [[0, 2], [1, 3]]),
        ([5, 1, 1, 1, 1, 1], 2, [[0], [1, 2, 3, 4, 5]]),
        ([3, 3, 2, 2, 2], 2, [[0, 2, 4], [1, 3]]),
        ([1], 3, [[0], [], []]),
        ([], 2, [[], []]),
    ],
)
def test_work_is_shared_out_longest_first(seconds, parts, found):
    assert found == shared_out(seconds, parts)


def test_what_is_not_known_takes_what_its_mechanism_does_and_else_what_others_do():
    known = {("a", "softmax", "float32", "cpu"): 4.0, ("b", "softmax", "float32", "cpu"): 2.0, ("a", "x", "", ""): 9.0}
    asked = [("a", "softmax", "float32", "cpu"), ("c", "softmax", "float16", "cuda"), ("c", "y", "float16", "cuda")]
    assert [4.0, 3.0, 4.0] == [expected(key, known) for key in asked]
    assert 1.0 == expected(asked[0], {})


def test_nothing_is_known_of_no_results():
    assert {} == durations(())
