"""What operators gave is found again by their arguments to the bit, and by nothing less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnspec.mechanisms.called import Answer, Called, key_of
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.library import Library
from attnspec.mechanisms.loader import files_of
from attnspec.mechanisms.schema import spec_folder
from attnspec.mechanisms.specfiles import SpecFile
from attnspec.numerics import budget
from attnspec.numerics.grades import FP32, FP64
from attnspec.numerics.numbers import Number
from attnspec.numerics.products import by_entry

X = np.arange(6.0).reshape(2, 3)


def key(**changed: Any) -> bytes | None:
    given = {"name": "softmax", "grade": FP32, "dtype": "float32", "arguments": {"x": X, "axis": 1}, **changed}
    return key_of(given["name"], given["grade"], given["dtype"], given["arguments"])


def test_equal_calls_have_one_key() -> None:
    assert key() == key(arguments={"x": X.copy(), "axis": 1})


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "attention"},
        {"grade": FP64},
        {"grade": None},
        {"dtype": "float64"},
        {"arguments": {"x": X, "axis": True}},
        {"arguments": {"x": X, "axis": 1.0}},
        {"arguments": {"x": X, "axis": "1"}},
        {"arguments": {"y": X, "axis": 1}},
        {"arguments": {"x": X.reshape(3, 2), "axis": 1}},
        {"arguments": {"x": np.asfortranarray(X), "axis": 1}},
        {"arguments": {"x": np.nextafter(X, 9), "axis": 1}},
        {"arguments": {"x": X.astype(np.int64), "axis": 1}},
        {"arguments": {"x": Number(X, grade=FP32), "axis": 1}},
        {"arguments": {"x": Number(X, grade=FP64), "axis": 1}},
        {"arguments": {"x": Number(X, grade=FP32, held=True), "axis": 1}},
        {"arguments": {"x": Number.within(X, np.full(X.shape, 1e-3), grade=FP32), "axis": 1}},
        {"arguments": {"x": Number.within(X, np.full(X.shape, 2e-3), grade=FP32), "axis": 1}},
    ],
    ids=lambda changed: repr(changed)[:60],
)
def test_any_difference_gives_another_key(changed: dict[str, Any]) -> None:
    number = {"arguments": {"x": Number.within(X, np.full(X.shape, 3e-3), grade=FP32), "axis": 1}}
    assert key(**changed) not in (None, key(), key(**number))


def test_products_by_entry_are_other_ones() -> None:
    with by_entry():
        found = key()
    assert found not in (None, key())


@pytest.mark.parametrize(
    "changed",
    [
        {"arguments": {"x": np.zeros(1 << 15)}},
        {"arguments": {"x": object()}},
        {"grade": replace(FP32, operand=None, weight=None, stored=None)},
    ],
    ids=["large", "unknown", "a grade by itself"],
)
def test_other_calls_are_not_kept(changed: dict[str, Any]) -> None:
    assert key(**changed) is None


def test_the_last_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnspec.mechanisms.called.ROOM", 3000)
    known = Called()
    for number in range(9):
        known.put(bytes([number]), Answer(np.zeros(100), frozenset(), 1))
    assert [bytes([7]), bytes([8])] == list(known)
    assert known.held == sum(answer.nbytes for answer in known.values())


def multi_head() -> tuple[Library, dict[str, Any]]:
    library = Library({path.stem: SpecFile(path) for path in files_of(spec_folder())})
    x, w = np.sin(np.arange(24.0)).reshape(1, 3, 8), np.cos(np.arange(64.0)).reshape(8, 8)
    return library, {"x": x, "context": x, **dict.fromkeys(("wq", "wk", "wv", "wo"), w), "heads": 2}


@pytest.mark.parametrize("grade", [None, FP32], ids=str)
def test_a_call_that_is_found_again_gives_and_costs_the_same(grade: Any) -> None:
    library, values = multi_head()
    spent, frames = [], []
    for _ in range(2):
        frame = Frame(library["multi_head"], values, grade=grade)
        with budget.metered():
            before = budget.unspent()
            frames.append((frame["out"], frame.turned_on))
            spent.append(before - budget.unspent())
    (first, asked), (second, asked_again) = frames
    assert spent[0] == spent[1]
    assert asked == asked_again
    assert len(library.kept(Called)) > 0
    for part in ("value", "worst", "variance", "shared") if grade else ():
        np.testing.assert_array_equal(getattr(first, part), getattr(second, part))
    np.testing.assert_array_equal(getattr(first, "value", first), getattr(second, "value", second))
