"""What a vector refutes is found by trying the mistakes on it, and few vectors are enough for all of them."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from attnspec.mechanisms.loader import library
from attnspec.vectors import sets
from attnspec.vectors.sets import Asked, part_of
from attnspec.vectors.telling import CLEAR, Told, fewest, slim


@functools.cache
def softmax(small=False):
    return part_of(library()["softmax"], "float32", Asked(small=small))


def named(part):
    return {told.vector.sample.case.label: told for told in part.vectors}


def test_a_vector_refutes_the_mistakes_that_show_on_it():
    shows = named(softmax())["plain"].shows
    assert {"softmax.base_two", "softmax.unnormalised"} <= shows.keys()
    assert not {"softmax.first_thousand", "softmax.floored_maximum"} & shows.keys()
    assert shows["softmax.base_two"]["p"] > 1e4


def test_a_word_is_refuted_where_a_convention_is_asked_for():
    found = named(softmax())
    assert {"empty_row = nans", "empty_row = mean_value"} <= found["nothing_left"].shows.keys()
    assert "empty_row = nans" not in found["plain"].shows


def test_a_small_set_refutes_all_that_any_vector_refutes():
    refuted = [{name for told in softmax(small).vectors for name in told.shows} for small in (False, True)]
    assert refuted[0] == refuted[1]
    assert {f"softmax.{name}" for name in library()["softmax"].mistakes} <= refuted[1]


def test_a_vector_of_a_small_set_also_tells_the_mistakes_of_kindred_mechanisms_that_it_refutes():
    m = library()["delta_final_state_gradient"]
    small, full = (part_of(m, "float32", Asked(small=small)) for small in (True, False))
    whole = {told.vector.name: dict(told.shows) for told in full.vectors}
    assert [whole[told.vector.name] for told in small.vectors] == [dict(told.shows) for told in small.vectors]
    assert any(name.startswith("gated_delta_rule_gradient.") for told in small.vectors for name in told.shows)


def test_no_vector_of_a_small_set_can_be_left_out():
    part = softmax(small=True)
    assert 1 < len(part.vectors) < 6
    for left in part.vectors:
        others = {name for told in part.vectors if told is not left for name in told.shows if clear(told, name)}
        assert {name for name in left.shows if clear(left, name)} - others


def clear(told, name):
    return told.clear(name, "p")


class Small:
    def __init__(self, nbytes, outputs=("y",)):
        self.nbytes, self.outputs = nbytes, dict.fromkeys(outputs)


def chosen(*rows, nbytes=(8, 8, 8)):
    told = [Told(Small(size, ("y", "z")), shows) for shows, size in zip(rows, nbytes, strict=False)]
    return [told.index(one) for one in fewest(told, set("abcdef"))]


BAD = {"y": 1e3}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (({"a": BAD}, {"a": BAD, "b": BAD}), [1]),
        (({"a": BAD}, {"b": BAD}), [0, 1]),
        (({"a": BAD, "b": BAD}, {"b": BAD, "c": BAD}, {"a": BAD, "c": BAD}), [0, 1]),
        (({"x": BAD},), []),
        (({"a": {"y": CLEAR - 0.5}}, {"a": {"y": CLEAR}}), [1]),
        (({"a": {"z": 1e9}}, {"a": BAD}), [1]),
        (({"a": {"z": 1e9}},), [0]),
    ],
)
def test_the_fewest_vectors_are_chosen(rows, expected):
    assert expected == chosen(*rows)


def test_of_two_alike_the_smaller_is_chosen():
    assert [1] == chosen({"a": BAD}, {"a": BAD}, nbytes=(1 << 20, 8))


def test_what_others_have_made_superfluous_goes():
    rows = [dict.fromkeys(names, BAD) for names in ("abcd", "abe", "cdf")]
    assert [1, 2] == chosen(*rows)


def test_mistakes_of_the_kin_are_told_but_ask_for_no_vector(monkeypatch):
    monkeypatch.setattr(sets, "PROFILE", sets.PROFILES["smoke"])
    part = part_of(library()["multi_query"], "float32", Asked(takes=()))
    told = {name.partition(".")[0] for name in part.stated["mistakes"] if "=" not in name}
    assert {"multi_query", "attention", "causal_mask"} <= told
    assert {name for name in part.own if name.startswith("multi_query.")} == {
        name for name in part.stated["mistakes"] if name.startswith("multi_query.")
    }
    assert len(part.own) == len(library()["multi_query"].mistakes)


def grown(told, size):
    """A vector with a second output, and inputs of so many entries."""
    (output,) = told.vector.outputs.values()
    call = replace(told.vector.call, inputs={"x": np.zeros(size)})
    return replace(told.vector, call=call, outputs={"p": output, "lse": output})


def test_of_a_large_vector_only_those_outputs_are_stated_that_show_something():
    told = named(softmax())["plain"]
    small, large = (grown(told, size) for size in (10, 1 << 16))
    both, second = {"a": {"p": 1e3, "lse": 1e3}}, {"a": {"p": 1e3}, "b": {"lse": 1e3}}
    assert ["p", "lse"] == [*slim([Told(small, both)], "a")[0].vector.outputs]
    assert (["p"], {"a": {"p": 1e3}}) == outlined(slim([Told(large, both)], "a")[0])
    assert ["p", "lse"] == outlined(slim([Told(large, second)], "ab")[0])[0]
    elsewhere = Told(small, {"b": {"lse": 1e3}})
    assert (["p"], {"a": {"p": 1e3}}) == outlined(slim([Told(large, second), elsewhere], "ab")[0])


def outlined(told):
    return [*told.vector.outputs], told.shows
