"""A subject on a device, at one dtype of one mechanism."""

from types import SimpleNamespace

from attnspec.judging.bench import Bench


def test_the_words_of_a_mechanism_are_in_its_own_order_and_no_others():
    mechanism = SimpleNamespace(conventions={"rest": {}, "mask": {}})
    bench = Bench(None, mechanism, "float32", "cpu", {"other": "far", "mask": "additive", "rest": "kept"})
    assert ("kept", "additive") == bench.words_key
