"""Kernels in OpenCL are checked by the protocol; skipped where no driver compiles them."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import attnspec
from attnspec.cli import main

pyopencl = pytest.importorskip("pyopencl")


def builds():
    """Whether there is a driver of OpenCL that compiles for this processor, which may be newer than the driver."""
    try:
        pyopencl.Program(pyopencl.create_some_context(interactive=False), "kernel void nothing() {}").build()
    except pyopencl.Error:
        return False
    return True


pytestmark = pytest.mark.skipif(not builds(), reason="there is no driver of OpenCL that compiles for this processor")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "protocol"


def program(folder, change=lambda source: source):
    """The example as a program, with its source changed."""
    for name in ("kernels.py", "kernels_opencl.py"):
        (folder / name).write_text(change((EXAMPLES / name).read_text("utf-8")), "utf-8")
    return f"exec:{sys.executable} {folder / 'kernels_opencl.py'}"


def test_kernels_in_opencl_are_conformant_and_keep_the_protocol(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = program(tmp_path)
    assert {"softmax_opencl": "conformant", "attention_opencl": "conformant"} == attnspec.check(target).verdicts
    assert 0 == CliRunner().invoke(main, ["check-protocol", target.removeprefix("exec:")]).exit_code


@pytest.mark.parametrize(
    ("before", "after", "like"),
    [
        ("j > last ?", "j > last + 1 ?", "causal_mask.sees_next"),
        ("row / q_len / group * k_len * dim", "row / q_len % group * k_len * dim", ""),
        ("barrier(CLK_LOCAL_MEM_FENCE);\n    room[me] = total;", "room[me] = total / (me + 1);", ""),
    ],
)
def test_a_wrong_kernel_in_opencl_is_refuted(tmp_path, monkeypatch, before, after, like):
    monkeypatch.chdir(tmp_path)
    target = program(tmp_path, lambda source: source.replace(before, after))
    run = CliRunner().invoke(main, ["check", f"{target}::attention_opencl", "--profile", "smoke"])
    assert (1, True) == (run.exit_code, like in run.stdout)
