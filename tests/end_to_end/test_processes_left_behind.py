"""Processes of a run that are killed, that flood it while a file is imported, or that leave others behind."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from attnspec.errors import TargetError
from attnspec.execution import orphans, processes
from attnspec.execution.calling import Call
from attnspec.execution.supervisor import Supervisor, available
from attnspec.execution.transport import GoneError
from attnspec.subjects.targets import resolve

pytestmark = pytest.mark.skipif(not available(), reason="processes are not isolated on this system")
linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere descendants are not found")

KERNELS = """
import os, re, subprocess, time
import numpy as np
from attnspec import adapter

def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)

def declared(function):
    return adapter("softmax", framework="numpy")(function)

@declared
def right(x): return softmax(x)

@declared
def daemon(x):
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.setsid()
            time.sleep(600)
        os._exit(0)
    os.wait()
    return softmax(x)

@declared
def program(x):
    subprocess.Popen(["sleep", "600"], start_new_session=True, env={})
    return softmax(x)

@declared
def spins(x): return re.match("(a+)+$", "a" * 60 + "b")

@declared
def process(x): return np.full_like(x, os.getpid())
"""
GOOD = Call({"x": np.zeros((1, 2))}, {}, "float32")
ANSWER = np.full((1, 2), 0.5)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "kernels.py"
    path.write_text(KERNELS)
    return path


@pytest.fixture
def own():
    """A supervisor of this test alone."""
    made = Supervisor(30.0)
    yield made
    made.close()


def alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def gone(pids, seconds=10.0):
    """Whether processes have ended, or end soon."""
    until = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(alive, pids))


def same(reply, expected=ANSWER):
    assert None is reply.fault
    np.testing.assert_array_equal(expected, reply.outputs["p"])
    return True


# Imports


def imported(supervisor, tmp_path, text):
    path = tmp_path / "imported.py"
    path.write_text(text + KERNELS)
    (one,) = resolve(f"{path}:right", supervisor=supervisor)
    return one


def test_a_flood_at_import_is_an_error_of_the_target(own, tmp_path):
    with pytest.raises(TargetError, match=r"imported.py cannot be imported: it printed \d+ MiB\nx+"):
        imported(own, tmp_path, "import os\nwhile True: os.write(1, b'x' * 2**20)\n")


def test_a_file_that_prints_a_lot_at_once_is_an_error_too(own, tmp_path):
    with pytest.raises(TargetError, match="cannot be imported: it printed 20 MiB"):
        imported(own, tmp_path, "import os\nos.write(1, b'x' * (20 << 20))\n")


def test_a_file_that_forks_is_loaded_once(own, tmp_path):
    assert same(imported(own, tmp_path, "import os\nos.fork()\n").call(GOOD))


# Processes that are killed, or left behind


def fork_servers(supervisor):
    return [fork_server.process.pid for fork_server in supervisor._fork_servers.values()]


def test_a_nursery_that_is_killed_before_each_of_several_calls_costs_none(own, kernels):
    (one,) = resolve(f"{kernels}:right", supervisor=own)
    for number in range(8):
        pids = fork_servers(own)
        os.kill(pids[number % len(pids)], signal.SIGKILL)
        assert same(one.call(GOOD))


def test_all_processes_that_are_killed_at_once_cost_no_call(own, kernels):
    (one,) = resolve(f"{kernels}:process", supervisor=own)
    for _ in range(3):
        pid = int(one.call(GOOD).outputs["p"][0, 0])
        for each in (*fork_servers(own), pid):
            os.kill(each, signal.SIGKILL)
    assert None is one.call(GOOD).fault


def test_a_worker_that_is_killed_between_two_calls_is_replaced(own, kernels):
    (one,) = resolve(f"{kernels}:process", supervisor=own)
    pids = []
    for _ in range(4):
        reply = one.call(GOOD)
        assert None is reply.fault
        pids.append(int(reply.outputs["p"][0, 0]))
        (worker,) = own._workers.values()
        os.kill(pids[-1], signal.SIGKILL)
        with pytest.raises(GoneError):
            worker.process.wire.receive(10.0)
    assert 4 == len({*pids})


def descendants(pid):
    found = orphans.children_of(pid)
    return [*found, *(each for child in found for each in descendants(child))]


@linux
@pytest.mark.parametrize("name", ["daemon", "program"])
def test_what_a_worker_has_started_ends_with_it(own, kernels, name):
    (one,) = resolve(f"{kernels}:{name}", supervisor=own)
    (worker,) = (one.call(GOOD), *own._workers.values())[1:]
    left = descendants(worker.process.pid)
    assert left
    own.drop(one.caller.home)
    assert gone(left)
    assert same(one.call(GOOD))


@linux
def test_what_a_worker_has_started_ends_with_it_when_it_is_killed(own, kernels):
    (one,) = resolve(f"{kernels}:daemon", supervisor=own)
    assert same(one.call(GOOD))
    (worker,) = own._workers.values()
    left = descendants(worker.process.pid)
    for pid in (*fork_servers(own), worker.process.pid):
        os.kill(pid, signal.SIGKILL)
    own.close()
    assert left
    assert gone(left)


def test_closing_waits_neither_for_a_call_nor_for_a_fork_server_that_stands_still(kernels):
    supervisor = Supervisor(60.0)
    (one,) = resolve(f"{kernels}:spins", supervisor=supervisor)
    (neighbour,) = resolve(f"{kernels}:right", supervisor=supervisor)
    assert same(neighbour.call(GOOD))
    caller = threading.Thread(target=one.call, args=(GOOD,), daemon=True)
    caller.start()
    while len(supervisor._workers) < 2:
        time.sleep(0.01)
    pids = [worker.process.pid for worker in supervisor._workers.values()]
    for pid in fork_servers(supervisor):
        os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    supervisor.close()
    assert time.monotonic() - started < 10
    assert gone(pids)


@linux
def test_an_import_that_is_interrupted_leaves_no_process(own, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    before = orphans.children()
    monkeypatch.setattr(processes, "patiently", interrupted)
    with pytest.raises(KeyboardInterrupt):
        imported(own, tmp_path, "import time\ntime.sleep(60)\n")
    assert before >= orphans.children()
