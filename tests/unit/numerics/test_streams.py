"""Streams give the same bits everywhere: golden values, recorded once, and what their numbers are made of."""

import hashlib

import numpy as np
import pytest

from attnspec.numerics.streams import Stream, digest, pick


@pytest.mark.parametrize(
    ("key", "size", "expected"),
    [
        ((), 8, 13020603013274838756),
        (("a",), 8, 3405396810240292928),
        ((1, "a", 2.5), 8, 2379049811018673176),
        (("a",), 4, 1431053258),
        (("a",), 16, 167863191109824881737557337713797940007),
    ],
)
def test_a_key_stands_for_the_same_number_everywhere(key: tuple[object, ...], size: int, expected: int) -> None:
    assert expected == digest(*key, size=size)


def test_a_key_is_its_parts_in_order() -> None:
    keys = [(1, 2), (2, 1), (12,), (1, 2, ""), ("1", "2", 0)]
    assert len(keys) == len({digest(*key) for key in keys})


def test_a_pick_is_the_same_everywhere_and_within_its_count() -> None:
    assert [4, 3, 3, 1, 0, 3, 3, 1, 1, 3] == [pick(5, "golden", i) for i in range(10)]
    assert [0, 0, 0] == [pick(count, "golden") for count in (1, 0, -3)]


def test_the_first_words_are_those_recorded_and_a_stream_goes_on() -> None:
    stream = Stream("golden", 0)
    expected = [17844509619178984049, 335250042878715956, 11096287372062374550, 12083816892364400098]
    assert expected == stream.bits(4).tolist()
    assert [12371200970023365803, 9419727904653727405] == stream.bits(2).tolist()


def test_the_first_numbers_are_those_recorded() -> None:
    normal = [[-0.6314239501953125, 0.2024078369140625, 0.582794189453125]]
    normal += [[-0.81378173828125, -0.9287109375, 0.514190673828125]]
    assert normal == Stream("golden").normal((2, 3)).tolist()
    assert [0.9727497543121313, 0.6406720307733678, 0.1743980714968304] == Stream("golden").uniform((3,)).tolist()
    assert [[6, 1, 5, 8], [6, 2, 9, 6]] == Stream("golden").below(10, (2, 4)).tolist()
    assert [6, 2, 5, 1, 4, 0, 7, 3] == Stream("golden").permutation(8).tolist()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("bits", "1f6fdfbf29e4cf54347825936939954670dac01225b6a791e4b348de1de57f96"),
        ("normal", "038fbddb074e0f7717f6c9f20a311f3957160f2519c7131ae47641791703d2b4"),
        ("uniform", "73e44c6aa0ccdd3e3954d297fb6f11c7c9f142be95425e3ef0d3236fbbe7a587"),
        ("below", "0e353e87ee936c90150df4be358810af64a0ae0098de36128564ddf40474fc07"),
        ("permutation", "95740937bcc99ff4e2a45a7b03d107107f8f44b137491d0ff1f2e2005f2e91c1"),
    ],
)
def test_a_thousand_numbers_have_the_bytes_recorded(kind: str, expected: str) -> None:
    stream = Stream("bytes", 1)
    drawn = {
        "bits": lambda: stream.bits(1000).astype("<u8"),
        "normal": lambda: stream.normal((1000,)).astype("<f8"),
        "uniform": lambda: stream.uniform((1000,)).astype("<f8"),
        "below": lambda: stream.below(1000, (1000,)).astype("<i8"),
        "permutation": lambda: stream.permutation(1000).astype("<i8"),
    }[kind]()
    assert expected == hashlib.sha256(drawn.tobytes()).hexdigest()


def test_numbers_are_made_of_words_by_whole_arithmetic() -> None:
    words = [int(word) for word in Stream("made").bits(12)]
    assert [(word >> 11) / 2**53 for word in words] == Stream("made").uniform((12,)).tolist()
    assert [word % 7 for word in words] == Stream("made").below(7, (12,)).tolist()
    assert sorted(range(12), key=words.__getitem__) == Stream("made").permutation(12).tolist()
    quarters = [word >> 16 * i & 0xFFFF for word in words for i in range(4)]
    sums = [sum(quarters[i::4]) for i in range(4)]
    assert [(total - 12 * 65535 / 2) / 2**16 for total in sums] == Stream("made").normal((4,)).tolist()


def test_normal_numbers_have_mean_zero_and_variance_one() -> None:
    x = Stream("moments").normal((200, 500))
    assert pytest.approx(0, abs=0.01) == x.mean()
    assert pytest.approx(1, abs=0.02) == x.var()
    assert pytest.approx(0.6827, abs=0.01) == np.mean(np.abs(x) < 1)
    assert np.abs(x).max() <= 6


def test_uniform_numbers_fill_the_interval_without_its_end() -> None:
    x = Stream("interval").uniform((1000, 100))
    assert pytest.approx([0.5, 1 / 12], abs=0.005) == [x.mean(), x.var()]
    assert (True, True) == (bool(x.min() >= 0), bool(x.max() < 1))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_numbers_come_in_any_shape(shape: tuple[int, ...]) -> None:
    drawn = [Stream(1).normal(shape), Stream(1).uniform(shape), Stream(1).below(5, shape)]
    assert [shape] * 3 == [x.shape for x in drawn]
    assert [np.float64, np.float64, np.int64] == [x.dtype for x in drawn]


def test_below_nothing_is_zero() -> None:
    assert [0, 0] == Stream(1).below(0, (2,)).tolist()


def test_a_key_is_that_of_philox():
    keys = [("a", number) for number in range(100)]
    expected = [np.random.Philox(key=digest(*key, size=16)).random_raw(6).tolist() for key in keys]
    assert expected == [Stream(*key).bits(6).tolist() for key in keys]
