"""Memory that is used again."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from attnspec.numerics.workspace import Workspace, _allocator


def test_memory_is_used_again_once_no_view_of_it_is_left():
    work = Workspace()
    first = work.empty((4, 5))
    first[:] = 1
    second = work.empty((4, 5))
    second[:] = 2
    assert (first == 1).all()
    place = second.__array_interface__["data"][0]
    del second
    third = work.empty((2, 10))
    assert third.__array_interface__["data"][0] == place
    assert third.shape == (2, 10)
    assert third.dtype == np.float32
    assert work.nbytes == 2 * 20 * 4


def test_a_part_of_an_array_keeps_all_of_it():
    work = Workspace()
    whole = work.empty((6, 7))
    row = whole.transpose()[3, 2:4]
    row[:] = 3
    del whole
    others = [work.empty((6, 7)) for _ in range(3)]
    for other in others:
        other[:] = 4
    assert row.tolist() == [3, 3]


def test_what_torch_sees_is_kept():
    import torch

    work = Workspace()
    seen = torch.from_numpy(work.empty((8,)))
    seen.fill_(5)
    work.empty((8,))[:] = 6
    assert seen.tolist() == [5] * 8


def test_memory_that_is_too_small_makes_room():
    work = Workspace()
    work.empty((10,))
    assert work.empty((20,)).size == 20
    assert work.nbytes == 80


USED = """
import resource
import numpy as np
from attnspec.numerics.workspace import memory_kept


def cleared():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        np.empty(1 << 20, np.float64).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


apart = cleared()
with memory_kept():
    np.empty(1 << 20, np.float64).fill(1)
    kept = cleared()
before = resident()
with memory_kept():
    np.empty(1 << 24, np.float64).fill(1)
    held = resident() - before
print(apart > 8, kept <= apart // 2, held > 100 << 20, resident() - before < 20 << 20)
"""


def test_large_arrays_find_the_memory_of_those_before_them_and_it_is_given_back():
    """Where arrays are mapped one by one, each page is cleared at a touch; a new process has no other memory."""
    if _allocator() is None:
        pytest.skip("another allocator than that of glibc")
    done = subprocess.run([sys.executable, "-c", USED], capture_output=True, text=True, check=True)
    assert "True True True True" == done.stdout.strip()
