"""What a CUDA device shows: kernels that run there alone, precision that is usual there, and calls that break it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.execution.devices import counted
from attnspec.subjects.registered import find, installed

pytestmark = pytest.mark.skipif(not counted()[1], reason="there is no CUDA device")
EXAMPLES = Path(__file__).parents[2] / "examples"
KERNELS = {
    **dict.fromkeys(("torch_softmax", "torch_sdpa_math", "torch_sdpa_efficient"), "float32"),
    **dict.fromkeys(("liger_rms_norm", "fla_recurrent_gla"), "float32"),
    **dict.fromkeys(("torch_flex", "vllm_unified_attention", "vllm_decode_attention"), "bfloat16"),
    **dict.fromkeys(("sglang_extend_attention", "sglang_table_qk_norm_rope"), "bfloat16"),
}
ASSERTED = """import torch
def softmax(x):
    if x.shape[-1] == 6:
        torch.zeros(1, device=x.device)[torch.tensor([7], device=x.device)]
    return torch.softmax(x, -1)
"""
UNMASKED = """import torch, triton
import triton.language as tl
@triton.jit
def rows(x, y, n, size: tl.constexpr):
    at = tl.arange(0, size)
    row = tl.load(x + tl.program_id(0) * n + at)
    e = tl.exp(row - tl.max(row, 0))
    tl.store(y + tl.program_id(0) * n + at, e / tl.sum(e, 0), mask=at < n)
def softmax(x):
    x, y = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    if y.numel():
        rows[(y.numel() // y.shape[-1],)](x, y, y.shape[-1], triton.next_power_of_2(y.shape[-1]))
    return y
"""


@pytest.fixture(autouse=True)
def leases(monkeypatch, tmp_path):
    """Leases of one's own: these tests may share a device."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def checked(target, *more, path):
    """The exit code of a check on the device, its lines, and what it prints."""
    command = ["check", str(target), "--device", "cuda", "--profile", "smoke", "--report-dir", str(path), *more]
    done = CliRunner().invoke(main, command)
    return done.exit_code, [json.loads(x) for x in (path / "results.ndjson").read_text().splitlines()], done.output


@pytest.mark.parametrize(("name", "dtype"), KERNELS.items(), ids=[*KERNELS])
def test_a_released_kernel_gives_what_its_definition_says(name, dtype, tmp_path):
    one = find(name)
    if not installed(one):
        pytest.skip(f"{one.package} is not installed")
    code, lines, output = checked(name, "--dtype", dtype, "--law", f"{one.operator}.definition", path=tmp_path)
    assert (0, ["pass"]) == (code, [x["verdict"] for x in lines if x["kind"] == "cell"]), output
    assert "interpreted by" not in output


def test_the_header_tells_the_model_of_the_device(tmp_path):
    _, (header, *_), output = checked("torch_softmax", "--law", "softmax.definition", path=tmp_path)
    assert (counted()[1][0], True) == (header["model"], f"cuda ({header['model']})" in output)


def test_products_of_float32_on_tensor_cores_do_not_fail_a_kernel(tmp_path):
    pytest.importorskip("triton")
    code, lines, output = checked(EXAMPLES / "triton/attention.py:attention", "--mechanism", "attention", path=tmp_path)
    cell = next(x for x in lines if x["kind"] == "cell" and x["law"] == "contract.precision")
    assert (0, "should", "behaves as tf32, claims fp32") == (code, cell["level"], cell["says"]), output
    assert "float32 behaves as tf32, as is usual on cuda: if intended, declare the grade" in output


def test_a_call_that_breaks_the_device_does_not_end_the_run(tmp_path):
    (tmp_path / "kernel.py").write_text(ASSERTED)
    code, lines, output = checked(tmp_path / "kernel.py:softmax", path=tmp_path)
    verdicts = [x["verdict"] for x in lines if x["kind"] == "cell"]
    assert (1, True, True) == (code, "device-side assert" in output, verdicts.count("pass") > 5), output


def test_entries_beyond_a_row_are_seen_to_be_read(tmp_path):
    pytest.importorskip("triton")
    (tmp_path / "kernel.py").write_text(UNMASKED)
    code, lines, output = checked(tmp_path / "kernel.py:softmax", path=tmp_path)
    assert 1 == code, output
    assert "softmax.definition" in {f"{x['mechanism']}.{x['law']}" for x in lines if x.get("verdict") == "fail"}


def test_a_wrong_kernel_is_named(tmp_path):
    code, _, output = checked(EXAMPLES / "wrong_scale.py", path=tmp_path)
    assert (1, True) == (code, "Like" in output), output
