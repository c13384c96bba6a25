"""What becomes of calls whose process dies, hangs, floods its output or forgets itself."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from attnspec.execution.calling import Call, Interface
from attnspec.execution.supervised import supervised
from attnspec.execution.supervisor import Supervisor, available
from attnspec.subjects.registered import find
from attnspec.subjects.targets import resolve

pytestmark = pytest.mark.skipif(not available(), reason="processes are not isolated on this system")

KERNELS = """
import ctypes, os, re, sys, time
import numpy as np
from attnspec import adapter

def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)

def declared(function):
    return adapter("softmax", framework="numpy")(function)

class Unpicklable(Exception):
    def __init__(self, first, second):
        self.keeps = lambda: first

calls = []

def count():
    calls.append(1)
    return len(calls)

@declared
def right(x): return softmax(x)

@declared
def crashes(x): return ctypes.string_at(0) if np.isnan(x).any() else softmax(x)

@declared
def aborts(x): return os.abort() if np.isnan(x).any() else softmax(x)

@declared
def leaves(x): return os._exit(3) if np.isnan(x).any() else softmax(x)

@declared
def exits(x): return sys.exit("enough") if np.isnan(x).any() else softmax(x)

@declared
def interrupts(x): raise KeyboardInterrupt

@declared
def raises(x): raise Unpicklable(1, 2)

@declared
def sleeps(x): return time.sleep(60) if np.isnan(x).any() else softmax(x)

@declared
def holds(x): return re.match("(a+)+$", "a" * 40 + "b") if np.isnan(x).any() else softmax(x)

@declared
def floods(x):
    while np.isnan(x).any():
        os.write(1, b"x" * 2**20)
    return softmax(x)

@declared
def strays(x):
    for number in range(3, 20):
        try:
            os.write(number, b"a line of text") if np.isnan(x).any() else None
        except OSError:
            pass
    return softmax(x)

@declared
def chats(x):
    print("a word or two")
    return softmax(x)

@declared
def tires(x):
    if count() == 3:
        os.kill(os.getpid(), 9)
    return softmax(x)

@declared
def process(x): return np.full_like(x, os.getpid())

@declared
def orphan(x):
    os.kill(os.getppid(), 9)
    time.sleep(60)

@declared
def dozes(x):
    time.sleep(0.3)
    return softmax(x)

@declared
def variable(x): return np.full_like(x, int(os.environ.get("SCALE", "1")))
"""
GOOD = Call({"x": np.zeros((1, 2))}, {}, "float32")
BAD = Call({"x": np.full((1, 2), np.nan)}, {}, "float32")
ANSWER = np.full((1, 2), 0.5)
TAKEN = Interface("attention", ("q", "k", "v"), ("out",), {})


@pytest.fixture(scope="module")
def supervisor():
    made = Supervisor(1.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "kernels.py"
    path.write_text(KERNELS)
    return path


@pytest.fixture
def subject(supervisor, kernels):
    def subject(name):
        (one,) = resolve(f"{kernels}:{name}", supervisor=supervisor)
        return one

    return subject


def alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def test_a_call_in_another_process_gives_what_it_gives_in_this_one(subject, kernels):
    (here,) = resolve(f"{kernels}:right")
    call = Call({"x": np.random.default_rng(0).normal(size=(300, 257))}, {}, "float32")
    elsewhere = subject("right")
    assert here.claims == elsewhere.claims
    np.testing.assert_array_equal(here.call(call).outputs["p"], elsewhere.call(call).outputs["p"])


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("crashes", "died", "the process died of SIGSEGV"),
        ("aborts", "died", "the process died of SIGABRT"),
        ("leaves", "died", "the process exited with status 3"),
        ("exits", "raised", "SystemExit: enough"),
        ("interrupts", "raised", "KeyboardInterrupt: (no message)"),
        ("raises", "raised", "Unpicklable: (1, 2)"),
        ("floods", "flooded", "printed"),
        ("strays", "died", "the process sent an invalid message"),
    ],
)
def test_a_call_that_ends_its_process_is_a_fault_and_the_next_one_is_answered(subject, name, kind, says):
    one = subject(name)
    if name not in ("interrupts", "raises"):
        np.testing.assert_array_equal(ANSWER, one.call(GOOD).outputs["p"])
    fault = one.call(BAD).fault
    assert (kind, True) == (fault.kind, fault.says.startswith(says))
    if name not in ("interrupts", "raises"):
        np.testing.assert_array_equal(ANSWER, one.call(GOOD).outputs["p"])


@pytest.mark.parametrize("name", ["sleeps", "holds"])
def test_a_call_that_hangs_is_ended_and_says_where_it_was(subject, name):
    one = subject(name)
    one.call(GOOD)
    fault = one.call(BAD).fault
    assert ("hung", "did not reply within 1 s") == (fault.kind, fault.says)
    assert f"in {name}" in fault.trace
    np.testing.assert_array_equal(ANSWER, one.call(GOOD).outputs["p"])


def test_what_a_crash_has_printed_is_kept_with_it(subject):
    assert "in crashes" in subject("crashes").call(BAD).fault.trace


def test_a_few_words_are_no_flood(subject):
    one = subject("chats")
    assert [None] * 3 == [one.call(GOOD).fault for _ in range(3)]


def test_a_death_that_depends_on_earlier_calls_says_so(subject):
    one = subject("tires")
    faults = [one.call(GOOD).fault for _ in range(3)]
    assert [None, None] == faults[:2]
    assert (
        "the process was killed (SIGKILL), which usually means that memory ran out; "
        "after earlier calls only: in a new process it is answered"
    ) == faults[2].says


def test_every_subject_of_a_file_has_a_process_of_its_own(subject):
    first, second = (subject("process") for _ in range(2))
    own, other, again = (one.call(GOOD).outputs["p"][0, 0] for one in (first, second, first))
    assert own == again
    assert 3 == len({own, other, os.getpid()})


def test_adapters_that_come_along_for_one_package_share_a_process(supervisor):
    sdpa, other = (
        supervised(supervisor, find(name), TAKEN, None, patient=False) for name in ("torch_sdpa", "torch_sdpa")
    )
    assert sdpa.home == other.home
    own = supervised(supervisor, replace(find("torch_sdpa"), package=""), TAKEN, None, patient=False)
    assert own.home != sdpa.home


def test_what_was_kept_of_many_calls_is_bounded_and_what_one_call_needs_is_not():
    supervisor = Supervisor()
    used = 2 * supervisor._memory
    assert [True, True] == [supervisor.outgrown(used, calls=100) for _ in range(2)]
    assert [True, False, True] == [supervisor.outgrown(size, calls=1) for size in (used, 2 * used, 5 * used)]


def test_a_process_that_uses_too_much_memory_is_replaced_between_calls(kernels, monkeypatch):
    monkeypatch.setattr("attnspec.execution.supervisor.FEW", 0)
    supervisor = Supervisor(60.0)
    supervisor._memory = 1 << 20
    (one,) = resolve(f"{kernels}:process", supervisor=supervisor)
    pids = {one.call(GOOD).outputs["p"][0, 0] for _ in range(3)}
    supervisor.close()
    assert 3 == len(pids)


@pytest.fixture(params=["the fork server", "the fork server of its framework"])
def doomed(request, supervisor, kernels):
    """How to kill what the workers of the kernels are forked from."""

    def kill():
        place = str(kernels) if request.param == "the fork server" else "numpy"
        os.kill(supervisor._fork_servers[place].process.pid, signal.SIGKILL)

    return kill


def test_a_process_that_is_lost_between_calls_along_with_its_nursery_is_replaced(subject, doomed):
    one = subject("right")
    for _ in range(2):
        np.testing.assert_array_equal(ANSWER, one.call(GOOD).outputs["p"])
        doomed()
        time.sleep(0.05)
    np.testing.assert_array_equal(ANSWER, one.call(GOOD).outputs["p"])
    assert "the process died of SIGSEGV" == subject("crashes").call(BAD).fault.says


def test_a_call_that_is_lost_along_with_its_nursery_is_made_once_more(subject, doomed):
    one = subject("dozes")
    one.call(GOOD)
    timer = threading.Timer(0.1, doomed)
    timer.start()
    np.testing.assert_array_equal(ANSWER, one.call(GOOD).outputs["p"])
    timer.join()


def test_a_file_is_declared_after_its_nursery_was_lost(subject, doomed):
    subject("right")
    doomed()
    np.testing.assert_array_equal(ANSWER, subject("right").call(GOOD).outputs["p"])


def test_a_call_that_ends_the_process_that_it_was_forked_from_is_a_fault(subject):
    fault = subject("orphan").call(GOOD).fault
    assert ("died", "3 times, the process was lost together with the process that forked it") == (
        fault.kind,
        fault.says,
    )
    np.testing.assert_array_equal(ANSWER, subject("right").call(GOOD).outputs["p"])


def test_the_environment_is_that_of_the_moment(subject, monkeypatch):
    for scale in ("2", "3"):
        monkeypatch.setenv("SCALE", scale)
        np.testing.assert_array_equal(np.full((1, 2), float(scale)), subject("variable").call(GOOD).outputs["p"])


def test_a_subject_outlives_a_change_of_what_its_file_was_loaded_with(subject, monkeypatch):
    first = subject("process")
    first.call(GOOD)
    monkeypatch.setenv("SCALE", "2")
    subject("process").call(GOOD)
    monkeypatch.delenv("SCALE")
    assert None is first.call(GOOD).fault
    assert None is subject("process").call(GOOD).fault


def test_closing_ends_every_process(kernels):
    supervisor = Supervisor(60.0)
    (one,) = resolve(f"{kernels}:process", supervisor=supervisor)
    pid = int(one.call(GOOD).outputs["p"][0, 0])
    assert alive(pid)
    supervisor.close()
    assert not alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process does not learn that its parent has died")
def test_no_process_outlives_a_run_that_is_killed(kernels, tmp_path):
    script = f"""
import sys, time
import numpy as np
from attnspec.execution.calling import Call, Interface
from attnspec.execution.supervisor import Supervisor
from attnspec.subjects.targets import resolve
(one,) = resolve({str(kernels) + ":process"!r}, supervisor=Supervisor(60.0))
print(int(one.call(Call({{"x": np.zeros((1, 2))}}, {{}}, "float64")).outputs["p"][0, 0]), flush=True)
time.sleep(60)
"""
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(run.stdout.readline())
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    for _ in range(100):
        if not alive(pid):
            break
        time.sleep(0.05)
    assert not alive(pid)


def test_where_forking_is_not_safe_a_worker_is_a_fresh_interpreter(tmp_path):
    path = tmp_path / "threads.py"
    path.write_text(
        KERNELS + "\nimport threading\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    supervisor = Supervisor(60.0)
    (one,) = resolve(f"{path}:crashes", supervisor=supervisor)
    assert "died" == one.call(BAD).fault.kind
    np.testing.assert_array_equal(ANSWER, one.call(GOOD).outputs["p"])
    supervisor.close()


def test_nothing_of_torch_is_imported_by_a_run_that_asks_others_to_call():
    script = """
import sys
from attnspec.runs.groups import groups
from attnspec.runs.options import Options
assert groups(Options(targets=("torch_softmax",)))
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "False\n" == done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads cannot be counted")
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_nursery_has_one_thread_whatever_the_run_has(monkeypatch, framework):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    supervisor = Supervisor(60.0)
    assert supervisor._fork_server(supervisor._bare(framework)).forks
    supervisor.close()


def test_who_never_answers_is_waited_for_patiently_twice_and_then_no_longer(tmp_path):
    path = tmp_path / "stuck.py"
    path.write_text("import time\ndef softmax(x): time.sleep(600)\n")
    supervisor = Supervisor(0.1)
    (stuck,) = resolve(f"{path}:softmax", framework="numpy", supervisor=supervisor)
    call = Call({"x": np.ones((1, 1), np.float32)}, {}, "float32", "cpu")
    says = [stuck.call(call).fault.says for _ in range(4)]
    supervisor.close()
    assert [f"did not reply within {seconds} s" for seconds in (0.4, 0.4, 0.1, 0.1)] == says
