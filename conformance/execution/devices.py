"""Devices: whether the requested one is available, and which run may use it.

What is to be asked of a kind of device is in a small table; any other kind that a framework has is used as it is.
A process that makes calls on a device that is leased, as those of CUDA are, holds the lease as long as it lives, so
that runs do not share one. It is taken before anything is imported that would look at devices; what is leased is all
that the process sees.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import click

from ..errors import UsageError, did_you_mean
from ..frameworks.framework import NAMED, index_of, kind_of
from ..frameworks.known import FRAMEWORKS, is_installed

PAUSE = 0.2
"""Seconds between two looks for a device that is free."""
ASKING = 120
"""Seconds that a framework has to say which devices there are."""
COUNTING = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
print(json.dumps([torch.__version__, *map(torch.cuda.get_device_name, range(count))]))
"""
LISTING = """
from attnspec.frameworks.known import framework_named
print(*framework_named({name!r}).devices(), sep="\\n")
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is asked of devices of a kind; of what is not known, nothing."""

    visible: str = ""
    """The variable that names the devices that a process sees; where there is one, each is leased."""
    trouble: str = ""
    """What an error says, as a regular expression, after which every further call may fail."""


KINDS = {
    "cpu": Kind(),
    "cuda": Kind("CUDA_VISIBLE_DEVICES", "cuda|cublas|cudnn|device-side|accelerator"),
}
ELSEWHERE = ("gpu", "mps", "xpu", "hpu", "npu", "tpu", "rocm", "metal", "mtia", "xla")
"""Kinds that are no misspelling where there is no device of them, for which every framework is asked."""
UNKNOWN = Kind(trouble="accelerator|device lost|out of memory")


def kind_named(device: str) -> Kind:
    """What is asked of the kind of a device."""
    return KINDS.get(kind_of(device), UNKNOWN)


def is_leased(device: str) -> bool:
    """Whether runs take turns on the device."""
    return bool(kind_named(device).visible)


def check_device(device: str) -> None:
    """Raise `UsageError` for a device that is misspelt or missing."""
    if device == "cpu":
        return
    if not re.fullmatch(NAMED, device) or device.endswith(":"):
        raise UsageError(f"unknown device {device!r} (devices: cpu, cuda, cuda:N, or what a framework has)")
    kind = kind_of(device)
    if kind not in (*KINDS, *ELSEWHERE) and (meant := did_you_mean(kind, (*KINDS, *ELSEWHERE))):
        raise UsageError(f"unknown device {device!r}{meant} ('attnspec doctor' lists those that are here)")
    count = count_of(device)
    if is_leased(device) and count:
        if not re.fullmatch(rf"{kind}(:\d+)?", device):
            raise UsageError(f"unknown device {device!r} (devices: cpu, {kind}, {kind}:N)")
        if index_of(device) not in (None, *range(count)):
            raise UsageError(f"device {device!r}: there are {count} {kind.upper()} devices, numbered from 0")
        return
    if kind == "cuda":
        raise UsageError(f"device {device!r}: torch {counted()[0]} sees no CUDA device, and no other framework has one")
    names = {name for found in listed().values() for name in found}
    kinds = {kind_of(name) for name in names}
    if device not in names | kinds:
        there = "; ".join(f"{name}: {', '.join(found)}" for name, found in listed().items() if found)
        if kind in ELSEWHERE:
            raise UsageError(f"device {device!r}: no installed framework has it (available: {there})")
        raise UsageError(f"unknown device {device!r}{did_you_mean(device, names | kinds)} (available: {there})")


def is_here(device: str) -> bool:
    """Whether this machine has the device."""
    try:
        check_device(device)
    except UsageError:
        return False
    return True


def count_of(device: str) -> int:
    """How many devices of its kind there are; torch is asked for those of CUDA, and then whoever has one."""
    kind = kind_of(device)
    if kind == "cuda" and counted()[1]:
        return len(counted()[1])
    return max((len([x for x in names if kind_of(x) == kind]) for names in listed().values()), default=0)


@functools.cache
def counted() -> tuple[str, tuple[str, ...]]:
    """The version of torch and the models of CUDA devices, asked for in another process, which then forgets them."""
    done = subprocess.run([sys.executable, "-c", COUNTING], capture_output=True, text=True, check=False)
    try:
        version, *models = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        return "is broken, and", ()
    return version, tuple(models)


def model_of(device: str) -> str:
    """The model of a CUDA device that torch sees, such as "NVIDIA H100 80GB HBM3"; nothing for another device."""
    if kind_of(device) != "cuda":
        return ""
    models, index = counted()[1], index_of(device)
    return ", ".join(dict.fromkeys(models if index is None else models[index : index + 1]))


@functools.cache
def listed() -> dict[str, tuple[str, ...]]:
    """The devices of each framework that is installed, asked for in processes of their own."""
    names = [name for name in FRAMEWORKS if is_installed(name)]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(_listed, names), strict=True))


def _listed(name: str) -> tuple[str, ...]:
    command = [sys.executable, "-c", LISTING.format(name=name)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASKING, check=False)
    except subprocess.TimeoutExpired:
        return ()
    lines = [line.strip() for line in done.stdout.splitlines()]
    return tuple(line for line in lines if re.fullmatch(NAMED, line)) if done.returncode == 0 else ()


def workers_on(device: str, workers: int) -> int:
    """How many of so many processes can make calls on a device: of those that are leased, one for each."""
    if not is_leased(device):
        return workers
    return min(workers, 1 if index_of(device) is not None else count_of(device))


def seen_as(device: str) -> str:
    """A device as a process sees it that has a lease of it: the only one of its kind."""
    return f"{kind_of(device)}:0" if is_leased(device) else device


def in_trouble(device: str, says: str) -> bool:
    """Whether an error may have left a device in a state in which all further calls fail."""
    trouble = kind_named(device).trouble
    return bool(trouble) and re.search(trouble, says, re.IGNORECASE) is not None


class Lease:
    """The right to use one device, held until it is given back or the process ends."""

    def __init__(self, index: int, file: IO[str], variable: str) -> None:
        """`variable` names the devices that a process sees."""
        self.index, self._file, self._variable = index, file, variable

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables of a process that is to see this device alone."""
        visible = [name for name in variables.get(self._variable, "").split(",") if name]
        return {**variables, self._variable: visible[self.index] if self.index < len(visible) else str(self.index)}

    def give_back(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


def lease(device: str, count: int, folder: Path | None = None, say: Callable[[str], None] | None = None) -> Lease:
    """A lease of a device, or of any of `count`; waits, and says so, as long as others hold what is wanted."""
    kind, index = kind_of(device), index_of(device)
    wanted = range(count) if index is None else (index,)
    visible = [name for name in os.environ.get(KINDS[kind].visible, "").split(",") if name]
    said = False
    while True:
        for each in wanted:
            name = visible[each] if each < len(visible) else str(each)  # among all: others may see others of them
            name = re.sub(r"[^\w.]+", "_", name)
            file = _locked((folder or Path(tempfile.gettempdir())) / f"attnspec-{kind}{name}.lock")
            if file is not None:
                return Lease(each, file, KINDS[kind].visible)
        if not said:
            (say or _warn)(f"waiting for {device}, which another run is using")
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
