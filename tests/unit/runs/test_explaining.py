"""Which failure represents a group, and what an explanation costs where a step of it fails."""

import numpy as np
import pytest

import attnspec
from attnspec.judging.cells import Cell
from attnspec.mechanisms.loader import library
from attnspec.runs import explaining
from attnspec.runs.explaining import headline

ATTENTION = library()["attention"]


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (["definition fail", "linear fail", "contract.fresh fail"], "linear"),
        (["linear error", "definition error", "contract.fresh fail"], "definition"),
        (["linear error", "definition error", "convex fail"], "convex"),
        (["contract.fresh fail", "linear error"], "linear"),
        (["lengths fail should", "contract.fresh fail"], "contract.fresh"),
        (["lengths fail", "definition fail"], "definition"),
    ],
)
def test_the_failure_that_says_most_stands_for_the_others(failed, expected):
    cells = []
    for law, verdict, *level in map(str.split, failed):
        cells.append(Cell("kernel", "attention", "attention", law, *level or ["must"], "float32", "cpu", verdict))
    assert expected == headline(cells, ATTENTION).law


def test_a_step_that_fails_costs_itself_alone(monkeypatch):
    monkeypatch.setattr(explaining, "mapped", lambda *_: 1 // 0)
    function = lambda x, weight, bias: 2 * x  # noqa: E731
    report = attnspec.check(function, operator="layer_norm", framework="numpy", dtypes=("float64",))
    cell = next(cell for cell in report.failures if "witness" in cell)
    (trouble,) = cell["unexplained"]
    assert "ZeroDivisionError: integer division or modulo by zero" == trouble["says"]
    assert "1 // 0" in trouble["trace"]
    assert [None, True] == [cell["witness"]["map"], cell["witness"]["when"] is not None]


def test_the_name_of_a_fault_that_was_shown_without_one_is_sought_for_less_time(monkeypatch):
    monkeypatch.setattr(explaining.Sought, "before", lambda *_: None)
    assert [1.0, explaining.AGAIN] == sought_for(monkeypatch)


def test_the_name_of_a_fault_is_sought_once_if_it_is_the_same_in_another_dtype(monkeypatch):
    assert [1.0] == sought_for(monkeypatch)


def sought_for(monkeypatch):
    """For how long a name is sought for the failures of a function in two dtypes."""
    found = []
    monkeypatch.setattr(explaining, "diagnose", lambda *_, times, **__: found.append(times))
    attnspec.check(
        lambda x, weight, bias: 0 * x,
        operator="layer_norm",
        framework="numpy",
        dtypes=("float64", "float32"),
        mechanisms=("layer_norm",),
    )
    return found


def rounded_to_half(q, k, v, *, causal=False):
    x, y, z = (x.astype(np.float16).astype(np.float32) for x in (q, k, v))
    scores = x @ np.swapaxes(y, -1, -2) * np.float32(q.shape[-1] ** -0.5)
    hidden = ~np.tri(*scores.shape[-2:], scores.shape[-1] - scores.shape[-2], dtype=bool) & causal
    scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32) @ z


def test_precision_is_explained_once_for_all_mechanisms_and_without_a_map():
    laws = [f"{name}.{law}" for name in ("attention", "causal_mask") for law in ("definition", "contract.precision")]
    report = attnspec.check(rounded_to_half, operator="attention", laws=laws, profile="quick")
    first, second = (cell["witness"] for cell in report.failures)
    assert (True, False) == (first["full"], second["full"])
    assert None is first["map"]
