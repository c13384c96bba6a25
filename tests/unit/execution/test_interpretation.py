"""Kernels in Triton on the CPU."""

import importlib.util
import os

import pytest

import attnspec
from attnspec.execution import interpretation
from attnspec.execution.interpretation import VARIABLE, has_kernels, interpreted, interpreting, is_interpreted

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def program(out, x, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    entries = tl.load(x + row * n + column, mask=column < n, other={other})
    shares = tl.exp(entries - tl.max(entries, 0))
    tl.store(out + row * n + column, shares / tl.sum(shares, 0), mask=column < n)


def softmax(x):
    assert x.is_cuda
    rows = x.contiguous().reshape(-1, x.shape[-1])
    out = torch.empty_like(rows)
    program[(rows.shape[0],)](out, rows, rows.shape[1], triton.next_power_of_2(rows.shape[1]))
    return out.reshape(x.shape)
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [("import triton\n", True), ("    from triton import jit\n", True), ("import tritonclient\n", False), ("", False)],
)
def test_a_file_with_kernels_imports_triton(tmp_path, monkeypatch, text, found):
    monkeypatch.setattr(interpretation.importlib.util, "find_spec", lambda name: name == "triton")
    (tmp_path / "kernels.py").write_text(text)
    assert found == has_kernels(tmp_path / "kernels.py")
    assert not has_kernels(tmp_path / "none.py")
    (tmp_path / "model.py").write_text("from kernels import softmax\n")
    assert found == has_kernels(tmp_path / "model.py")


def test_kernels_are_interpreted_where_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(interpretation.importlib.util, "find_spec", lambda name: name == "triton")
    path = tmp_path / "kernels.py"
    path.write_text("import triton\n")
    monkeypatch.setitem(os.environ, VARIABLE, "0")
    given = attnspec.adapters.Adapter("kernel", "", len, "torch")
    assert not is_interpreted(path)
    assert given is interpreted(given, path)
    with interpreting(path):  # does nothing
        pass
    monkeypatch.setitem(os.environ, VARIABLE, "1")
    assert interpretation.BY == interpreted(given, path).interpreted


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize(("other", "verdict"), [("-float('inf')", "conformant"), ("0.0", "violated")])
def test_a_plain_file_of_kernels_is_checked_without_a_device(tmp_path, other, verdict):
    (tmp_path / "kernels.py").write_text(KERNEL.replace("{other}", other))
    report = attnspec.check(f"{tmp_path / 'kernels.py'}:softmax", dtypes="float32", explain_time=0)
    assert {"softmax": verdict} == report.verdicts, report
    assert {interpretation.BY} == {run["interpreted"] for cell in report.cells if (run := cell.get("run"))}
