"""Double precision in the range of another format: what is kept, what is lost on both sides, and for how long."""

import numpy as np
import pytest

from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.formats import BFLOAT16, FLOAT16, FLOAT32
from attnspec.numerics.primitives import exp
from attnspec.numerics.ranges import in_own_range, in_range, ranged

INFINITY = float("inf")


@pytest.mark.parametrize("fmt", [FLOAT32, BFLOAT16, FLOAT16])
def test_what_rounds_to_a_number_of_the_format_is_kept(fmt):
    least = 2 * fmt.tiny
    x = np.array([fmt.largest, -fmt.largest, least, -least, 0.0, 1.0, INFINITY])
    np.testing.assert_array_equal(x, in_range(x, fmt))
    beyond = in_range(np.array([2 * fmt.largest, -2 * fmt.largest, least / 2, -least / 4]), fmt)
    np.testing.assert_array_equal([INFINITY, -INFINITY, 0.0, 0.0], beyond)
    assert [False, True] == np.signbit(beyond[2:]).tolist()


def test_only_fractions_have_a_range():
    whole, word = np.array([10**9]), "word"
    assert whole is in_range(whole, FLOAT16)
    assert word is in_range(word, FLOAT16)


def test_exponentials_are_in_the_range_of_the_body_alone():
    x = np.array([12.0, -18.0, 0.0])
    with ranged(FLOAT16):
        np.testing.assert_array_equal([INFINITY, 0.0, 1.0], exp(x))
        with ranged(None):
            np.testing.assert_array_equal(np.exp(x), exp(x))
    np.testing.assert_array_equal(np.exp(x), exp(x))
    assert x is in_own_range(x)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cross_entropy"])
@pytest.mark.parametrize("shift", [100.0, -110.0])
def test_exponentials_without_a_maximum_are_lost_as_in_a_kernel(name, shift):
    m = library()[name]
    x = np.array([[0.0, 1.0, -2.0]]) + shift
    call = {"logits": x, "targets": np.array([1])} if name == "cross_entropy" else {"x": x}
    change = m.mistakes["unshifted"].change
    lost = Frame(m, call, changes=change, overflow=FLOAT32).outputs()[m.outputs[0]]
    kept = Frame(m, call, changes=change).outputs()[m.outputs[0]]
    assert np.isfinite(kept).all()
    assert not np.isfinite(lost).any()


def test_an_operator_that_is_called_is_the_same_for_all():
    m = library()["min_p_filter"]
    call = {"logits": np.array([[0.0, -120.0]]), "p": 1e-60}
    with_range = Frame(m, call, overflow=FLOAT32)["chance"]
    np.testing.assert_array_equal(Frame(m, call)["chance"][0, 0], with_range[0, 0])
    assert 0 < Frame(m, call)["chance"][0, 1] < FLOAT32.tiny
    assert 0 == with_range[0, 1]
