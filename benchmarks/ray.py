"""What a task costs on a Ray cluster beside its work. Run it as `python benchmarks/ray.py [TASKS [CPUS]]`.

Tasks are subjects of softmax at one dtype, which one process checks after the other on each of CPUS processors. A task
takes as long as its process needs to run its groups; what the processors had beyond that is the overhead. Beside it
stands the time of a task without work, and how many messages a driver takes in a second, which bounds a cluster.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

if str(Path(__file__).parent) in sys.path:  # where this file would be found in place of the package
    sys.path.remove(str(Path(__file__).parent))

import ray

from attnspec.runs.cluster import Cluster
from attnspec.runs.options import Options
from attnspec.runs.run import Run

KERNELS = """
import numpy as np
from attnspec import adapter

def shifted(x):
    with np.errstate(invalid="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True, initial=-1e30))
    return (p / p.sum(-1, keepdims=True)).astype(x.dtype)

for number in range({count}):
    adapter("softmax", framework="numpy", name=f"softmax_{{number}}", conventions={{"empty_row": "nans"}})(shifted)
"""
MESSAGES = 2000


def nothing(count: int) -> Iterator[str]:
    """So many messages of the length of a cell's."""
    for _ in range(count):
        yield json.dumps({"key": ["a"] * 4, "cells": ["x" * 1000]})


def main(tasks: int, processors: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.py")
        path.write_text(KERNELS.format(count=tasks))
        started = time.perf_counter()
        run = Run(Options((str(path),), on="ray", mechanisms=("softmax",), profile="quick"))
        print(f"{tasks} tasks found in {time.perf_counter() - started:.1f} s")
        with Cluster(run.runner, processors) as cluster:
            warm = run.groups[:processors]
            list(cluster.run(warm, lambda _: None))
            rest, work = run.groups[processors:], 0.0
            started = time.perf_counter()
            for cells in cluster.run(rest, lambda _: None):
                work += sum(cell["run"]["seconds"] for cell in cells if "run" in cell)
            whole = time.perf_counter() - started
            count = len(rest)
            print(f"{count} tasks on {processors} processors: {whole:.1f} s, {work / count:.3f} s of work each")
            print(f"overhead {100 * (whole * processors / work - 1):.1f} % of the work")
            empty = ray.remote(nothing).options(num_returns="streaming")
            started = time.perf_counter()
            for _ in range(100):
                for message in empty.remote(2):
                    json.loads(ray.get(message))
            print(f"a task without work and of two messages: {10 * (time.perf_counter() - started):.2f} ms")
            started = time.perf_counter()
            for message in empty.remote(MESSAGES):
                json.loads(ray.get(message))
            print(f"the driver takes {MESSAGES / (time.perf_counter() - started):.0f} messages a second")


if __name__ == "__main__":
    main(*(int(word) for word in [*sys.argv[1:], *("40", "2")[len(sys.argv) - 1 :]]))
