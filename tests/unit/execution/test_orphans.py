"""Processes that a subject leaves behind are found and ended."""

import os
import subprocess
import sys
import time

import pytest

from attnspec.execution import orphans

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere descendants are not found")
ASLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]


@pytest.fixture
def asleep():
    """Processes that sleep, ended with the test."""
    begun = []

    def asleep(**environment):
        begun.append(subprocess.Popen(ASLEEP, stdout=subprocess.PIPE, env={**os.environ, **environment}))
        begun[-1].stdout.readline()
        return begun[-1]

    yield asleep
    for process in begun:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_process_is_found_by_its_mark_and_no_other(asleep):
    value = orphans.mark()
    process = asleep(**{orphans.MARK: value})
    asleep(**{orphans.MARK: orphans.mark()})
    assert [process.pid] == [*orphans.marked(value)]


def test_what_has_a_mark_is_ended(asleep):
    value = orphans.mark()
    processes = [asleep(**{orphans.MARK: value}) for _ in range(3)]
    other = asleep()
    orphans.end_marked(value)
    assert [-9] * 3 == [process.wait(10) for process in processes]
    assert None is other.poll()


def test_children_are_ended_but_those_that_are_spared(asleep):
    spared = {*orphans.children(), asleep().pid}
    ended = asleep()
    orphans.end_children(spared)
    assert spared <= orphans.children()
    assert ended.pid not in orphans.children()


def test_a_process_that_does_not_end_is_killed_in_time(asleep):
    process = asleep()
    started = time.monotonic()
    orphans.await_end(process.pid, 0.1)
    assert 0.1 <= time.monotonic() - started < 10
    assert -9 == os.waitstatus_to_exitcode(orphans.status_of(process.pid))


def test_nobody_knows_how_somebody_elses_child_has_ended():
    assert None is orphans.status_of(1)
    orphans.await_end(1, 0.1)


def test_what_descendants_leave_behind_is_inherited():
    script = """
import os, time
from attnspec.execution import orphans
orphans.inherit()
if not os.fork():
    if not os.fork():
        os.setsid()
        time.sleep(600)
    os._exit(0)
os.wait()
print(len(orphans.children()))
orphans.end_children(())
print(len(orphans.children()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "1\n0\n" == done.stdout
