"""Messages between a run and its workers: plain data in exact types, with a length prefix, over a socket.

Nothing else can be carried, and so no code comes out of a worker; and it may die, stop or send nonsense at any moment.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import msgpack

LENGTH = 8
"""Bytes in which the length of a message is written."""
PIECE = 1 << 16
"""Bytes up to which a message is sent with its length, and that a wire has room for at first."""
SOON = 300_000
"""Nanoseconds for which an answer is looked out for before it is slept for."""
NAPS = 1023
"""How many answers are slept for at most before one is looked out for again."""
MOST = 1 << 30
"""Bytes beyond which something is not a message."""
LIST = 1 << 17
"""Parts that a list of a message may have."""
LONG_BUFFER = 1 << 22
"""Bytes of a message beyond which the room that it took is given back."""
TEXTS = "surrogatepass"
"""Names of files and variables may hold what is not a character."""
CLOSED = "closed"
"""What a `GoneError` says where the other side has ended in order, or its process has."""


class GoneError(Exception):
    """The other side is no longer there."""


class GarbledError(GoneError):
    """The other side sends what is not a message, so that nothing it may send is understood any more."""


class Wire:
    """One end of a connection. The kernel keeps the time, so that a message takes one call of it on either side."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._room = memoryview(bytearray(PIECE))
        self._filled = 0
        self._asleep = self._naps = 0
        """How many answers are slept for before one is looked out for again, and how many were the last time."""
        self._limits: dict[int, float | None] = {}
        self._packer = _packer()

    def send(self, message: Any, files: Sequence[int] = (), seconds: float | None = None) -> None:
        """Send a message, and open files along with it; `TimeoutError` if nothing of it is taken for so long.

        What is not a plain data, or too much of it, is a `TypeError` or `ValueError`, and nothing is sent.
        """
        data = self._packed(message)
        length = len(data).to_bytes(LENGTH, "little")
        try:
            self._limit(socket.SO_SNDTIMEO, seconds)
            if files:
                socket.send_fds(self.end, [length], files)
            elif len(data) < PIECE:
                return self.end.sendall(length + data)
            else:
                self.end.sendall(length)
            self.end.sendall(data)
        except BlockingIOError:
            raise TimeoutError from None
        except OSError as error:
            raise GoneError(str(error)) from None

    def receive(self, seconds: float | None = None) -> Any:
        """The next message. `TimeoutError` if nothing comes for so long; what has come is kept for the next time."""
        self._limit(socket.SO_RCVTIMEO, seconds)
        while self._filled < (end := self._end()):
            if end > len(self._room):
                self._grow(end)
            self._more()
        try:
            message = msgpack.unpackb(self._room[LENGTH:end], **READING)
        except Exception as error:
            raise GarbledError(f"sent unreadable data: {type(error).__name__}") from None
        self._room[: self._filled - end] = self._room[end : self._filled]
        self._filled -= end
        if len(self._room) > LONG_BUFFER >= self._filled:
            self._grow(PIECE)
        return message

    def receive_with_files(self, count: int) -> tuple[Any, list[int]]:
        """The next message, and up to `count` open files that come along with it."""
        self._limit(socket.SO_RCVTIMEO, None)
        try:
            data, files, _, _ = socket.recv_fds(self.end, LENGTH, count)
        except OSError as error:
            raise GoneError(str(error)) from None
        if not data:
            raise GoneError(CLOSED)
        self._room[: len(data)] = data
        self._filled = len(data)
        return self.receive(), files

    def waiting(self) -> bool:
        """Whether something has come that was not received."""
        if self._filled:
            return True
        try:
            data = self.end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            raise GoneError(str(error)) from None
        if not data:
            raise GoneError(CLOSED)
        return True

    def close(self) -> None:
        self.end.close()

    def _packed(self, message: Any) -> bytes:
        data = self._packer.pack(message)
        if len(data) > LONG_BUFFER:
            self._packer = _packer()  # which would keep its room
        if len(data) > MOST:
            raise ValueError(f"a message of {len(data) / 2**20:.0f} MiB cannot be sent")
        return data

    def _limit(self, option: int, seconds: float | None) -> None:
        """Have the socket wait no longer than that, unless it is so already."""
        if seconds != self._limits.get(option):
            self.end.setsockopt(socket.SOL_SOCKET, option, _interval(seconds))
            self._limits[option] = seconds

    def _end(self) -> int:
        """Where the first message ends, or its length does as long as that is not known."""
        if self._filled < LENGTH:
            return LENGTH
        length = int.from_bytes(self._room[:LENGTH], "little")
        if length > MOST:
            raise GarbledError("sent an invalid message")
        return LENGTH + length

    def _grow(self, size: int) -> None:
        room = memoryview(bytearray(max(size, self._filled)))
        room[: self._filled] = self._room[: self._filled]
        self._room = room

    def _more(self) -> None:
        room = self._room[self._filled :]
        try:
            count = self._watched(room)
            if count is None:
                count = self.end.recv_into(room)
        except BlockingIOError:
            raise TimeoutError from None
        except OSError as error:
            raise GoneError(str(error)) from None
        if not count:
            raise GoneError(CLOSED)
        self._filled += count

    def _watched(self, room: memoryview) -> int | None:
        """The number of bytes that came soon, without sleeping; None if none did.

        To be woken takes longer than a small call; but where nothing comes soon, or the other side has no processor
        of its own to answer on, polling has no effect, and is done ever less often.
        """
        if self._asleep:
            self._asleep -= 1
            return None
        until = time.monotonic_ns() + SOON
        while time.monotonic_ns() < until:
            try:
                count = self.end.recv_into(room, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
            else:
                self._naps = 0
                return count
        self._asleep = self._naps = min(2 * self._naps + 1, NAPS)
        return None


def _refused(*_: Any) -> NoReturn:
    raise ValueError("an extension")


READING: dict[str, Any] = {
    "unicode_errors": TEXTS,
    "max_array_len": LIST,
    "max_map_len": LIST,
    "max_ext_len": 0,
    "ext_hook": _refused,
}


def _packer() -> msgpack.Packer:
    """One that refuses all but exact types."""
    return msgpack.Packer(strict_types=True, unicode_errors=TEXTS)


def _interval(seconds: float | None) -> bytes:
    """A time as the kernel reads it, in whole seconds and microseconds, of which none at all are no limit."""
    microseconds = 0 if seconds is None else max(int(seconds * 1e6), 1)
    return struct.pack("ll", *divmod(microseconds, 10**6))
