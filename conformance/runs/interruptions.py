"""How a run ends when interrupted by SIGINT or SIGTERM: within a second, with all results so far."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _leave_it(number: int, frame: FrameType | None) -> None:
    """Whoever controls this process ends it. A handler, for what is merely ignored would be so in its children too."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Take SIGTERM for an interruption, which alone leaves no end of the records, unless somebody else handles it."""
    free = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if free:
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        if free:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def wait_for_the_end() -> None:
    """In a process that another one controls: let that one decide what becomes of an interruption at the terminal."""
    with suppress(ValueError):  # raised beside the main thread
        signal.signal(signal.SIGINT, _leave_it)


def end_workers(config: Any) -> None:
    """End the processes that pytest-xdist has started; those that make calls for them end along with them.

    By itself it gives each of them ten seconds to come to the end of what it is doing.
    """
    manager = getattr(config.pluginmanager.get_plugin("dsession"), "nodemanager", None)
    for gateway in getattr(manager, "group", ()):
        with suppress(AttributeError, OSError):
            gateway._io.kill()


def leave(code: int) -> NoReturn:
    """End this process without taking everything in it apart.

    That takes seconds where torch is loaded, or all specifications are.
    """
    with suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
