"""Devices: asked for by name, leased one process at a time, and seen alone by those who make the calls."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from attnspec.errors import UsageError
from attnspec.execution import devices
from attnspec.execution.calling import Call
from attnspec.execution.devices import Lease, check_device, lease, workers_on
from attnspec.execution.supervisor import Supervisor
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
    for module in ("devices", "supervisor"):
        monkeypatch.setattr(f"attnspec.execution.{module}.counted", lambda: ("2.0", 2))


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("gpu", "unknown device 'gpu'"),
        ("cuda:", "unknown device 'cuda:'"),
        ("cuda:x", "unknown device 'cuda:x'"),
        ("cuda:2", "device 'cuda:2': there are 2 CUDA devices, numbered from 0"),
    ],
)
def test_a_device_that_is_misspelt_or_missing_is_refused(two, device, says):
    with pytest.raises(UsageError, match=says):
        check_device(device)


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", "cuda:1"])
def test_a_device_that_is_there_is_taken(two, device):
    check_device(device)


def test_a_machine_without_devices_says_so_with_the_version_of_torch(monkeypatch):
    monkeypatch.setattr(devices, "counted", lambda: ("2.13.0+cpu", 0))
    with pytest.raises(UsageError, match=r"device 'cuda': torch 2.13.0\+cpu sees no CUDA device"):
        check_device("cuda")


def test_devices_are_counted_in_another_process():
    version, count = devices.counted.__wrapped__()
    assert (True, True) == (version[0].isdigit(), count >= 0)


@pytest.mark.parametrize(
    ("device", "workers", "most"), [("cpu", 8, 8), ("cuda", 8, 2), ("cuda", 1, 1), ("cuda:1", 8, 1)]
)
def test_there_are_no_more_workers_than_devices(two, device, workers, most):
    assert most == workers_on(device, workers)


def test_leases_of_any_device_are_of_different_ones(tmp_path):
    with lease("cuda", 2, tmp_path) as first, lease("cuda", 2, tmp_path) as second:
        assert [0, 1] == [first.index, second.index]


def test_a_lease_is_waited_for_and_the_wait_is_said(tmp_path):
    said, found = [], []
    first = lease("cuda:1", 2, tmp_path)
    other = threading.Thread(target=lambda: found.append(lease("cuda:1", 2, tmp_path, said.append)))
    other.start()
    time.sleep(0.5)
    assert ([], ["waiting for cuda:1, which another run holds"]) == (found, said)
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
        variables = Lease(index, file).environment({"CUDA_VISIBLE_DEVICES": visible, "OTHER": "1"})
    assert {"CUDA_VISIBLE_DEVICES": seen, "OTHER": "1"} == variables


@pytest.mark.parametrize(("device", "seen"), [("cuda", 0), ("cuda:1", 1)])
def test_calls_are_made_where_the_lease_is(two, tmp_path, device, seen):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    supervisor = Supervisor(5.0, device)
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
    supervisor = Supervisor(5.0, "cuda")
    (one,) = resolve(f"{path}:kernel", supervisor=supervisor)
    replies = [one.call(Call(inputs, {}, "float32", "cuda")) for inputs in (GOOD, BAD, GOOD)]
    supervisor.close()
    assert ["", "raised", ""] == [reply.fault.kind if reply.fault else "" for reply in replies]
