"""Draws: what each makes of its source, the same at every time, within its range."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnspec.errors import SpecError
from attnspec.language.draws import DRAWS
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope, Values
from attnspec.numerics.numbers import Number
from attnspec.numerics.streams import Stream, pick


class Stated(Stream):
    """The source of a key; where a pick is stated, every pick is that one."""

    def __init__(self, *key: object, stated: int | None = None) -> None:
        super().__init__(*key)
        self.key, self.stated, self.counts = key, stated, []

    def pick(self, count: int) -> int:
        self.counts.append(count)
        return pick(count, *self.key) if self.stated is None else self.stated


def drawn(name: str, *arguments: Any, seed: object = 0, **keywords: Any) -> Any:
    return DRAWS[name].call(Stated("draws", seed), *arguments, **keywords)


EXAMPLES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "between": ((3, 9), 4),
    "choice": (("a", "b", "c"), "a"),
    "maybe": ((1, 2), 2),
    "normal": ((2, 2), [[0.1689910888671875, -0.6897125244140625], [-0.6410980224609375, -0.2050018310546875]]),
    "flags": ((8,), [False, True, False, True, True, True, True, True]),
    "indices": ((5, 6), [4, 0, 1, 3, 4, 2]),
    "permutation": ((6,), [1, 5, 2, 3, 0, 4]),
    "partition": ((9,), [1, 1, 1, 1, 2, 2, 1]),
    "like": ((np.zeros(2),), [1.365997314453125, -0.441558837890625]),
    "every": ((1, 4), 3),
}


def test_every_draw_has_an_example() -> None:
    assert set(DRAWS) == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_draw_is_the_one_recorded(name: str) -> None:
    arguments, expected = EXAMPLES[name]
    for _ in range(2):
        assert expected == np.asarray(DRAWS[name].call(Stated("pinned", name), *arguments)).tolist()


@pytest.mark.parametrize("name", EXAMPLES)
def test_another_key_draws_otherwise(name: str) -> None:
    arguments, _ = EXAMPLES[name]
    assert 1 < len({str(drawn(name, *arguments, seed=seed)) for seed in range(10)})


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_says_what_it_is_and_how_it_is_called(name: str) -> None:
    assert DRAWS[name].says.endswith(".")
    assert "source" not in DRAWS[name].usage


# Single numbers pick among counted choices, simplest first


@pytest.mark.parametrize(
    ("name", "arguments", "stated", "expected", "count"),
    [
        ("between", (3, 5), 0, 3, 3),
        ("between", (3, 5), 2, 5, 3),
        ("between", (5, 3), 0, 5, 1),
        ("every", (1, 4), 3, 4, 4),
        ("choice", ("a", "b"), 0, "a", 2),
        ("choice", ("a", "b"), 1, "b", 2),
        ("maybe", ("x", "other"), 0, "other", 2),
        ("maybe", ("x", "other"), 1, "x", 2),
    ],
)
def test_a_single_number_is_a_pick_and_the_first_is_the_simplest(
    name: str, arguments: tuple[Any, ...], stated: int, expected: Any, count: int
) -> None:
    source = Stated(stated=stated)
    assert expected == DRAWS[name].call(source, *arguments)
    assert [count] == source.counts


@pytest.mark.parametrize("name", ["between", "every"])
@given(low=st.integers(-20, 20), width=st.integers(0, 20), seed=st.integers(0, 1000))
def test_a_whole_number_is_between_its_ends(name: str, low: int, width: int, seed: int) -> None:
    assert low <= drawn(name, low, low + width, seed=seed) <= low + width


def test_both_ends_are_reached() -> None:
    assert {1, 2, 3} == {drawn("between", 1, 3, seed=seed) for seed in range(50)}


# Arrays read a stream


@given(n=st.integers(0, 40), seed=st.integers(0, 1000))
def test_a_partition_is_of_positive_parts_that_add_up(n: int, seed: int) -> None:
    parts = drawn("partition", n, seed=seed)
    assert n == sum(parts)
    assert (parts > 0).all()
    assert (np.int64, 1) == (parts.dtype, parts.ndim)


@given(n=st.integers(0, 40), count=st.integers(1, 9), seed=st.integers(0, 1000))
def test_a_partition_into_a_count_has_so_many_parts_that_add_up(n: int, count: int, seed: int) -> None:
    parts = drawn("partition", n, count, seed=seed)
    assert (n, (count,), np.int64) == (sum(parts), parts.shape, parts.dtype)
    assert (parts >= 0).all()


@given(n=st.integers(0, 40), seed=st.integers(0, 1000))
def test_a_permutation_has_every_number_once(n: int, seed: int) -> None:
    assert list(range(n)) == sorted(drawn("permutation", n, seed=seed))


def test_indices_are_below_the_limit_and_reach_all() -> None:
    assert {0, 1, 2} == set(drawn("indices", 3, 10, 10).ravel().tolist())
    assert (10, 2) == drawn("indices", 3, 10, 2).shape


@pytest.mark.parametrize("chance", [0, 0.3, 0.7, 1])
def test_flags_are_true_with_their_chance(chance: float) -> None:
    flags = drawn("flags", 100, 100, chance=chance)
    assert pytest.approx(chance, abs=0.02) == flags.mean()
    assert bool == flags.dtype


def test_flags_and_normal_numbers_may_differ_from_entry_to_entry() -> None:
    assert [False, True] == drawn("flags", 2, chance=np.array([0.0, 1.0])).tolist()
    expected = drawn("normal", 2) * [0, 3]
    assert expected.tolist() == drawn("normal", 2, spread=np.array([0.0, 3.0])).tolist()


@pytest.mark.parametrize("spread", [1, 0.5, 20])
def test_normal_numbers_have_their_spread(spread: float) -> None:
    x = drawn("normal", 100, 100, spread=spread)
    assert pytest.approx([0, spread], abs=0.03 * spread) == [x.mean(), x.std()]


def test_like_takes_the_shape_of_anything() -> None:
    assert [(2, 3), ()] == [drawn("like", x).shape for x in (Number(np.zeros((2, 3))), 1.0)]


def test_a_choice_among_nothing_is_refused() -> None:
    with pytest.raises(SpecError, match="choice takes at least one value"):
        drawn("choice")


def test_every_draw_of_an_expression_has_a_source_of_its_own() -> None:
    class World(Values):
        def source(self, ordinal: int) -> Any:
            return Stated("world", ordinal)

    expression = Expression("normal(3) - normal(3) + 0 * between(1, 2)", Scope(draws=True))
    expected = Stream("world", 0).normal((3,)) - Stream("world", 1).normal((3,))
    assert expected.tolist() == expression(World({}, "float32")).tolist()


def test_nothing_is_drawn_from_plain_values() -> None:
    with pytest.raises(SpecError, match="drawing is not allowed here"):
        Expression("normal(3)", Scope(draws=True))(Values({}, "float32"))
