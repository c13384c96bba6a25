"""Processes that make one call together, for kernels that span several: each is a rank of a group of torch.distributed.

`Ranks` starts them once and hands each its shards; `cut` and `joined` make shards of whole arrays and back, in one of
the orders below. This file imports nothing of attnspec, so that it can be copied beside a kernel.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

Places = list[list[int]]
"""Of each rank, the positions that it has."""


class Ranks:
    """A group of processes on this machine, in each of which a function is called with what its rank is handed.

    They begin with the first call, and end with the process that asks. After a failure, and in a process that was
    forked from the one that asked before, new ones begin.

    * `count`: how many there are.
    * `function`: called as `function(*shards, **options)`, where a default group of torch.distributed is there.
    * `backend`: of the group, as `gloo` and `nccl`.
    * `method`: how they are started; `fork` takes any function along, and `spawn`, for devices, one of a module.
    * `seconds`: how long a call may take.
    """

    def __init__(
        self,
        count: int,
        function: Callable[..., Any],
        *,
        backend: str = "gloo",
        method: str = "fork",
        seconds: float = 60.0,
    ) -> None:
        self.count, self.function = count, function
        self._backend, self._method, self._seconds = backend, method, seconds
        self._home, self._pipes = 0, list[Connection]()
        self._processes = list[Any]()

    def __call__(self, *shards: Sequence[Any], **options: Any) -> list[Any]:
        """What each rank returns: each argument has an entry for every rank, and options are the same for all.

        Raises what a rank has raised, and `TimeoutError` and `EOFError` where one has not answered, or has ended.
        """
        if self._home != os.getpid():
            self._begin()
        try:
            for rank, pipe in enumerate(self._pipes):
                pipe.send_bytes(pickle.dumps(([own[rank] for own in shards], options)))
            return self._answers()
        except BaseException:
            self.end()
            raise

    def _answers(self) -> list[Any]:
        found: dict[int, Any] = {}
        while len(found) < self.count:
            ready = wait([pipe for rank, pipe in enumerate(self._pipes) if rank not in found], self._seconds)
            if not ready:
                raise TimeoutError(f"no rank has answered in {self._seconds:g} s")
            for rank in range(self.count):
                if self._pipes[rank] in ready:
                    right, found[rank] = pickle.loads(self._pipes[rank].recv_bytes())
                    if not right:
                        raise found[rank]
        return [found[rank] for rank in range(self.count)]

    def _begin(self) -> None:
        context: Any = multiprocessing.get_context(self._method)
        meeting = os.path.join(tempfile.mkdtemp(), "meeting")
        ends = [context.Pipe() for _ in range(self.count)]
        self._home, self._pipes, self._processes = os.getpid(), [own for own, _ in ends], []
        for rank in range(self.count):
            others = [end for one, pair in enumerate(ends) for end in pair[: 1 if one == rank else 2]]
            given = (self.function, rank, self.count, ends[rank][1], others, meeting, self._backend, self._seconds)
            self._processes.append(context.Process(target=_serve, args=given, daemon=True))
        for process in self._processes:
            process.start()
        for _, other in ends:
            other.close()

    def end(self) -> None:
        """End the processes; the next call begins new ones."""
        if self._home == os.getpid():
            for process, pipe in zip(self._processes, self._pipes, strict=False):
                process.kill()
                process.join()
                pipe.close()
        self._home, self._pipes, self._processes = 0, [], []


def _serve(
    function: Callable[..., Any],
    rank: int,
    count: int,
    pipe: Connection,
    others: Sequence[Connection],
    meeting: str,
    backend: str,
    seconds: float,
) -> None:
    """Answer calls, one after the other, until nobody asks."""
    import torch
    import torch.distributed as dist

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it ends with the process that has begun it
    for other in others:
        other.close()
    torch.set_num_threads(1)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    patience = timedelta(seconds=seconds)
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=count, timeout=patience)
    with suppress(EOFError):
        while True:
            shards, options = pickle.loads(pipe.recv_bytes())
            try:
                answer = pickle.dumps((True, function(*shards, **options)))
            except Exception as error:  # whatever it is, it is what the call gives
                answer = _told(error)
            pipe.send_bytes(answer)
    os._exit(0)


def _told(error: Exception) -> bytes:
    """An error as it can be sent."""
    with suppress(Exception):
        return pickle.dumps((False, error))
    return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))


# Shards


def in_order(length: int, count: int) -> Places:
    """One run after the other, as equal as they can be."""
    return [list(range(rank * length // count, (rank + 1) * length // count)) for rank in range(count)]


def zigzag(length: int, count: int) -> Places:
    """Of twice as many runs, one from the front and one from the back, so that causal work is balanced."""
    runs = in_order(length, 2 * count)
    return [runs[rank] + runs[-1 - rank] for rank in range(count)]


def striped(length: int, count: int) -> Places:
    """Positions in turns."""
    return [list(range(rank, length, count)) for rank in range(count)]


def filled(x: Any, multiple: int, axis: int) -> Any:
    """Zeros behind an array along an axis, up to a multiple of some length."""
    import torch

    shape = list(x.shape)
    shape[axis] = -shape[axis] % multiple
    return torch.cat([x, x.new_zeros(shape)], axis)


def cut(x: Any, places: Places, axis: int) -> list[Any]:
    """What each rank has of an array along an axis."""
    import torch

    return [x.detach().index_select(axis, torch.tensor(own, dtype=torch.int64)) for own in places]


def joined(parts: Sequence[Any], places: Places, axis: int) -> Any:
    """The whole array again, of what each rank has returned."""
    import torch

    back = torch.tensor([place for own in places for place in own], dtype=torch.int64).argsort()
    return torch.cat(list(parts), axis).index_select(axis, back)
