"""The most memory that a process has used.

What `getrusage` says begins with that of the process which has started it, however small it is itself.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak(pid: int | None = None) -> int:
    """The most memory that a process has used, or this one, in bytes; of another, 0 where it is not known."""
    try:
        lines = Path(f"/proc/{pid or 'self'}/status").read_text().splitlines()
    except OSError:
        lines = []
    told = next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), 0)
    return told or (0 if pid else _used())


def _used() -> int:
    unit = 1 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
