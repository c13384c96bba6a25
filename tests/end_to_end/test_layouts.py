"""A kernel in another layout is told of it in the first line, and judged in that layout; a gate wants it declared."""

import json

import pytest

import attnspec
from attnspec.errors import Exit
from attnspec.execution.supervisor import SECONDS
from attnspec.runs.opening import Kept
from attnspec.runs.replay import replayed

KERNEL = """
import numpy as np


def attention(q, k, v):
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) {scale}
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(1, 2)
"""
FIRST = 'attention reads [batch, length, heads, dim]: declare layout = "bshd"'
LAWS = ("attention.definition", "attention.key_shift", "attention.contract.shape")


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(scale="* q.shape[-1] ** -0.5"):
        (tmp_path / "kernel.py").write_text(KERNEL.format(scale=scale))
        return "kernel.py:attention"

    return written


def test_a_layout_is_named_first_and_judged(kernel):
    report = attnspec.check(kernel(), laws=LAWS)
    assert (FIRST, {"attention": "conformant"}) == (str(report).splitlines()[0], report.verdicts)
    assert "bshd" == report.cells[0]["run"]["layout"]


def test_a_layout_and_renamed_options_are_told_in_one_line(kernel, tmp_path):
    target = kernel(scale="* (q.shape[-1] ** -0.5 if sm_scale is None else sm_scale)")
    (tmp_path / "kernel.py").write_text(
        (tmp_path / "kernel.py").read_text().replace("(q, k, v):", "(q, k, v, sm_scale=None):")
    )
    report = attnspec.check(target, laws=LAWS[:1])
    first = f"{FIRST}; it is treated as attention: `sm_scale` for `scale`"
    assert (first, {"attention": "conformant"}) == (str(report).splitlines()[0], report.verdicts)


def test_a_fault_beside_another_layout_is_found_in_that_layout_and_replayed_in_it(kernel, tmp_path):
    report = attnspec.check(kernel(scale=""), laws=LAWS, report_dir=tmp_path / "report")
    assert FIRST == str(report).splitlines()[0]
    witness = next(cell["witness"] for cell in report.cells if "witness" in cell)
    assert ("bshd", "attention.no_scale") == (witness["layout"], witness["likeness"]["name"])
    assert witness == json.loads((tmp_path / "report" / "cases" / f"{witness['key']}.json").read_text()) | witness
    said = []
    code = replayed(Kept(witness["key"], tmp_path / "report", seconds=SECONDS), said.append)
    assert (Exit.VIOLATED, True) == (code, any("no_scale" in line for line in said))


def test_a_declared_layout_is_not_mentioned(kernel):
    report = attnspec.check(kernel(), layout="bshd", laws=LAWS)
    assert ({"attention": "conformant"}, True) == (report.verdicts, str(report).startswith("attnspec "))


def test_a_gate_wants_a_layout_declared_and_judges_nothing_before(kernel):
    report = attnspec.check(kernel(), mechanisms=["attention", "causal_mask"], profile="ci")
    assert [("contract.layout", "fail", FIRST)] == [(c["law"], c["verdict"], c["says"]) for c in report.failures]
    assert set() == {c["verdict"] for c in report.cells} - {"fail", "not_tested", "not_declared"}
