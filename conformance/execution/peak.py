"""The most memory that a process has used.

What `getrusage` says begins with that of the process which has started it, however small it is itself.
"""

from __future__ import annotations

import resource
import sys

STATUS = 1 << 14
"""Bytes that tell of a process, at most."""


def peak(pid: int | None = None) -> int:
    """The most memory that a process has used, or this one, in bytes; of another, 0 where it is not known."""
    try:
        with open(f"/proc/{pid or 'self'}/status", "rb", buffering=0) as file:  # which is asked for every call
            text = file.read(STATUS)
    except OSError:
        text = b""
    _, _, told = text.partition(b"\nVmHWM:")
    return int(told.split(maxsplit=1)[0]) << 10 if told else 0 if pid else _used()


def _used() -> int:
    unit = 1 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
