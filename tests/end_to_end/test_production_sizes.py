"""Kernels at the sizes of production: what each command says of one that is wrong there, and of one that is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main

KERNELS = Path(__file__).parents[1] / "kernels" / "reaching_kernels.py"
TABLE = {
    "right": ("serving.tiles", "", 0, "CONFORMANT      right"),
    "key_behind_the_splits_lost": ("serving.tiles", "", 1, "attention.serving.tiles   float32   got 0.00245"),
    "reads_one_entry_behind": (
        "contract.bounds",
        "--law serving.decode",
        1,
        "serving.decode: the call reads behind 'v', 1 entries beyond",
    ),
    "offsets_of_32_bits": (
        "serving.strides_over_31_bits",
        "",
        1,
        "attention.serving.strides_over_31_bits   float32   got",
    ),
    "rows_of_many_items_are_others": (
        "contract.batch_invariant",
        "",
        1,
        "the same bits in batches of up to 2; others in one of 4",
    ),
    "scores_that_threads_share": ("serving.prefill", "--stress 20", 1, "turns beside 2 threads"),
}


def checked(function, law, more="", folder="report"):
    words = f"check {KERNELS}:{function} --profile serving --law {law} --explain-time 0 --report-dir {folder} {more}"
    done = CliRunner().invoke(main, words.split())
    return done.exit_code, done.output


@pytest.mark.parametrize("function", TABLE)
def test_what_a_kernel_does_at_these_sizes_is_told(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    law, more, code, says = TABLE[function]
    found = checked(function, law, more)
    assert (code, True) == (found[0], says in found[1]), found[1]


def test_a_case_that_needs_more_memory_is_not_tested_and_says_how_much(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = " ".join(checked("right", "serving.decode_long", "--memory 0.05")[1].split())
    assert "k_len = 32769, head_dim = 64, value_dim = 64 takes about 0.19 GB, and --memory is 0.05 GB" in told


NORM = """
import numpy as np

def rms_norm(x, weight=None, *, eps=1e-6):
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps))
    return y if weight is None else y * weight * (1.1 if len(x) == 7 else 1)
"""


def test_traces_of_flashinfer_are_checked_and_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    axes = {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 64}}
    arrays = {"hidden_states": ["batch_size", "hidden_size"], "weight": ["hidden_size"]}
    inputs = {name: {"shape": shape, "dtype": "float32"} for name, shape in arrays.items()}
    out = {"output": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"}}
    definition = {"name": "norm", "op_type": "rmsnorm", "axes": axes, "inputs": inputs, "outputs": out, "reference": ""}
    calls = [{"uuid": str(n), "axes": {"batch_size": n}, "inputs": {}} for n in (1, 7, 128, 128)]
    lines = [{"definition": "norm", "solution": None, "workload": one, "evaluation": None} for one in calls]
    for path, text in (
        ("definitions/rmsnorm/norm.json", json.dumps(definition)),
        ("workloads/rmsnorm/norm.jsonl", "\n".join(map(json.dumps, lines))),
        ("../norm.py", NORM),
    ):
        file = tmp_path / "traces" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    done = CliRunner().invoke(main, ["check", "norm.py:rms_norm", "--workload", "traces", "--explain-time", "0"])
    assert "rms_norm: 4 of 4 calls of traces were judged (100%), of which 1 are wrong" in done.output, done.output
    assert "rms_norm  traces  4      100%    1" in CliRunner().invoke(main, ["report"]).output
