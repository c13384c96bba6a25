"""The most memory of a process: its own, whoever has started it."""

import os
import subprocess
import sys

import pytest

from attnspec.execution.peak import peak

SCRIPT = """
from attnspec.execution.peak import peak
before = peak()
held = bytearray(b"1") * (64 << 20)
print(before, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process is asked what it counts from its start on")
def test_a_process_does_not_count_the_memory_of_the_one_that_has_started_it():
    held = bytearray(b"1") * (512 << 20)
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    before, more = map(int, done.stdout.split())
    assert before < len(held) < peak()
    assert 60 << 20 < more < 80 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is said of other processes")
def test_another_process_is_asked_by_its_number():
    assert peak(os.getpid()) == pytest.approx(peak(), rel=0.1)
    assert 0 == peak(1 << 30)
