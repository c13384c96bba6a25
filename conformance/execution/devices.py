"""Devices: whether the one that a run was asked for is there, and whose turn it is.

A process that makes calls on a CUDA device holds a lease of it as long as it lives, so that runs do not share one.
It is taken before anything is imported that would look at devices; what is leased is all that the process sees.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Self

import click

from ..errors import UsageError

VISIBLE = "CUDA_VISIBLE_DEVICES"
COUNTING = "import torch; print(torch.__version__, torch.cuda.device_count() if torch.cuda.is_available() else 0)"
PAUSE = 0.2
"""Seconds between two looks for a device that is free."""


def check_device(device: str) -> None:
    """Raise `UsageError` for a device that is misspelt or missing."""
    if device == "cpu":
        return
    if not re.fullmatch(r"cuda(:\d+)?", device):
        raise UsageError(f"unknown device {device!r} (devices: cpu, cuda, cuda:N)")
    version, count = counted()
    if not count:
        raise UsageError(f"device {device!r}: torch {version} sees no CUDA device")
    if index_of(device) not in (None, *range(count)):
        raise UsageError(f"device {device!r}: there are {count} CUDA devices, numbered from 0")


def index_of(device: str) -> int | None:
    """The number of a CUDA device; None where any will do."""
    number = device.partition(":")[2]
    return int(number) if number else None


@functools.cache
def counted() -> tuple[str, int]:
    """The version of torch and the number of CUDA devices, asked for in another process, which then forgets them."""
    done = subprocess.run([sys.executable, "-c", COUNTING], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return (words[-2], int(words[-1])) if len(words) >= 2 and words[-1].isdigit() else ("is broken, and", 0)


def workers_on(device: str, workers: int) -> int:
    """How many of so many processes can make calls on a device: one for each that there is."""
    return workers if device == "cpu" else min(workers, 1 if index_of(device) is not None else counted()[1])


class Lease:
    """The right to use one CUDA device, held until it is given back or the process ends."""

    def __init__(self, index: int, file: IO[str]) -> None:
        self.index, self._file = index, file

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables of a process that is to see this device alone."""
        visible = [name for name in variables.get(VISIBLE, "").split(",") if name]
        return {**variables, VISIBLE: visible[self.index] if self.index < len(visible) else str(self.index)}

    def give_back(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


def lease(device: str, count: int, folder: Path | None = None, say: Callable[[str], None] | None = None) -> Lease:
    """A lease of a device, or of any of `count`; waits, and says so, as long as others hold what is wanted."""
    index = index_of(device)
    wanted = range(count) if index is None else (index,)
    said = False
    while True:
        for each in wanted:
            file = _locked((folder or Path(tempfile.gettempdir())) / f"attnspec-cuda{each}.lock")
            if file is not None:
                return Lease(each, file)
        if not said:
            (say or _warn)(f"waiting for {device}, which another run holds")
            said = True
        time.sleep(PAUSE)


def _locked(path: Path) -> IO[str] | None:
    """The file of a lease, locked; None where another process holds it."""
    import fcntl

    number = os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)
    file = os.fdopen(number)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _warn(text: str) -> None:
    click.echo(f"attnspec: {text}", err=True)
