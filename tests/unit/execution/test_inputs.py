"""What a subject is handed: never an array of another one, nor one that was written to since it was made."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.cli import main
from attnspec.execution.calling import Call
from attnspec.execution.inputs import LOOKS
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.reporting.results import read
from attnspec.subjects.subject import AdapterSubject

SOFTMAX = library()["softmax"]
LATER = "of an earlier call, after the call had returned"


def subject_of(function, framework="numpy"):
    return AdapterSubject(Adapter("function", "softmax", function, framework, layout="rn"), SOFTMAX)


def call_of(*rows):
    return Call({"x": np.array(rows, float)}, {}, "float32")


def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def said(reply):
    return [(breach.contract, breach.says) for breach in reply.breaches]


def keeper(*, every=1, framework=np):
    """A softmax that keeps its inputs, and writes to the first of them at every so many calls."""
    kept, calls = [], []

    def keeps(x):
        calls.append(1)
        if kept and len(calls) % every == 0:
            kept[0][...] = 7
        kept.append(x)
        return softmax(x) if framework is np else torch.softmax(x, -1)

    return keeps


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_what_is_written_to_an_input_after_its_call_is_held_against_the_subject(framework):
    one = subject_of(keeper(framework=torch if framework == "torch" else np), framework)
    first = one.call(call_of([0, 1]))
    second = one.call(call_of([0, 2]))
    assert [[], [("inputs_overwritten", f"changed its input 'x' {LATER}")]] == [said(first), said(second)]


def test_an_array_that_was_written_to_is_not_handed_out_again():
    one = subject_of(keeper())
    first = one.call(call_of([0, 1]))
    one.call(call_of([0, 2]))
    np.testing.assert_array_equal(first.outputs["p"], one.call(call_of([0, 1])).outputs["p"])


def test_what_is_written_between_two_calls_is_found_before_the_array_is_handed_out_again():
    kept = []
    one = subject_of(lambda x: [softmax(x), kept.append(x)][0])
    first = one.call(call_of([0, 1]))
    kept[0][...] = 7
    again = one.call(call_of([0, 1]))
    np.testing.assert_array_equal(first.outputs["p"], again.outputs["p"])
    assert [("inputs_overwritten", f"changed its input 'x' {LATER}")] == said(again)


def test_a_memory_that_was_taken_away_is_a_change():
    kept = []

    def shrinks(x):
        if kept:
            kept[0].untyped_storage().resize_(0)
        kept.append(x)
        return torch.softmax(x, -1)

    one = subject_of(shrinks, "torch")
    replies = [one.call(call_of([0, 1])), one.call(call_of([0, 2]))]
    assert [[], [("inputs_overwritten", f"changed its input 'x' {LATER}")]] == [said(reply) for reply in replies]


def test_what_is_written_to_long_ago_is_found_within_as_many_calls_as_arrays_are_looked_at_in_turn():
    one = subject_of(keeper(every=100))
    replies = [one.call(call_of([0, i])) for i in range(100 + 2 * 100 // LOOKS)]
    assert [f"changed its input 'x' {LATER}"] == [says for reply in replies for _, says in said(reply)]


def test_no_two_subjects_are_handed_the_same_array():
    seen = []
    for _ in range(2):
        subject_of(lambda x: [softmax(x), seen.append(x)][0]).call(call_of([0, 1]))
    assert not np.shares_memory(*seen)


def test_an_array_is_made_once_for_the_calls_of_a_subject_and_let_go_after_a_stretch_of_them():
    seen = []
    one = subject_of(lambda x: [softmax(x), seen.append(x)][0])
    for _ in range(2):
        with one.session():
            one.call(call_of([0, 1]))
            one.call(call_of([0, 1]))
    assert [True, False] == [seen[0] is seen[1], seen[0] is seen[2]]


@pytest.mark.parametrize("every", [1, 7])
def test_a_run_blames_whoever_kept_its_inputs(every):
    cells = run(Request(subject_of(keeper(every=every)), SOFTMAX, "float32", PROFILES["quick"])).cells
    assert {"contract.inputs_unchanged"} == {cell.law for cell in cells if cell.bad}


KERNELS = """
import numpy as np
from attnspec import adapter

kept = []

def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def keeps(x):
    for other in kept:
        if other is not x and other.flags.writeable:
            other[...] = 7
    kept[:] = [x]
    return softmax(x)

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def right(x):
    return softmax(x)
"""


@pytest.mark.parametrize("isolated", ["--isolate", "--no-isolate"])
def test_a_neighbour_is_not_told_that_it_changed_what_another_one_kept(tmp_path, monkeypatch, isolated):
    monkeypatch.chdir(tmp_path)
    Path("kernels.py").write_text(KERNELS)
    CliRunner().invoke(main, ["check", "kernels.py", isolated])
    cells = [line for line in read(Path("attnspec-report/results.ndjson")) if line["kind"] == "cell"]
    bad = {(cell["subject"], cell["law"]) for cell in cells if cell["verdict"] in ("fail", "error")}
    assert {("keeps", "contract.inputs_unchanged")} == bad
