"""What may be wrong with a subject: known mistakes, words, and faulty functions, also with tiles of other sizes."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.diagnosis.answered import observed
from attnspec.diagnosis.candidates import anywhere, faulty, resized, stock
from attnspec.diagnosis.observations import Stance
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)
WORDS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "masked_nonfinite": "propagates"}


def tiled(q, k, v, *, mask=None, scale=None):
    """Attention over 64 keys at a time, which keeps the zero that stands for the maximum of hidden ones."""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    seen = np.broadcast_to(True if mask is None else mask, (*q.shape[:3], k.shape[2]))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    top, sums, out = np.full((*q.shape[:3], 1), -np.inf), np.zeros((*q.shape[:3], 1)), 0.0
    for start in range(0, k.shape[2], 64):
        own = slice(start, start + 64)
        s = np.where(seen[..., own], q @ k[:, :, own].swapaxes(-1, -2) * factor, -np.inf)
        new = np.maximum(top, s.max(-1, keepdims=True))
        new = np.where(np.isinf(new), 0.0, new)
        p, shrink = np.exp(s - new), np.exp(top - new)
        sums, out, top = sums * shrink + p.sum(-1, keepdims=True), out * shrink + p @ v[:, :, own], new
    return (out / np.where(sums > 0, sums, 1.0)).astype(np.float32)


@pytest.fixture(scope="module")
def failed():
    one = subject(Adapter("tiled", "attention", tiled, "numpy", conventions=WORDS))
    result = run(Request(one, library()["attention"], "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    return result.bench, observed(result.bench, failure, 0)


def fitting(candidates, observations):
    stances = {one.name: {o.stance(one) for o in observations} for one in candidates}
    return [name for name, found in stances.items() if found == {Stance.AGREES, Stance.SILENT}]


def test_a_fault_of_tiles_fits_with_the_size_of_the_subject_alone(failed):
    bench, observations = failed
    name = "fault:zero_kept_for_a_hidden_tile"
    assert [] == fitting((c for c in faulty(bench) if c.name == name), observations)
    found = fitting((c for c in resized(bench) if c.name.startswith(name)), observations)
    assert f"{name} with 64 keys at a time" in found
    assert not any("tiles of" in one or "128" in one for one in found)


def test_a_faulty_function_is_made_once_and_with_other_tiles_takes_the_same(failed):
    bench, _ = failed
    known = {candidate.name: candidate.function for candidate in faulty(bench)}
    assert known == {candidate.name: candidate.function for candidate in faulty(bench)}
    other = next(candidate.function for candidate in resized(bench))
    own = known[other.name.partition(" with ")[0]]
    assert own.claims.names == other.claims.names
    assert own.adapter.function is not other.adapter.function


def test_each_change_is_known_by_one_name(failed):
    bench, _ = failed
    names = [candidate.name for candidate in (*stock(bench), *faulty(bench), *resized(bench))]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("attention.no_scale", "no_scale"),
        ("grouping = block", "grouping = block"),
        ("grouped_query.reversed_groups and grouping = block", "reversed_groups and grouping = block"),
        ("softmax.base_two and softmax.last_lost", "base_two and last_lost"),
    ],
)
def test_a_name_goes_without_the_mechanisms_that_have_it(name, expected):
    assert expected == anywhere(name)


def test_functions_of_tiles_come_first_on_request(failed):
    bench, _ = failed
    tiles = {one.name.partition(" with ")[0] for one in resized(bench)}
    names, others = ([one.name for one in faulty(bench, tiled)] for tiled in (True, False))
    assert tiles == {*names[: len(tiles)]}
    assert sorted(names) == sorted(others)
    assert names != others
