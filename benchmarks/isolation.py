"""What it costs to make a call in another process. Run it as `python benchmarks/isolation.py [ROUNDS]`.

Small calls on one function, in this process and in a worker, by turns in the same run; the median of the differences is
the cost. Also how long it takes to replace a worker that has died.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from attnspec.calling import Call
from attnspec.subject import AdapterSubject
from attnspec.supervisor import Supervisor
from attnspec.targets import resolve

KERNEL = """
import os
import torch
from attnspec import adapter

@adapter("attention")
def kernel(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)

@adapter("attention")
def dies(q, k, v):
    os.abort()
"""


def microseconds(subject: AdapterSubject, call: Call) -> float:
    started = time.perf_counter()
    subject.call(call)
    return 1e6 * (time.perf_counter() - started)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    supervisor = Supervisor()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.py")
        path.write_text(KERNEL)
        here, elsewhere, dies = (
            subject
            for target, by in ((f"{path}:kernel", None), (f"{path}:kernel", supervisor), (f"{path}:dies", supervisor))
            for subject in resolve(target, supervisor=by)
            if isinstance(subject, AdapterSubject)
        )
        rng = np.random.default_rng(0)
        for shape in ((1, 2, 4, 8), (2, 4, 64, 64)):
            call = Call({name: rng.normal(size=shape) for name in "qkv"}, {}, "float32")
            with here.session():
                for subject in (here, elsewhere):
                    microseconds(subject, call)
                pairs = [(microseconds(here, call), microseconds(elsewhere, call)) for _ in range(rounds)]
            direct, isolated = (statistics.median(times) for times in zip(*pairs, strict=True))
            cost = statistics.median(b - a for a, b in pairs)
            print(f"{shape}: {direct:.0f} us here, {isolated:.0f} us elsewhere, {cost:.0f} us for the isolation")
        deaths = [microseconds(dies, call) for _ in range(20)]
        print(f"a call that ends its process, with a new one: {statistics.median(deaths) / 1e3:.0f} ms")
    supervisor.close()


if __name__ == "__main__":
    main()
