"""What the audit costs: CPU seconds of every mechanism and every correct variant, the dearest first, and in all.

    python benchmarks/audit.py [MECHANISM ...]

All parts run one after another in one process, on one thread, as one worker of `attnspec audit` would run them.
Where other work shares the cores, CPU seconds grow as well: compare figures that were taken side by side.
"""

from __future__ import annotations

import os
import resource
import sys
import time

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from attnspec.auditing.audit import audited
from attnspec.auditing.parts import Part
from attnspec.cases.cache import LEDGER


def main(*mechanisms: str) -> None:
    spent: dict[str, float] = {}
    parts: list[Part] = []
    start = time.process_time()
    for part in audited(mechanisms):
        now = time.process_time()
        spent[part.name], start = now - start, now
        parts.append(part)
    width = max(map(len, spent))
    for name, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        print(f"  {name:<{width}} {seconds:7.1f}")
    correct = sum(spent[part.name] for part in parts if not part.kills)
    print(f"CPU seconds: {sum(spent.values()):.0f}, of which correct variants {correct:.0f}")
    print(f"faults: {sum(len(part.faults) for part in parts)}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory: {peak:.0f} MB at most; caches hold {LEDGER.total >> 20} MB of {LEDGER.budget >> 20} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
