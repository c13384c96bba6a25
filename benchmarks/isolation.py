"""What it costs to make a call in another process. Run it as `python benchmarks/isolation.py [ROUNDS]`, on Linux.

Calls on one function, in this process and in a worker, by turns in the same run; the median of the differences is the
cost. Beside it stands the time of processors that it takes in both processes together, which hardly depends on what
else the machine does, and the floor: messages as long, there and back, between two processes that do nothing else.
Also how long it takes to replace a worker that has died.
"""

from __future__ import annotations

import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgpack
import numpy as np

from attnspec.data.coding import written
from attnspec.execution.calling import Call, Reply
from attnspec.execution.messages import Answer, Ask, Made, Make
from attnspec.execution.supervisor import Supervisor
from attnspec.subjects.subject import AdapterSubject
from attnspec.subjects.targets import resolve

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


def microseconds(ask: Callable[[], object]) -> float:
    started = time.perf_counter()
    ask()
    return 1e6 * (time.perf_counter() - started)


def spent(*processes: int) -> float:
    """The time of processors that processes have had, in microseconds."""
    return 1e6 * sum(time.clock_gettime(~process << 3 | 2) for process in processes)  # as clock_getcpuclockid has it


class Echo:
    """A process that answers so many bytes with so many others."""

    def __init__(self, sent: int, returned: int) -> None:
        self.sent, self.returned = bytes(sent), bytes(returned)
        self.end, other = socket.socketpair()
        self.process = os.fork()
        if not self.process:
            self.end.close()
            while received(other, sent):
                other.sendall(self.returned)
            os._exit(0)
        other.close()

    def ask(self) -> None:
        self.end.sendall(self.sent)
        received(self.end, len(self.returned))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end.close()
        os.waitpid(self.process, 0)


def received(end: socket.socket, count: int) -> bool:
    while count > 0:
        data = end.recv(1 << 18)
        if not data:
            return False
        count -= len(data)
    return True


def lengths(call: Call, reply: Reply) -> tuple[int, int]:
    """Of the message that asks for a call, and of the one that answers."""
    asked, answer = Ask(1, Make(1, call)), Answer(1, os.getpid(), Made(reply, 1 << 28))
    return len(msgpack.packb(written(asked))), len(msgpack.packb(written(answer)))


def compare(here: AdapterSubject, elsewhere: AdapterSubject, worker: int, call: Call, rounds: int) -> str:
    """What `rounds` calls cost in either process, in words."""
    direct, isolated, echoed, used = [], [], [], 0.0
    with Echo(*lengths(call, here.call(call))) as echo:
        for _ in range(rounds):
            first = spent(os.getpid(), worker)
            direct.append(microseconds(lambda: here.call(call)))
            then = spent(os.getpid(), worker)
            isolated.append(microseconds(lambda: elsewhere.call(call)))
            used += spent(os.getpid(), worker) - then - (then - first)
            echoed.append(microseconds(echo.ask))
    cost = statistics.median(b - a for a, b in zip(direct, isolated, strict=True))
    return (
        f"{statistics.median(direct):.0f} us here, {statistics.median(isolated):.0f} us elsewhere; the isolation costs "
        f"{cost:.0f} us, of processors {used / rounds:.0f} us; the floor is {statistics.median(echoed):.0f} us"
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    supervisor = Supervisor()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.py")
        path.write_text(KERNEL)
        here, elsewhere, dies = (
            subject
            for name, by in (("kernel", None), ("kernel", supervisor), ("dies", supervisor))
            for subject in resolve(f"{path}:{name}", supervisor=by)
            if isinstance(subject, AdapterSubject)
        )
        rng = np.random.default_rng(0)
        for shape in ((1, 2, 4, 8), (2, 4, 64, 64)):
            call = Call({name: rng.normal(size=shape) for name in "qkv"}, {}, "float32")
            with here.session():
                elsewhere.call(call)
                (worker,) = supervisor.pids
                print(f"{shape}: {compare(here, elsewhere, worker, call, rounds)}")
        deaths = [microseconds(lambda: dies.call(call)) for _ in range(20)]
        print(f"a call that ends its process, with a new one: {statistics.median(deaths) / 1e3:.0f} ms")
    supervisor.close()


if __name__ == "__main__":
    main()
