"""A check tells what is known of a released package from what is new, and says what is mended."""

import json
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.reporting import findings
from attnspec.reporting.findings import named

ATTENTION = torch.nn.functional.scaled_dot_product_attention


def checked(folder, fail_on="new"):
    asked = "check torch_sdpa --no-isolate --mechanism causal_mask --law causal_mask.definition --dtype float32"
    asked += " --explain-time 0"
    result = CliRunner().invoke(main, [*asked.split(), "--fail-on", fail_on, "--report-dir", str(folder)])
    lines = [json.loads(line) for line in (folder / "results.ndjson").read_text().splitlines()]
    (subject,) = (line for line in lines if line["kind"] == "subject")
    return result, subject.get("known"), (folder / "junit.xml").read_text()


@pytest.fixture
def torch_has(monkeypatch):
    """Has torch's attention be another function."""
    return lambda function: monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", function)


def nans(q, k, v, *, is_causal=False, scale=None, **more):
    """As torch 2.13.0 has it on a CPU, wherever this runs."""
    out = mended(q, k, v, is_causal=is_causal, scale=scale, **more)
    return out * float("nan") if is_causal and scale is not None and scale <= 0 else out


def mended(q, k, v, *, is_causal=False, scale=None, attn_mask=None, **more):
    """The same call with a mask in place of the flag."""
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril() if is_causal else attn_mask
    return ATTENTION(q, k, v, attn_mask=mask, scale=scale, **more)


def test_what_is_known_passes_where_a_run_fails_on_what_is_new(tmp_path, torch_has):
    torch_has(nans)
    result, known, junit = checked(tmp_path)
    assert (0, {"cells": {"torch-causal-scale": 1}, "new": 0, "mended": []}) == (result.exit_code, known)
    assert "NOT CONFORMANT  torch_sdpa" in result.output
    assert "known: 1 of 1, see torch-causal-scale" in result.output
    assert "No new failures: all 1 violations are known" not in result.output
    assert "No new failures: the violation is a known finding in a released package." in result.output
    assert 'message="known: torch-causal-scale"' in junit


def test_what_is_known_fails_a_run_by_default(tmp_path, torch_has):
    torch_has(nans)
    result, known, junit = checked(tmp_path, "must")
    assert (1, 1, True) == (result.exit_code, known["cells"]["torch-causal-scale"], "<failure" in junit)


def test_a_new_fault_behind_a_known_one_is_told_as_new(tmp_path, torch_has):
    torch_has(lambda q, k, v, **more: nans(q, k, v, **more) * (1.5 if q.shape[2] == 5 else 1.0))
    result, known, junit = checked(tmp_path)
    assert (1, {}) == (result.exit_code, (known or {"cells": {}})["cells"])
    assert "<failure" in junit
    assert "No new failures" not in result.output


def test_a_finding_that_is_no_longer_seen_is_mended(tmp_path, torch_has, monkeypatch):
    torch_has(mended)
    finding = named("torch-causal-scale")
    (seen, *_) = finding.seen
    alone = replace(seen, laws=tuple(law for law in seen.laws if law == "causal_mask.definition"))
    monkeypatch.setattr(findings, "findings", lambda: (replace(finding, seen=(alone,)),))
    result, known, _ = checked(tmp_path)
    assert (0, {"cells": {}, "new": 0, "mended": ["torch-causal-scale"]}) == (result.exit_code, known)
    assert "fixed: torch-causal-scale no longer fails" in result.output


def test_a_finding_is_not_called_mended_after_some_of_its_laws(tmp_path, torch_has):
    torch_has(mended)
    result, known, _ = checked(tmp_path)
    assert (0, None, False) == (result.exit_code, known, "mended" in result.output)
