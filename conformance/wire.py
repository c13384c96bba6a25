"""What goes between a run and its workers: pickled messages, each after its length, over a socket.

A worker is no adversary, and what it sends is unpickled as it comes; but it may die or stop at any moment.
"""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Sequence
from typing import Any

LENGTH = 8
"""Bytes in which the length of a message is written."""
PIECE = 1 << 16
"""Bytes up to which a message is sent with its length, and that are read where nothing is known of it."""
AT_ONCE = 1 << 18
"""Bytes that are read at once, which is about what a socket holds."""


CLOSED = "closed"
"""What a `GoneError` says where the other side has ended in order, or its process has."""


class GoneError(Exception):
    """The other side is no longer there, or sends what is no message."""


class Wire:
    """One end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._read = bytearray()

    def send(self, message: Any, files: Sequence[int] = (), seconds: float | None = None) -> None:
        """Send a message, and open files along with it; `TimeoutError` if it is not taken within so long."""
        data = pickle.dumps(message, 5)
        length = len(data).to_bytes(LENGTH, "little")
        try:
            self._limit(seconds)
            if files:
                socket.send_fds(self.end, [length], files)
            elif len(data) < PIECE:
                return self.end.sendall(length + data)
            else:
                self.end.sendall(length)
            self.end.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise GoneError(str(error)) from None

    def receive(self, seconds: float | None = None) -> Any:
        """The next message. `TimeoutError` after so long; what has come of it by then is kept for the next time."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while (end := self._end()) is None or len(self._read) < end:
            self._more(deadline, 0 if end is None else end - len(self._read))
        try:
            with memoryview(self._read) as whole, whole[LENGTH:end] as data:
                message = pickle.loads(data)
        except Exception as error:
            raise GoneError(f"sent what cannot be read: {error}") from None
        del self._read[:end]
        return message

    def receive_with_files(self, count: int) -> tuple[Any, list[int]]:
        """The next message, and up to `count` open files that come along with it."""
        self._limit(None)
        try:
            data, files, _, _ = socket.recv_fds(self.end, LENGTH, count)
        except OSError as error:
            raise GoneError(str(error)) from None
        if not data:
            raise GoneError(CLOSED)
        self._read += data
        return self.receive(), files

    def close(self) -> None:
        self.end.close()

    def _limit(self, seconds: float | None) -> None:
        """Have the socket wait no longer than that; a limit that is near enough is left as it is."""
        near = None if seconds is None else max(round(seconds, 2), 0.01)
        if near != self.end.gettimeout():
            self.end.settimeout(near)

    def _end(self) -> int | None:
        """Where the first message ends, once that is known."""
        return LENGTH + int.from_bytes(self._read[:LENGTH], "little") if len(self._read) >= LENGTH else None

    def _more(self, deadline: float | None, missing: int) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        try:
            self._limit(left)
            data = self.end.recv(min(max(missing, PIECE), AT_ONCE))
        except TimeoutError:
            raise
        except OSError as error:
            raise GoneError(str(error)) from None
        if not data:
            raise GoneError(CLOSED)
        self._read += data
