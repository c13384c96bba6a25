"""Caches of codes in groups behind a residual window: both witnesses, and the window chunk by chunk."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import NONE
from attnspec.numerics.grades import FP32

MECHANISM = NONE.library()["grouped_cache"]
TEXTS = {"key_channels": "channels", "key_tokens": "tokens", "value_channels": "channels", "value_tokens": "tokens"}


def both(given, **words):
    """The output of the definition and of the reference."""
    texts = {name: TEXTS.get(x, x) if isinstance(x, str) else x for name, x in given.items()}
    return Frame(MECHANISM, {**given, **words}).outputs()["out"], reference.cached_attention(**texts, **words)


def drawn(length, **more):
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((2, 2, length, 8)) for _ in range(3))
    return {"q": q, "k": k, "v": v, "cache_bits": 2, "group_size": 4, **more}


@pytest.mark.parametrize("own_chunk", ["as_kept", "as_fed", "first_as_fed"])
@pytest.mark.parametrize("residual", ["emptied", "in_blocks", "sliding"])
@pytest.mark.parametrize("zero_point", ["least_number", "whole_steps"])
def test_both_witnesses_agree_on_windows_and_zero_points(own_chunk, residual, zero_point):
    given = drawn(13, chunks=np.array([4, 1, 1, 3, 1, 1, 2]), residual_length=4, value_groups="value_tokens")
    expected, actual = both(given, own_chunk=own_chunk, residual=residual, zero_point=zero_point)
    np.testing.assert_allclose(expected, actual, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("residual", "expected"),
    [("emptied", [3, 3, 3, 6, 6, 10]), ("in_blocks", [3, 3, 3, 6, 6, 9]), ("sliding", [0, 1, 2, 3, 5, 7])],
)
def test_tokens_become_codes_when_the_window_says_so(residual, expected):
    given = drawn(10, chunks=np.array([3, 1, 1, 1, 2, 2]), residual_length=3)
    frame = Frame(MECHANISM, {**given, "residual": residual, "own_chunk": "as_fed"})
    assert expected == [int(n) for n in frame["coded_to"]]


def test_groups_of_tokens_are_whole():
    given = drawn(11, chunks=np.array([5, 1, 1, 1, 3]), key_groups="key_tokens")
    assert [4, 4, 4, 8, 8] == [int(n) for n in Frame(MECHANISM, given)["coded_to"]]


def test_what_is_quantized_more_often_has_a_wider_bound_and_the_same_value():
    given = drawn(8, chunks=np.array([2, 2, 2, 2]))
    frame = Frame(MECHANISM, {**given, "k": given["k"][:, :, [0] * 8]}, grade=FP32, dtype="float32")
    with np.errstate(all="ignore"):
        once, kept = frame["k_meant"], frame["k_kept"]
    np.testing.assert_allclose(once.value, kept.value, rtol=0, atol=1e-12)
    widths = [kept.worst[:, :, t].min(where=once.worst[:, :, t] < 1e-6, initial=1.0) for t in (6, 4, 2, 0)]
    assert widths == sorted(set(widths))


@pytest.mark.parametrize(
    "call",
    [
        {"group_size": 3},
        {"residual_length": 3, "key_groups": "tokens"},
        {"beams": [1, 0], "value_groups": "tokens"},
        {"residual_length": -1},
    ],
)
def test_the_reference_refuses_what_has_no_whole_groups(call):
    with pytest.raises(ValueError):  # noqa: PT011
        reference.cached_attention(**drawn(5, chunks=[2, 3], **call) | call)
