"""Merged states: both witnesses against fifty digits, and against attention over the union of the keys."""

import math

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.plans import PROFILES
from attnspec.cases.samples import Case, Sample
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.judge import Kind, definition_law, judged
from attnspec.judging.trial import Trial
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import FP32
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["merge_states"], values).outputs(),
    "reference": reference.merge_states,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
OUTS = np.sin(1.7 * np.arange(1, 25)).reshape(3, 2, 2, 2)
LSES = 40 * np.cos(2.3 * np.arange(1, 13)).reshape(3, 2, 2)


@witnesses
@pytest.mark.parametrize(("word", "base"), [("natural", math.e), ("two", 2)])
def test_outputs_are_weighed_by_powers_of_the_base(witness, word, base):
    found = witness(outs=OUTS, lses=LSES, lse_base=word)
    with mpmath.workdps(50):
        powers = np.vectorize(lambda x: mpmath.mpf(base) ** mpmath.mpf(x) if base == 2 else mpmath.exp(x))(LSES)
        total = powers.sum(0)
        expected = (powers[..., None] * OUTS).sum(0) / total[..., None]
        sums = np.vectorize(lambda x: mpmath.log(x) / mpmath.log(2 if base == 2 else mpmath.e))(total)
    np.testing.assert_allclose(found["out"], expected.astype(float), rtol=1e-13)
    np.testing.assert_allclose(found["lse"], sums.astype(float), rtol=1e-13)


@witnesses
def test_parts_of_the_keys_merge_to_attention_over_all_of_them(witness):
    q, k, v = (np.sin(by * np.arange(1, 1 + 2 * n * 3)).reshape(1, 2, n, 3) for by, n in ((1.1, 4), (1.7, 7), (0.9, 7)))
    parts = [reference.attention(q, k[:, :, a:b], v[:, :, a:b]) for a, b in ((0, 3), (3, 3), (3, 7))]
    outs = np.stack([part["out"][0].swapaxes(0, 1) for part in parts])
    lses = np.stack([part["lse"][0].T for part in parts])
    found, whole = witness(outs=outs, lses=lses), reference.attention(q, k, v)
    np.testing.assert_allclose(found["out"], whole["out"][0].swapaxes(0, 1), rtol=1e-13)
    np.testing.assert_allclose(found["lse"], whole["lse"][0].T, rtol=1e-13)


@witnesses
def test_states_over_no_keys_merge_to_one_over_none(witness):
    found = witness(outs=OUTS, lses=np.full((3, 2, 2), -math.inf))
    assert (0.0, -math.inf) == (found["out"].max(), found["lse"].max())


@pytest.mark.parametrize("outs", [OUTS[:0], OUTS[:2]])
def test_the_reference_refuses_what_is_outside_the_domain(outs):
    with pytest.raises(ValueError, match="every token and head"):
        reference.merge_states(outs, LSES[: len(outs) - 1] if len(outs) else LSES[:0])


def merging(*, weigh=lambda s: (s - s.amax(0)).exp(), total=lambda s: s.logsumexp(0), empty=0.0):
    def merge_states(outs, lses):
        weights = weigh(lses)
        out = (weights[..., None] * outs.float()).sum(0) / weights.sum(0)[..., None]
        out = out.where((lses > -torch.inf).any(0)[..., None], empty)
        return {"out": out.to(outs.dtype), "lse": total(lses)}

    return merge_states


def failures(function):
    one = subject(Adapter("function", "merge_states", function, "torch", conventions={"lse_base": "natural"}))
    cells = run(Request(one, library()["merge_states"], "float32", PROFILES["quick"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


@pytest.mark.parametrize(
    ("changed", "law"),
    [
        ({"empty": math.nan}, "empties"),
        ({"weigh": lambda s: (s - s.amax(0).clamp(min=-1000)).exp()}, "definition"),
        ({"weigh": torch.ones_like}, "union"),
        ({"total": lambda s: s.amax(0)}, "union_of_sums"),
        ({"total": lambda s: torch.log2(torch.exp2(s).sum(0))}, "doubled"),
    ],
)
def test_what_is_merged_wrongly_is_found(changed, law):
    assert law in failures(merging(**changed))


def test_what_is_merged_at_once_is_right():
    assert set() == failures(merging())


def by_a_share_of_the_difference(outs, lses):
    """One state after the other, as ring attention merges them."""
    out, lse = torch.zeros_like(outs[0]), torch.full_like(lses[0], -torch.inf)
    for o, s in zip(outs, lses, strict=True):
        out = out - torch.sigmoid(s - lse)[..., None] * (out - o)
        lse = torch.logaddexp(lse, s)
    return {"out": out, "lse": lse}


def test_a_share_of_the_difference_is_within_the_bounds_of_every_entry():
    m = library()["merge_states"]
    one = subject(Adapter("merged", "merge_states", by_a_share_of_the_difference, "torch", dtypes=("float32",)))
    sizes = {"states": 2, "tokens": 300, "heads": 5, "value_dim": 64}
    bench = Bench(one, m, "float32", "cpu", {**m.words, "lse_base": "natural"})
    trials = [Trial(bench, Sample(m, Case(m.name, "case", seed, sizes), "float32")) for seed in (0, 9)]
    assert [Kind.HELD, Kind.HELD] == [judged(trial, definition_law(m), [FP32]).kind for trial in trials]
