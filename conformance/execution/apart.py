"""Calls in a process without attnspec; `bare` is its program.

What comes back is read as strictly as anything else from a subject: a line of JSON, and numbers of three dtypes.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.texts import safe, told
from ..frameworks.numpy import NumpyFramework
from .calling import Call, Interface, Reply
from .faults import Fault
from .inputs import has_arrays
from .messages import Variables
from .orphans import MARK
from .threads import ONE

LOADING = 120.0
"""Seconds in which a framework, or a file, is to be imported."""
HEAD, BODY = 1 << 16, 1 << 26
"""Bytes of a line of JSON, and of all arrays of an answer."""
WIDTHS = {"float64": 8, "int64": 8, "bool": 1}
"""The dtypes of an answer, and their bytes."""
RUN = "import os; exec(compile(os.fdopen({program}).read(), '<string>', 'exec'))"


class ApartError(Exception):
    """Calls cannot be made there; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """What to load, and how its function is called."""

    path: str
    module: str
    """The module that it is imported as, rather than the file by itself, if that can be imported."""
    root: str
    """The folder in which the outermost package of that lies, where it is not looked for anyway."""
    folder: str
    name: str
    framework: str
    interface: Interface
    environment: Variables


class Apart:
    """A process that has imported a framework and nothing of attnspec, and those that are forked from it.

    It is forked from a fork server before that imports anything else, so that the framework is imported once for both.
    """

    def __init__(self, end: socket.socket, framework: str) -> None:
        self._end = end
        self._ready = False
        self._asking: tuple[Place, Asking] | None = None
        _send(self._end, {"framework": framework, "paths": [path for path in sys.path if path]})

    def replies(self, place: Place, calls: Sequence[Call], seconds: float, *, anew: bool = False) -> list[Reply]:
        """What calls give, one after the other, as far as time suffices; `ApartError` where that cannot be said.

        `anew` is a process in which no call was made before.
        """
        until = time.monotonic() + seconds
        if anew:
            self._forget()
        asking = self._asked(place)
        found: list[Reply] = []
        try:
            for call in calls:
                if (left := until - time.monotonic()) <= 0:
                    break
                found.append(asking.call(call, left))
        except ApartError:
            self._forget()
            raise
        return found

    def _asked(self, place: Place) -> Asking:
        if self._asking is None or self._asking[0] != place:
            self._forget()
            if not self._ready:
                head, _ = _receive(self._end, LOADING)
                if not head.get("ready"):
                    raise ApartError("its framework cannot be imported without attnspec")
                self._ready = True
            ours, theirs = socket.socketpair()
            with theirs:
                socket.send_fds(self._end, [b"f"], [theirs.fileno()])
            head, _ = _receive(self._end, LOADING)
            self._asking = place, Asking(ours, int(head.get("pid", 0)), place)
            self._asking[1].open()
        return self._asking[1]

    def _forget(self) -> None:
        if self._asking is not None:
            self._asking[1].close()
        self._asking = None

    def close(self) -> None:
        self._forget()
        self._end.close()


class Asking:
    """A process that has loaded one function."""

    def __init__(self, end: socket.socket, pid: int, place: Place) -> None:
        self._end, self._pid, self._place = end, pid, place

    def open(self) -> None:
        """Load it; `ApartError` where that fails."""
        place = self._place
        names = ("path", "module", "root", "folder", "name", "framework")
        interface = place.interface
        said = {name: getattr(interface, name) for name in ("required", "axes", "absent", "outputs")}
        folder = importlib.resources.files("attnspec.execution")
        filling = {
            "program": filling_program() if interface.axes else [],
            "said": {**said, "axes": dict(interface.axes)},
            "forms": [folder.joinpath(f"{name}.py").read_text() for name in ("planned", "weightless", "documented")],
        }
        given = {name: getattr(place, name) for name in names}
        _send(self._end, {"environment": neutral(place.environment), **given, **filling})
        head, _ = _receive(self._end, LOADING)
        if fault := head.get("fault"):
            raise ApartError(f"it cannot be loaded without attnspec: {told(fault)}")

    def call(self, call: Call, seconds: float) -> Reply:
        """The reply to a call on contiguous arrays."""
        interface = self._place.interface
        if any(map(has_arrays, call.options.values())):
            raise ApartError("arrays in an object or a tuple cannot be sent there")
        own = {name: call.dtypes.get(name) or interface.dtype_of(name, call.dtype) for name in call.inputs}
        made = {name: _made(x, own[name]) for name, x in call.inputs.items()}
        head = {
            "names": [*made],
            "positional": [name for name in interface.required if name not in interface.by_name],
            "arrays": [(x.dtype.name, x.shape) for x in made.values()],
            "options": dict(call.options),
            "outputs": interface.outputs,
            "into": dict(interface.into),
            "objects": sorted(interface.objects),
            "typed": sorted(interface.typed),
            "framework": self._place.framework,
        }
        _send(self._end, head, [x.tobytes() for x in made.values()])
        return _reply(*_receive(self._end, seconds))

    def close(self) -> None:
        self._end.close()
        if self._pid > 1:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)


def neutral(environment: Variables) -> dict[str, str]:
    """The variables that say nothing of who asks."""
    return {**ONE, **{name: x for name, x in environment if "ATTNSPEC" not in name.upper() and name != MARK}}


def program() -> int:
    """An open file with the text of the program, so that neither its name nor its place says whose it is."""
    reading, writing = os.pipe()
    os.write(writing, importlib.resources.files("attnspec.execution").joinpath("bare.py").read_bytes())
    os.close(writing)
    return reading


def filling_program() -> list[tuple[str, str]]:
    """The texts of what fills a module, each after those that it imports."""
    folder = importlib.resources.files("attnspec.execution")
    return [(name, folder.joinpath(f"{name}.py").read_text()) for name in ("mapping", "modules", "filling")]


def _made(x: NDArray[Any], dtype: str) -> NDArray[Any]:
    return np.ascontiguousarray(NumpyFramework().make(x, dtype, "cpu", "contiguous", 0)).reshape(x.shape)


# Messages


def _send(end: socket.socket, head: Any, parts: Sequence[bytes] = ()) -> None:
    text = json.dumps({**head, "sizes": [len(part) for part in parts]}).encode()
    try:
        end.settimeout(LOADING)
        end.sendall(b"".join([len(text).to_bytes(8, "little"), text, *parts]))
    except OSError as error:
        raise ApartError(f"the process without attnspec does not listen: {error}") from None


def _receive(end: socket.socket, seconds: float) -> tuple[dict[str, Any], bytes]:
    """A line of JSON, and the bytes after it; `ApartError` for whatever else comes, or nothing in time."""
    until = time.monotonic() + seconds
    length = int.from_bytes(_exactly(end, 8, until), "little")
    if length > HEAD:
        raise ApartError("the process without attnspec sent an invalid reply")
    text = _exactly(end, length, until)
    try:
        head = json.loads(text)
        sizes = [size for size in head["sizes"] if type(size) is int and size >= 0]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ApartError("the process without attnspec sent an invalid reply") from None
    if sum(sizes) > BODY:
        raise ApartError("the process without attnspec sent too much")
    return head, _exactly(end, sum(sizes), until)


def _exactly(end: socket.socket, count: int, until: float) -> bytes:
    room = bytearray()
    try:
        while len(room) < count:
            end.settimeout(max(until - time.monotonic(), 0.001))
            part = end.recv(min(count - len(room), 1 << 20))
            if not part:
                raise ApartError("the process without attnspec ended")
            room += part
    except OSError:
        raise ApartError("the process without attnspec did not reply in time") from None
    return bytes(room)


def _reply(head: Mapping[str, Any], data: bytes) -> Reply:
    if fault := head.get("fault"):
        return Reply(fault=Fault("raised", safe(told(fault))))
    outputs, at = {}, 0
    try:
        for name, dtype, shape in head["arrays"]:
            count = math.prod(int(n) for n in shape)
            if count < 0 or type(name) is not str or len(data) < at + count * WIDTHS[dtype]:
                raise ValueError
            outputs[name] = np.frombuffer(data, dtype, count, at).reshape(shape)
            at += count * WIDTHS[dtype]
    except (ValueError, TypeError, KeyError):
        raise ApartError("the process without attnspec sent an invalid reply") from None
    return Reply(outputs)
