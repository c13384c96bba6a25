"""Processes that a subject leaves behind: who inherits them, and how they are found and ended.

On Linux a process inherits what its descendants leave behind, however far they went from their session, and ends with
its own parent. Elsewhere only those of the same process group are found.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

MARK = "PROCESS_FAMILY"
"""The variable that descendants of a fresh process have in common."""
GRACE = 1.0
"""Seconds that a process has to end by itself, and that one has to be gone after it was killed."""
ROUNDS = 20
"""How often descendants are looked for: each that is ended may leave others behind."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def end_with_parent() -> None:
    """Have this process end when its parent does, however that ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def inherit() -> None:
    """Have this process be the parent of what its descendants leave behind."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value)


def mark() -> str:
    """A new value of `MARK`."""
    return secrets.token_hex(16)


def children() -> set[int]:
    """The children of this process."""
    return children_of(os.getpid())


def children_of(pid: int) -> set[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return {int(child) for task in tasks for child in (task / "children").read_text().split()}
    except OSError:
        return set()


def end_children(spared: Collection[int]) -> None:
    """End all children of this process but some, and what they leave behind in turn."""
    for _ in range(ROUNDS):
        others = children().difference(spared)
        if not others:
            return
        for pid in others:
            kill(pid)
        for pid in others:
            await_end(pid, GRACE)
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def end_marked(value: str) -> None:
    """End all processes that have a mark."""
    for _ in range(ROUNDS):
        found = [*marked(value)]
        if not found:
            return
        for pid in found:
            kill(pid)
        time.sleep(0.002)


def marked(value: str) -> Iterator[int]:
    """The processes that began with a mark, or descend from one that did, as long as they have run no other program."""
    wanted = f"{MARK}={value}".encode()
    with suppress(OSError):
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                if folder.name.isdigit() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


def kill(pid: int) -> None:
    """Kill a process, and the group that it leads."""
    for end in (os.killpg, os.kill):
        with suppress(OSError):
            end(pid, signal.SIGKILL)


def await_end(pid: int, grace: float = GRACE) -> None:
    """Wait until a child has ended, and kill it if that takes too long; its status can still be asked for."""
    pause, until = 0.0005, time.monotonic() + grace
    with suppress(ChildProcessError):
        for patient in (True, False):
            while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None and time.monotonic() < until:
                time.sleep(pause)
                pause = min(2 * pause, 0.02)
            if patient:
                kill(pid)
                until = time.monotonic() + GRACE


def status_of(pid: int) -> int | None:
    """The exit status of a child that has ended, as `waitpid` says it; None where nobody knows it."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except OSError:
        return None
    return status if ended else None
