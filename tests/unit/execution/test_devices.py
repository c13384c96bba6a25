"""Devices: asked for by name, leased one process at a time, and seen alone by those who make the calls."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from attnspec.api import check
from attnspec.errors import TargetError, UsageError
from attnspec.execution import devices
from attnspec.execution.calling import Call
from attnspec.execution.devices import Lease, check_device, lease, model_of, workers_on
from attnspec.execution.supervisor import Supervisor
from attnspec.frameworks import known
from attnspec.subjects.targets import resolve

KERNEL = """
import os
import numpy as np
from attnspec import adapter

broken = []

@adapter("softmax", framework="numpy")
def kernel(x):
    if np.isnan(x).any():
        broken.append(1)
    if broken:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return np.full_like(x, int(os.environ["CUDA_VISIBLE_DEVICES"]))
"""
GOOD = {"x": np.zeros((1, 1))}
BAD = {"x": np.full((1, 1), np.nan)}


@pytest.fixture
def two(monkeypatch, tmp_path):
    """Two devices, as far as anybody asks, with leases of their own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "counted", lambda: ("2.0", ("Old", "New")))
    found = {"torch": ("cpu", "cuda:0", "cuda:1"), "jax": ("cpu:0", "TPU_0(1,2)")}
    monkeypatch.setattr(devices, "listed", lambda: found)


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("gpu", r"no installed framework has it \(available: torch: cpu, cuda:0, cuda:1; jax: cpu:0, TPU_0\(1,2\)\)"),
        ("mps", r"device 'mps': no installed framework has it \(available: torch: cpu, cuda:0"),
        ("c\npu", "unknown device "),
        ("cpus:1", r"unknown device 'cpus:1'; did you mean 'cpu'\? \('attnspec doctor' lists those that are here\)"),
        ("abacus", r"unknown device 'abacus' \(available: torch"),
        ("cuda:", "unknown device 'cuda:'"),
        ("cuda:x", "unknown device 'cuda:x'"),
        ("cuda:2", "device 'cuda:2': there are 2 CUDA devices, numbered from 0"),
    ],
)
def test_a_device_that_is_misspelt_or_missing_is_refused(two, device, says):
    with pytest.raises(UsageError, match=says):
        check_device(device)


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", "cuda:1", "cpu:0", "TPU_0(1,2)"])
def test_a_device_that_is_there_is_taken(two, device):
    check_device(device)


def test_a_machine_without_devices_says_so_with_the_version_of_torch(monkeypatch):
    monkeypatch.setattr(devices, "counted", lambda: ("2.13.0+cpu", ()))
    monkeypatch.setattr(devices, "listed", dict)
    with pytest.raises(UsageError, match=r"device 'cuda': torch 2.13.0\+cpu sees no CUDA device"):
        check_device("cuda")


def test_devices_are_counted_in_another_process():
    version, models = devices.counted.__wrapped__()
    assert (True, tuple) == (version[0].isdigit(), type(models))


@pytest.mark.parametrize(
    ("device", "model"), [("cpu", ""), ("tpu:0", ""), ("cuda", "Old, New"), ("cuda:0", "Old"), ("cuda:1", "New")]
)
def test_the_model_of_a_device_is_told(two, device, model):
    assert model == model_of(device)


@pytest.mark.parametrize(
    ("device", "workers", "most"), [("cpu", 8, 8), ("cuda", 8, 2), ("cuda", 1, 1), ("cuda:1", 8, 1), ("mps", 8, 8)]
)
def test_there_are_no_more_workers_than_devices(two, device, workers, most):
    assert most == workers_on(device, workers)


def test_leases_of_any_device_are_of_different_ones(tmp_path):
    with lease("cuda", 2, tmp_path) as first, lease("cuda", 2, tmp_path) as second:
        assert [0, 1] == [first.index, second.index]


def test_runs_that_see_different_devices_do_not_wait_for_one_another(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-GPU-a/1/2")
    with lease("cuda", 1, tmp_path) as first:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
        with lease("cuda", 1, tmp_path) as second:
            assert [0, 0] == [first.index, second.index]


def test_a_lease_is_waited_for_and_the_wait_is_said(tmp_path):
    said, found = [], []
    first = lease("cuda:1", 2, tmp_path)
    other = threading.Thread(target=lambda: found.append(lease("cuda:1", 2, tmp_path, said.append)))
    other.start()
    time.sleep(0.5)
    assert ([], ["waiting for cuda:1, which another run is using"]) == (found, said)
    first.give_back()
    other.join(5)
    assert [1] == [each.index for each in found]
    found[0].give_back()


def test_a_process_that_dies_gives_its_lease_back(tmp_path):
    script = f"""
import os
from pathlib import Path
from attnspec.execution.devices import lease
held = lease("cuda", 1, Path({str(tmp_path)!r}))
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    with lease("cuda", 1, tmp_path) as held:
        assert 0 == held.index


@pytest.mark.parametrize(
    ("visible", "index", "seen"), [("", 1, "1"), ("4,7", 1, "7"), ("GPU-a,GPU-b", 0, "GPU-a"), ("4", 3, "3")]
)
def test_a_process_sees_the_leased_device_alone(tmp_path, visible, index, seen):
    with (tmp_path / "lock").open("w") as file:
        variables = Lease(index, file, "CUDA_VISIBLE_DEVICES").environment(
            {"CUDA_VISIBLE_DEVICES": visible, "OTHER": "1"}
        )
    assert {"CUDA_VISIBLE_DEVICES": seen, "OTHER": "1"} == variables


@pytest.mark.parametrize(("device", "seen"), [("cuda", 0), ("cuda:1", 1)])
def test_calls_are_made_where_the_lease_is(two, tmp_path, device, seen):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    supervisor = Supervisor(60.0, device)
    (one,) = resolve(f"{path}:kernel", supervisor=supervisor)
    assert seen == one.call(Call(GOOD, {}, "float32", device)).outputs["p"][0, 0]
    with lease("cuda", 2, tmp_path) as other:
        assert 1 - seen == other.index
    supervisor.close()
    with lease(f"cuda:{seen}", 2, tmp_path) as again:
        assert seen == again.index


def test_after_an_error_of_the_device_the_next_call_finds_a_fresh_process(two, tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    supervisor = Supervisor(60.0, "cuda")
    (one,) = resolve(f"{path}:kernel", supervisor=supervisor)
    replies = [one.call(Call(inputs, {}, "float32", "cuda")) for inputs in (GOOD, BAD, GOOD)]
    supervisor.close()
    assert ["", "raised", ""] == [reply.fault.kind if reply.fault else "" for reply in replies]


def test_devices_of_cuda_that_torch_does_not_see_are_those_of_another_framework(monkeypatch):
    monkeypatch.setattr(devices, "counted", lambda: ("2.13.0+cpu", ()))
    monkeypatch.setattr(devices, "listed", lambda: {"torch": ("cpu",), "cupy": ("cuda:0", "cuda:1")})
    check_device("cuda:1")
    assert 2 == devices.count_of("cuda")


def test_the_devices_of_a_framework_are_asked_for_in_another_process():
    assert ("cpu",) == devices._listed("numpy")
    assert () == devices._listed("no_framework")


# A device that nobody knows, all the way

FAKE = """
import os
import numpy as np
from attnspec import adapter
from attnspec.frameworks.framework import Copied, kind_of
from attnspec.frameworks.known import FRAMEWORKS

waits = []

class Grid:
    def __init__(self, entries, device):
        self.entries, self.device = entries, device
        self.shape, self.dtype = entries.shape, entries.dtype

class Grids(Copied):
    name = "grids"

    def put(self, entries, device):
        return Grid(entries, device)

    def taken(self, x):
        return x.entries

    def is_array(self, x):
        return isinstance(x, Grid)

    def device(self, x):
        return x.device

    def devices(self):
        return ["grid:0", "grid:1"]

    def finish(self, result, device):
        waits.append(device)

FRAMEWORKS["grids"] = Grids

@adapter("softmax", framework="grids", devices="grid")
def softmax(x):
    e = np.exp(x.entries - x.entries.max(-1, keepdims=True, initial=-np.inf))
    return Grid(e / e.sum(-1, keepdims=True), x.device)

@adapter("softmax", framework="grids", devices="grid")
def softmax_of_waits(x):
    seen = int(os.environ.get("GRIDS", -1))
    return Grid(np.full_like(x.entries, 100 * seen + len(waits)), "cpu" if len(waits) > 1 else x.device)
"""


@pytest.fixture
def grid(monkeypatch, tmp_path):
    """A file of two kernels on a device of a framework of its own, which this process knows as well."""
    path = tmp_path / "grids.py"
    path.write_text(FAKE)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(known.FRAMEWORKS, "grids", object)
    monkeypatch.setattr(devices, "listed", lambda: {"torch": ("cpu",), "grids": ("grid:0", "grid:1")})
    return path


def test_a_device_that_nobody_knows_goes_all_the_way_through_a_check(grid):
    report = check(f"{grid}:softmax", device="grid:1", mechanisms=("softmax",), profile="smoke")
    assert report
    assert {"grid:1"} == {line["device"] for line in report.lines if line["kind"] == "cell"}


def test_calls_on_a_device_are_waited_for_and_hold_no_lease_of_an_unknown_kind(grid, tmp_path):
    supervisor = Supervisor(60.0, "grid:1")
    (one,) = resolve(f"{grid}:softmax_of_waits", device="grid", supervisor=supervisor)
    replies = [one.call(Call(GOOD, {}, "float32", "grid:1")) for _ in range(3)]
    supervisor.close()
    assert [-100, -99, -98] == [reply.outputs["p"][0, 0] for reply in replies]
    assert [(), (), ("the output 'p' is on cpu, not on grid:1",)] == [
        tuple(breach.says for breach in reply.breaches) for reply in replies
    ]
    assert [] == list(tmp_path.glob("*.lock"))


def test_a_kind_that_is_in_the_table_is_leased_and_seen_alone(grid, tmp_path, monkeypatch):
    monkeypatch.setitem(devices.KINDS, "grid", devices.Kind("GRIDS"))
    check_device("grid:1")
    supervisor = Supervisor(60.0, "grid:1")
    (one,) = resolve(f"{grid}:softmax_of_waits", device="grid", supervisor=supervisor)
    assert 100 == one.call(Call(GOOD, {}, "float32", "grid:1")).outputs["p"][0, 0]
    with lease("grid", 2, tmp_path) as other:
        assert 0 == other.index
    supervisor.close()
    with pytest.raises(UsageError, match="there are 2 GRID devices, numbered from 0"):
        check_device("grid:2")


def test_a_subject_that_is_declared_for_a_device_is_not_called_on_another(grid):
    supervisor = Supervisor(60.0)
    with pytest.raises(TargetError, match="softmax does not run on cpu; add --device grid"):
        resolve(f"{grid}:softmax", supervisor=supervisor)
    supervisor.close()
