"""A kept case is opened with all that it names, or it is said what is there no more."""

import pytest

from attnspec.cases.profiles import Profile
from attnspec.diagnosis.stored import save
from attnspec.diagnosis.witness import describe
from attnspec.errors import TargetError, UsageError
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.shrinking import made_small
from attnspec.mechanisms.loader import library
from attnspec.runs.opening import Kept, Opened, again
from attnspec.subjects.targets import resolve

FAULTY = """
import torch

def softmax(x):
    return torch.softmax(x * 0.5, -1)
"""
FEW = Profile("scenarios", covering=0, draws=0, admitted=1)


@pytest.fixture
def witness(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(FAULTY)
    (one,) = resolve(f"{path}:softmax")
    result = run(Request(one, library()["softmax"], "float32", FEW, laws=frozenset({"definition"})))
    failure = made_small(next(cell.failure for cell in result.cells if cell.failure), result)
    found = describe(failure, result.bench, f"{path}:softmax", None, [])
    save(tmp_path, found)
    return found


def test_a_case_is_opened_with_its_arrays_and_its_law_fails_again(witness, tmp_path):
    opened = Opened(Kept(witness["key"], tmp_path))
    failure, verdict, _ = again(opened.bench, opened.sample(), opened.law)
    assert ("softmax", "definition", "fail") == (opened.subject.name, failure.law, verdict)
    assert witness["case"]["seed"] == opened.sample().case.seed


def test_the_file_that_is_run_is_told_before(witness, tmp_path):
    told = []
    Opened(Kept(witness["key"], tmp_path, note=told.append))
    assert [f"runs {tmp_path / 'kernel.py'}, which the case names"] == told


def test_a_file_elsewhere_is_run_only_if_somebody_vouches_for_it(witness, tmp_path, monkeypatch):
    kept = Kept(witness["key"], tmp_path, trusted=False)
    monkeypatch.chdir(tmp_path)
    assert "softmax" == Opened(kept).subject.name
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with pytest.raises(UsageError, match="a program outside the current folder; --trust runs it"):
        Opened(kept)


def test_arrays_are_passed_and_read_as_first_calls_showed(witness, tmp_path):
    save(tmp_path, witness | {"in_dtype": ["x"], "least": [-1e10], "copies": True})
    found = Opened(Kept(witness["key"], tmp_path)).subject
    assert ({"x"}, (-1e10,), True) == (found.in_dtype, found.least, found.copies)


def test_a_case_may_be_refused_before_anything_that_it_names_is_run(witness, tmp_path):
    def refused(witness):
        raise UsageError("not this one")

    told = []
    with pytest.raises(UsageError, match="not this one"):
        Opened(Kept(witness["key"], tmp_path, note=told.append), refused)
    assert [] == told


def test_a_subject_that_is_no_more_is_named(witness, tmp_path):
    (tmp_path / "kernel.py").write_text(FAULTY.replace("def softmax", "def other"))
    with pytest.raises(TargetError, match="has no function 'softmax'"):
        Opened(Kept(witness["key"], tmp_path))
