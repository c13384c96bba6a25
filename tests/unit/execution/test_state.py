"""What a call changes in its process is told by its name and set back, and what it may change is not told."""

import gc
import os
import random
import re
import resource
import signal
import sys
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from attnspec.adapters import Adapter
from attnspec.auditing.correct import CONTROLS, tried
from attnspec.auditing.faulty import audited_fault
from attnspec.cases.profiles import Profile
from attnspec.cli import main
from attnspec.execution.calling import Call
from attnspec.execution.settings import EVERYWHERE, settings_of
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.reporting.results import read
from attnspec.subjects.subject import AdapterSubject

SOFTMAX = library()["softmax"]
SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)
torch.use_deterministic_algorithms(False)  # which imports much when it is first called
X = Call({"x": np.array([[0.0, 1.0, 3.0]])}, {}, "float32")


def softmax(x):
    return torch.softmax(x, -1)


def subject_of(function):
    return AdapterSubject(Adapter("function", "softmax", function, "torch"), SOFTMAX)


def after(change):
    """What is said of a softmax that changes something, call by call."""

    def changes(x):
        change()
        return softmax(x)

    one = subject_of(changes)
    return [[(b.contract, b.says) for b in one.call(X).breaches] for _ in range(2)]


def setting(name, x):
    return lambda: setattr(sys, name, x)


def closed_limit():
    resource.setrlimit(resource.RLIMIT_NOFILE, (97, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def handler(*_):
    pass


CHANGES = {
    "numpy raises": (
        lambda: np.seterr(under="raise"),
        r"NumPy's reaction to floating-point errors \(\w+\) from \w+ to raise",
    ),
    "numpy calls": (
        lambda: np.seterrcall(handler),
        r"NumPy's reaction to floating-point errors \(call\) from None to .*",
    ),
    "flush": (
        lambda: torch.set_flush_denormal(True),
        r"the processor's arithmetic from subnormal numbers kept, rounding to nearest "
        r"to subnormal numbers flushed to zero, rounding to nearest",
    ),
    "dtype": (
        lambda: torch.set_default_dtype(torch.float64),
        r"torch's default dtype from torch.float32 to torch.float64",
    ),
    "device": (lambda: torch.set_default_device("meta"), r"torch's default device from cpu to meta"),
    "gradients": (lambda: torch.set_grad_enabled(False), r"torch's gradient mode from True to False"),
    "threads": (lambda: torch.set_num_threads(3), r"torch's number of threads from \d+ to 3"),
    "products": (
        lambda: torch.set_float32_matmul_precision("medium"),
        r"torch's precision of float32 products from highest to medium",
    ),
    "determinism": (
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        r"torch's deterministic mode from 0 to 1",
    ),
    "folder": (lambda: os.chdir("/"), r"the working directory from /.+ to /"),
    "environment": (lambda: os.environ.update(SCALE="2"), r"the environment variable SCALE"),
    "environment lost": (lambda: os.environ.pop("PATH", None), r"the environment variable PATH"),
    "umask": (lambda: os.umask(0o123), r"the umask from \d+ to 123"),
    "files": (closed_limit, r"the resource limit RLIMIT_NOFILE from \d+, \d+ to 97, \d+"),
    "filters": (lambda: warnings.simplefilter("always"), r"the filters of warnings"),
    "signals": (lambda: signal.signal(signal.SIGUSR1, handler), r"the handler of SIGUSR1"),
    "alarm": (lambda: signal.setitimer(signal.ITIMER_REAL, 1000), r"the interval timer from off to on"),
    "output": (setting("stdout", None), r"sys.stdout"),
    "path": (lambda: sys.path.insert(0, "/nowhere"), r"sys.path"),
    "hook": (setting("excepthook", handler), r"sys.excepthook"),
    "recursion": (lambda: sys.setrecursionlimit(3210), r"the recursion limit from \d+ to 3210"),
    "collection": (gc.disable, r"garbage collection from True to False"),
}


@pytest.fixture(autouse=True)
def as_before():
    """All that these tests change and that is not set back by what they test."""
    kept = [(one, one.read()) for one in settings_of("torch")]
    yield
    for one, before in kept:
        if one.read() != before:
            one.restore(before)


@pytest.mark.parametrize("case", CHANGES)
def test_a_setting_that_a_call_changes_is_told_by_its_name_and_set_back(case):
    change, says = CHANGES[case]
    before = [one.read() for one in settings_of("torch")]
    first, second = after(change)
    assert before == [one.read() for one in settings_of("torch")]
    assert first == second
    ((contract, told),) = first
    assert "state" == contract
    assert re.fullmatch(f"the call changed {says}", told)


def test_several_changes_of_one_call_are_told_together():
    def several():
        os.environ.update({f"SCALE_{i}": "1" for i in range(5)})

    (told, _) = after(several)
    parts = ", and ".join(f"the environment variable SCALE_{i}" for i in range(3))
    assert [("state", f"the call changed {parts}, and 2 more")] == told


def test_what_a_name_holds_is_made_safe():
    told, _ = after(lambda: os.environ.update({"\x1b[31m" + "x" * 500: "1"}))
    assert told[0][1].startswith(r"the call changed the environment variable \x1b[31mxxx")
    assert len(told[0][1]) < 200


def test_the_value_of_an_environment_variable_is_not_told():
    told, _ = after(lambda: os.environ.update(TOKEN="secret"))
    assert "secret" not in told[0][1]


def imports(change):
    """A change by a package that is imported in the first call."""

    def first():
        if "imported_by_a_test" not in sys.modules:
            sys.modules["imported_by_a_test"] = ModuleType("imported_by_a_test")
            change()

    return first


@pytest.mark.parametrize("case", ["environment", "filters", "signals", "path", "hook", "recursion", "collection"])
def test_what_packages_change_when_they_are_imported_is_no_breach_and_stays(case, monkeypatch):
    monkeypatch.delitem(sys.modules, "imported_by_a_test", raising=False)
    before = [one.read() for one in EVERYWHERE]
    assert [[], []] == after(imports(CHANGES[case][0]))
    assert before != [one.read() for one in EVERYWHERE]
    monkeypatch.delitem(sys.modules, "imported_by_a_test")


@pytest.mark.parametrize("case", ["numpy raises", "flush", "dtype", "threads", "folder", "umask"])
def test_no_import_changes_how_numbers_are_computed_or_files_are_found(case, monkeypatch):
    monkeypatch.delitem(sys.modules, "imported_by_a_test", raising=False)
    first, second = after(imports(CHANGES[case][0]))
    assert ["state"] == [contract for contract, _ in first]
    assert [] == second
    monkeypatch.delitem(sys.modules, "imported_by_a_test")


def test_what_is_set_back_within_a_call_is_no_breach():
    def within():
        with np.errstate(all="raise"), torch.enable_grad(), warnings.catch_warnings(), torch.random.fork_rng([]):
            warnings.simplefilter("error")
            torch.rand(1)

    assert [[], []] == after(within)


# Random states


@pytest.mark.parametrize(
    ("draw", "whose"),
    [(random.random, "Python"), (np.random.rand, "NumPy"), (lambda: torch.rand(1), "torch"), (random.seed, "Python")],
)
def test_to_draw_from_a_global_generator_is_told_and_not_undone(draw, whose):
    random.seed(1)
    state = random.getstate()
    told, _ = after(draw)
    assert [("random_state", f"the call changed the random state of {whose}")] == told
    assert (whose == "Python") == (state != random.getstate())


def test_a_generator_of_its_own_may_be_drawn_from():
    generators = random.Random(), np.random.default_rng(), torch.Generator()

    def draw():
        generators[0].random()
        generators[1].random()
        torch.rand(1, generator=generators[2])

    assert [[], []] == after(draw)


def cell_of(change, mechanism=SOFTMAX):
    def changes(x):
        change()
        return softmax(x)

    def drops(x, *, p=0.5, seed=0):
        change()
        return x.clone()

    one = AdapterSubject(
        Adapter("function", mechanism.operator, changes if mechanism is SOFTMAX else drops, "torch"),
        mechanism,
    )
    cells = run(Request(one, mechanism, "float32", SCENARIOS)).cells
    (found,) = (cell for cell in cells if cell.law == "contract.state")
    return found, [cell.law for cell in cells if cell.bad and cell.level == "must"]


def test_to_draw_should_not_be_and_other_changes_must_not_be():
    found, broken = cell_of(lambda: torch.rand(1))
    assert ("should", "fail", []) == (found.level, found.verdict, broken)
    found, broken = cell_of(CHANGES["dtype"][0])
    assert ("must", "fail", ["contract.state"]) == (found.level, found.verdict, broken)


def test_a_change_that_must_not_be_is_told_before_a_draw():
    found, _ = cell_of(lambda: (torch.rand(1), CHANGES["dtype"][0]()))
    assert ("must", True) == (found.level, "default dtype" in found.says)


def test_what_has_random_outputs_may_draw():
    found, _ = cell_of(lambda: torch.rand(1), library()["dropout"])
    assert "pass" == found.verdict


def test_a_change_of_the_very_first_call_is_not_lost():
    calls = []

    def once():
        calls.append(1)
        if len(calls) == 1:
            torch.set_default_dtype(torch.float64)

    found, broken = cell_of(once)
    assert ("fail", ["contract.state"]) == (found.verdict, broken)


# The audit


@pytest.mark.parametrize("name", ["default_dtype_left_behind", "flushed_for_speed"])
def test_the_audit_sees_faults_of_state_refuted(name):
    part = audited_fault(f"fault:{name}")
    assert [] == part.faults
    assert re.fullmatch(r"float32: softmax\.contract\.state on \w+ after \d+ checks", part.notes[0])


def test_the_audit_accuses_nobody_who_sets_back_what_was_changed():
    name = "control_settings_set_back"
    assert {name: []} == tried([name], "softmax", CONTROLS.draws).accused


# Neighbours


KERNELS = """
import os, resource, signal, sys, warnings
import numpy as np
import torch
from attnspec import adapter

def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)

def fork():
    if os.fork() == 0:
        raise RuntimeError("a child that goes on as if it were the worker")

TROUBLES = {
    "raising": lambda: np.seterr(all="raise"),
    "wide": lambda: torch.set_default_dtype(torch.float64),
    "elsewhere": lambda: os.chdir("/"),
    "warned": lambda: warnings.simplefilter("error"),
    "deaf": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "full": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)),
    "patched": lambda: setattr(np, "exp", None),
    "forking": fork,
    "right": lambda: None,
}
for name, trouble in TROUBLES.items():
    def kernel(x, trouble=trouble):
        p = softmax(x)
        trouble()
        return p
    kernel.__name__ = name
    kernel.__signature__ = __import__("inspect").signature(softmax)
    adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})(kernel)
"""


def test_what_subjects_do_to_their_process_is_no_trouble_of_those_that_follow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernels.py").write_text(KERNELS)
    CliRunner().invoke(main, ["check", "kernels.py", "--profile", "smoke"])
    cells = [line for line in read(Path("attnspec-report/results.ndjson")) if line["kind"] == "cell"]
    bad = {(cell["subject"], cell["law"]) for cell in cells if cell["verdict"] in ("fail", "error")}
    told = {"raising", "wide", "elsewhere", "warned", "deaf", "full"}
    assert told == {subject for subject, law in bad if law == "contract.state"}
    assert told | {"patched"} == {subject for subject, _ in bad}
    assert {"contract.state"} == {law for subject, law in bad if subject in told}
