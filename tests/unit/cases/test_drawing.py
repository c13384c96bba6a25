"""Samples are shared while they are in use, and kept for later runs."""

import pytest

from attnspec.cases import drawing
from attnspec.cases.drawing import drawn, keep, unkept
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import subject, undecorated


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/values"


def test_samples_of_plans_are_kept_when_they_have_grown(folder, monkeypatch):
    m = library()["softmax"]
    monkeypatch.setattr(drawing, "Samples", type("Samples", (drawing.Samples,), {}))
    samples = plan(m, DefinitionSubject(m, "definition").claims, PROFILES["smoke"], 5, "float32").scenarios
    trial = Trial(Bench(DefinitionSubject(m, "definition"), m, "float32", "cpu", m.words), samples[0])
    trial.frames.exact("p", trial.base)
    keep(m)
    (path,) = folder.iterdir()
    path.unlink()
    keep(m)
    assert [] == [*folder.iterdir()]


def test_runs_that_keep_nothing_find_nothing_either(folder, monkeypatch):
    m, samples = library()["softmax"], type("Samples", (drawing.Samples,), {})
    monkeypatch.setattr(drawing, "Samples", samples)
    with unkept():
        (first, *_) = plan(m, DefinitionSubject(m, "definition").claims, PROFILES["smoke"], 6, "float32").scenarios
        trial = Trial(Bench(DefinitionSubject(m, "definition"), m, "float32", "cpu", m.words), first)
        trial.frames.exact("p", trial.base)
        keep(m)
        assert not folder.exists()
    keep(m)
    assert 1 == len([*folder.iterdir()])
    monkeypatch.setattr(drawing, "Samples", type("Samples", (drawing.Samples,), {}))
    found = [drawn(m, first.case, trial.bench.subject.claims, "float32")]
    monkeypatch.setattr(drawing, "Samples", type("Samples", (drawing.Samples,), {}))
    with unkept():
        found += [drawn(m, first.case, trial.bench.subject.claims, "float32")]
    for sample in found:
        sample.cache.load()
    assert [1, 0] == [len(sample.cache) for sample in found]


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen):
    """A kernel of as many keys as queries, which a scenario of three queries and many keys has not."""


def test_a_scenario_of_other_sizes_than_those_that_are_tied_is_left_out():
    one = subject(
        undecorated(flash_attn_varlen_qkvpacked_func, "flash_attn_varlen_qkvpacked_func", None, "numpy"), declared=False
    )
    assert "q_tokens" == one.claims.ties["k_tokens"]
    labels = {
        sample.case.label for sample in plan(one.mechanism, one.claims, PROFILES["quick"], 0, "float32").scenarios
    }
    assert "many_items" in labels
    assert "weights_of_powers" not in labels
