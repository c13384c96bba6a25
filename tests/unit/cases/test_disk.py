"""What is kept of samples between runs: found by content, the same to the bit, and dropped where it is damaged."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from attnspec.cases import disk
from attnspec.cases.samples import Case, Sample
from attnspec.judging.bench import Bench
from attnspec.judging.conventions import _differing
from attnspec.judging.frames import SETTLED
from attnspec.judging.trial import Trial
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import Mechanism
from attnspec.numerics.grades import FP32, FP64
from attnspec.numerics.numbers import Number
from attnspec.subjects.stand_ins import DefinitionSubject

ROWS = np.arange(24.0).reshape(2, 3, 4)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/values"


def trial_of(name="softmax", seed=7):
    m = library()[name]
    sample = Sample(m, Case(m.name, "test", seed), "float32")
    disk.restore(sample)
    return Trial(Bench(DefinitionSubject(m, "definition"), m, "float32", "cpu", m.words), sample)


def found_again():
    """What an earlier run has left in the cache of a sample; its trial settles the case anew."""
    cache = trial_of().sample.cache
    cache.load()
    return {key: x for key, x in cache.items() if key != SETTLED}


def parts(x):
    """Everything that makes up a value, to the bit."""
    if isinstance(x, np.ndarray):
        return x.dtype, x.shape, x.strides, x.tobytes()
    if isinstance(x, Number):
        return x.grade, x.held, *map(parts, (x.value, x.worst, x.variance, x.shared))
    return type(x), repr(x)


@pytest.mark.parametrize(
    "x",
    [
        *(None, True, 3, 0.1, -0.0, float("nan"), "word", np.float64(0.1), np.bool_(True), np.int64(3)),
        *(ROWS, ROWS.astype(int), ROWS > 2, ROWS.T, ROWS.transpose(1, 0, 2), np.zeros((0, 3)), np.array(0.5)),
        Number(ROWS, ROWS.T.copy().T, 0.0, np.float64(0.25), grade=FP32, held=True),
        Number(ROWS, grade=FP64),
    ],
)
def test_what_is_kept_comes_back_to_the_bit(x):
    sample = trial_of().sample
    sample.cache["m", "exact", ("k", b"\0")] = (({}, x),)
    disk.save([sample])
    ((_, found),) = found_again()["m", "exact", ("k", b"\0")]
    assert parts(x) == parts(found)


@pytest.mark.parametrize("x", [ROWS[:, ::2], np.broadcast_to(ROWS[0], (2, 3, 4)), ROWS[::-1], object(), {1: ROWS}])
def test_what_would_come_back_in_another_way_is_not_kept(x):
    sample = trial_of().sample
    sample.cache["m", "exact", "k"] = x
    sample.cache["m", "exact", "other"] = 1
    disk.save([sample])
    assert {("m", "exact", "other"): 1} == found_again()


def test_only_what_no_subject_changes_is_kept():
    sample = trial_of().sample
    sample.cache["frame", "softmax"] = sample.cache["answers", "of a candidate"] = 1
    disk.save([sample])
    assert {} == found_again()


def test_a_later_run_evaluates_no_definition_again(monkeypatch):
    def looked_up(trial):
        bounds = trial.frames.bound("out", trial.base, FP32)
        apart = _differing(trial, "empty_row", trial.bench.words)
        return [*map(parts, (trial.frames.exact("out", trial.base), *bounds)), *map(parts, apart.values())]

    first = trial_of("attention")
    known = looked_up(first)
    disk.save([first.sample])
    monkeypatch.setattr(Frame, "outputs", None)
    assert known == looked_up(trial_of("attention"))


def test_a_key_changes_with_whatever_a_value_depends_on(monkeypatch):
    sample = trial_of("attention_gradient").sample
    x = sample.values["q"]
    keys = {disk.key_of(sample)}
    for other in (np.nextafter(x, 9), x.T.copy().T, x.astype(np.float32)):
        sample.values["q"] = other
        keys.add(disk.key_of(sample))
    sample.values["q"] = x
    sample.values["causal"] = 1
    keys.add(disk.key_of(sample))
    sample.values["causal"] = True
    keys.add(disk.key_of(sample))
    sample.dtype = "bfloat16"
    keys.add(disk.key_of(sample))
    sample.mechanism = replace(sample.mechanism, digest="another")
    keys.add(disk.key_of(sample))
    monkeypatch.setattr(disk, "code", lambda: "another")
    keys.add(disk.key_of(sample))
    assert 9 == len(keys)


def test_a_key_changes_with_the_mechanisms_that_are_called(monkeypatch):
    caller = next(m for m in library().values() if m.calls)
    before = disk.fingerprint(caller)
    called = library()[next(iter(caller.calls))]
    others = {**library(), called.name: replace(called, digest="another")}
    monkeypatch.setattr(Mechanism, "beside", lambda _, name: others[name])
    assert before != disk.fingerprint(caller)
    assert all(name in before for name in caller.calls)


@pytest.mark.parametrize("content", [b"\xc1", b"\x92", b"\x01", b"\x92\xa1k\x91\xa1z", b"\x92\xa1k\x92\xa1a\xa1f"])
def test_an_entry_of_nonsense_is_dropped(content, folder):
    sample = trial_of().sample
    disk.STORE.put(disk.key_of(sample), content)
    assert 1 == len([*folder.iterdir()])
    assert {} == found_again()
    assert [] == [*folder.iterdir()]


def test_a_sample_is_looked_through_again_only_when_it_has_grown(folder, monkeypatch):
    sample, looked = trial_of().sample, []
    monkeypatch.setattr(disk, "lasting", lambda key: key != SETTLED and not looked.append(key))
    for name in ("one", "other"):
        sample.cache["m", "exact", name] = (({}, 1.0),)
        disk.save([sample])
        disk.save([sample])
    assert ["one", "one", "other"] == [name for *_, name in looked]
    assert {"one", "other"} == {name for *_, name in found_again()}


def test_nothing_is_kept_of_a_reference_in_a_file_of_the_user(monkeypatch):
    m = replace(library()["softmax"], by_reference=True)
    own = [replace(m, library=SimpleNamespace(references=functions)) for functions in ({}, {"softmax": print})]
    assert [True, False] == [disk.lasts(m) for m in own]
    sample = trial_of().sample
    sample.cache["m", "exact", "k"] = 1
    monkeypatch.setattr(disk, "lasts", lambda mechanism: False)
    disk.save([sample])
    monkeypatch.undo()
    assert {} == found_again()


def test_values_are_read_when_one_is_needed_and_outcomes_at_once(folder, monkeypatch):
    first = trial_of()
    exact = parts(first.frames.exact("p", first.base))
    first.sample.cache["outcome", "law"] = 1
    disk.save([first.sample])
    assert 2 == len([*folder.iterdir()])
    asked, get = [], disk.STORE.get
    monkeypatch.setattr(type(disk.STORE), "get", lambda self, key: asked.append(key) or get(key))
    second = trial_of()
    assert (1, 1) == (second.sample.cache["outcome", "law"], len(asked))
    assert exact == parts(second.frames.exact("p", second.base))
    second.frames.exact("p", second.base)
    assert 2 == len(asked)
    disk.save([second.sample])
    assert 2 == second.sample.cache.saved + second.sample.cache.outcomes


@pytest.mark.parametrize("damaged", range(2))
def test_damage_to_either_part_costs_that_one_alone(folder, damaged):
    first = trial_of()
    first.frames.exact("p", first.base)
    first.sample.cache["outcome", "law"] = 1
    disk.save([first.sample])
    keys = disk.key_of(first.sample), disk._outcomes(disk.key_of(first.sample))
    (folder / keys[damaged]).write_bytes(b"nonsense")
    found = found_again()
    assert [bool(damaged), not damaged] == [any("exact" in key for key in found), ("outcome", "law") in found]
