"""A mistake may be made at some positions of an axis alone: of further items, of later keys, of every second tile."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.diagnosis.facts import Facts
from attnspec.diagnosis.likeness import Likeness
from attnspec.diagnosis.naming import diagnose
from attnspec.diagnosis.places import Place, later, placed_lines, places
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.language.expressions import Expression
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

pytestmark = pytest.mark.usefixtures("steady")

SCENARIOS = Profile("scenarios", covering=8, draws=0, admitted=1)
CONVENTIONS = {
    "rms_norm": {"eps_place": "inside", "weight_form": "plain"},
    "attention": {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"},
}


def likeness_of(function, operator):
    one = subject(Adapter("kernel", operator, function, "numpy", conventions=CONVENTIONS.get(operator, {})))
    result = run(Request(one, library()[operator], "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    return diagnose(result.bench, failure, 0)


@pytest.mark.parametrize(
    ("place", "expected", "words"),
    [
        (Place("batch", "from", 1), [1, 2, 3, 4], "for every item but the first"),
        (Place("k_len", "from", 3), [3, 4], "for keys from 3 on"),
        (Place("k_len", "up to", 2), [0, 1], "for the first 2 keys"),
        (Place("heads", "up to", 1), [0], "for the first head"),
        (Place("dim", "last"), [4], "for the last channel"),
        (Place("n", "half", 2), [2, 3], "for entries of the second half of each 4"),
        (Place("rows", "half", 1), [1, 3], "for every second row"),
    ],
)
def test_the_positions_of_a_place_and_its_words(place, expected, words):
    assert expected == np.flatnonzero(place.holds(5)).tolist()
    assert words == place.words


def wrong(n, *positions):
    return np.isin(np.arange(n), positions)


def test_places_are_those_of_the_wrong_entries_of_all_cases():
    assert [Place("batch", "from", 1)] == places([{"batch": wrong(3, 1, 2)}, {"batch": wrong(2, 1)}])
    assert [Place("rows", "up to", 2)] == places([{"rows": wrong(3, 0, 1)}, {"rows": wrong(4, 0, 1)}])
    assert Place("rows", "half", 2) in places([{"rows": wrong(9, 2, 3, 6, 7)}, {"rows": wrong(5, 2, 3)}])
    assert Place("n", "last") in places([{"n": wrong(4, 3)}, {"n": wrong(6, 5)}])


def test_where_all_positions_or_those_of_one_case_alone_are_wrong_there_is_no_place():
    assert [] == places([{"batch": wrong(2, 0, 1)}, {"batch": wrong(3, 0, 1, 2)}])
    assert [] == places([{"batch": wrong(3, 1, 2)}])


def facts(**sizes):
    return Facts(sizes, {}, {}, {}, {}, "contiguous", "")


def test_sizes_on_which_a_subject_is_right_say_from_where_on_it_may_be_wrong():
    found = later(["k_len", "q_len"], [facts(k_len=70, q_len=1), facts(k_len=90, q_len=2)], [facts(k_len=40, q_len=3)])
    assert [Place("k_len", "from", 69), Place("k_len", "from", 64)] == found
    assert [] == later(["k_len"], [facts(k_len=70)], [facts(k_len=90)])


def test_a_line_is_changed_at_a_place_and_is_as_it_was_elsewhere():
    m = library()["attention"]
    scope = next(iter(m.definition.values())).scope
    changes = placed_lines(m, {"scaled": Expression("scaled * 0", scope)}, Place("k_len", "from", 2))
    x = np.ones((1, 1, 1, 4))
    frame = Frame(m, {"q": x, "k": np.ones((1, 1, 3, 4)), "v": np.ones((1, 1, 3, 4))}, changes=changes)
    assert [2.0, 2.0, 0.0] == frame["scaled"].ravel().tolist()
    assert placed_lines(m, {"factor": Expression("1", scope)}, Place("k_len", "from", 2)) is None


def normalised(from_row):
    """A root mean square normalisation that forgets the weight of some rows."""

    def kernel(x, weight, *, eps=1e-5):
        y = x.astype(float) / np.sqrt((x.astype(float) ** 2).mean(-1, keepdims=True) + eps)
        rows = np.arange(x.shape[-2] if x.ndim > 1 else 1)[:, None]
        return np.where(rows >= from_row, y, y * weight).reshape(x.shape).astype(x.dtype)

    return kernel


def test_a_known_mistake_of_some_rows_is_told_with_these():
    found = likeness_of(normalised(2), "rms_norm")
    assert isinstance(found, Likeness)
    assert "rms_norm.weight_ignored for rows from 2 on" == found.name


def late_keys(q, k, v, *, scale=None, causal=False):
    """Attention whose scores are not scaled from the key 16 on."""
    k, v = (np.repeat(x.astype(float), q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q.astype(float) @ k.swapaxes(-1, -2)
    n, m = s.shape[-2:]
    s = np.where(np.arange(m) < 16, s * (q.shape[3] ** -0.5 if scale is None else scale), s)
    s = np.where(np.tril(np.ones((n, m), bool), m - n) | (not causal), s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return (np.divide(e, total, out=np.zeros_like(e), where=total > 0) @ v).astype(q.dtype)


def test_a_change_of_later_keys_is_told_as_one_though_outputs_have_no_such_axis():
    found = likeness_of(late_keys, "attention")
    assert isinstance(found, Likeness)
    assert found.name.endswith(" for keys from 16 on")
    assert ["scaled"] == [*found.candidate.changes]
