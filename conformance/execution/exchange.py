"""Arrays in files that go with the calls of a program: inputs are written, and outputs are read.

What lies between arrays is 0xff, which is NaN in every format of fractions.
"""

from __future__ import annotations

import fcntl
import itertools
import math
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.texts import safe
from ..frameworks.framework import numpy_dtype

ALIGNED = 64
"""Bytes of which the place of an array in the file of inputs is a multiple, unless it has strides of its own."""
DTYPES = r"bool|u?int(8|16|32|64)|float(16|32|64)|bfloat16|float8_\w{1,20}"
"""Names of dtypes of outputs."""
AXES = 32
"""Axes that an output may have."""
MEMORY = Path("/dev/shm")
"""Where a system keeps files in memory."""
ROOM = 1 << 30
"""Bytes that have to be free there."""
PREFIX, LOCK = "attnspec-arrays-", "lock"
"""What the names of folders begin with, and a file in each that is locked by the process that made it."""
_numbers = itertools.count()


class MisfitError(Exception):
    """What is said of an output fits no array."""


def folder() -> str:
    """The path of a new folder for arrays, in memory where there is room, as long as this process lives.

    Those of processes that were killed are removed first.
    """
    place = None
    with suppress(OSError):
        free = os.statvfs(MEMORY)
        place = MEMORY if free.f_bavail * free.f_frsize >= ROOM else None
    for left in Path(place or tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left.parent, ignore_errors=True)
    made = tempfile.mkdtemp(prefix=PREFIX, dir=place)
    held = os.open(Path(made, LOCK), os.O_RDONLY | os.O_CREAT, 0o600)  # until the process ends, however it does
    fcntl.flock(held, fcntl.LOCK_EX)
    return made


@dataclass(frozen=True, slots=True)
class _Piece:
    """An input in its file: where it begins there, its bytes, and the memory that they are of."""

    at: int
    data: bytes
    memory: NDArray[Any]
    copied: NDArray[Any] | None
    """The input itself, where that memory is a copy."""


class Exchange:
    """The two files of one program."""

    def __init__(self, place: str, *, strides: bool) -> None:
        """`strides` says that arrays are written as they lie in memory, and not row by row."""
        self.strides = strides
        Path(place).mkdir(0o700, exist_ok=True)  # for it goes whenever all processes of a run are ended
        stem = Path(place) / f"{os.getpid()}-{next(_numbers)}"
        self.given, self.results = stem.with_suffix(".inputs"), stem.with_suffix(".outputs")
        self._pieces: list[_Piece] = []

    def write(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
        """Write inputs, and forget all outputs; what is to be said of each: dtype, shape, strides and place."""
        said, at, parts = {}, 0, list[bytes]()
        self._pieces = []
        for name, x in arrays.items():
            memory, start, strides = _stored(x, strides=self.strides)
            data = memory.ravel("K").view(np.uint8).tobytes() if memory.size else b""
            self._pieces.append(_Piece(at, data, memory, None if np.shares_memory(x, memory) else x))
            entries = [n // x.itemsize for n in strides]
            said[name] = {"dtype": str(x.dtype), "shape": list(x.shape), "strides": entries, "offset": at + start}
            parts += [data, b"\xff" * (ALIGNED + -len(data) % ALIGNED)]
            at += len(data) + len(parts[-1])
        with suppress(FileNotFoundError):
            self.results.unlink()  # what is still held of it stays as it was
        self.results.touch(0o600)
        self.given.touch(0o600)
        self.given.write_bytes(b"".join(parts))
        return said

    def take_back(self) -> None:
        """Have the inputs as the program has left them in their file, if it has written there."""
        now = self.given.read_bytes()
        for piece in self._pieces:
            data = now[piece.at : piece.at + len(piece.data)]
            if data != piece.data and len(data) == len(piece.data) and piece.memory.flags.writeable:
                piece.memory.ravel("K").view(np.uint8)[:] = np.frombuffer(data, np.uint8)
                if piece.copied is not None and piece.copied.flags.writeable:
                    np.copyto(piece.copied, piece.memory)

    def read(self, said: Any) -> dict[str, NDArray[Any]]:
        """The outputs that an answer tells of; `MisfitError` for what is not an array of the file."""
        if type(said) is not dict:
            raise MisfitError("answered neither outputs nor an error")
        size = self.results.stat().st_size if self.results.is_file() else 0
        room = np.memmap(self.results, np.uint8, "c") if size else np.empty(0, np.uint8)
        return {name: _output(name, x, room) for name, x in said.items()}

    def close(self) -> None:
        for path in (self.given, self.results):
            with suppress(OSError):
                path.unlink()


def _stored(x: NDArray[Any], *, strides: bool) -> tuple[NDArray[Any], int, tuple[int, ...]]:
    """The memory that is written for an array, where it begins in that, and its strides, both in bytes."""
    memory = x
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    start = x.ctypes.data - memory.ctypes.data
    whole = memory.flags.c_contiguous or memory.flags.f_contiguous
    if whole and (strides or (x.flags.c_contiguous and start % ALIGNED == 0)):
        return memory, start, x.strides
    copy = np.array(x, order="C")
    return copy, 0, copy.strides


def _output(name: str, said: Any, room: NDArray[np.uint8]) -> NDArray[Any]:
    """An output in the bytes of the file."""
    told = safe(name)
    if type(said) is not dict:
        raise MisfitError(f"answered an output {told!r} without dtype and shape")
    dtype, shape, start = said.get("dtype"), said.get("shape"), said.get("offset", 0)
    if type(dtype) is not str or not re.fullmatch(DTYPES, dtype):
        raise MisfitError(f"answered the output {told!r} with the dtype {safe(str(dtype), 40)!r}")
    if type(shape) is not list or len(shape) > AXES or any(type(n) is not int or n < 0 for n in shape):
        raise MisfitError(f"answered the output {told!r} with the shape {safe(str(shape), 80)}")
    if type(start) is not int or start < 0:
        raise MisfitError(f"answered the output {told!r} with the offset {safe(str(start), 40)}")
    kind = numpy_dtype(dtype)
    length = math.prod(shape) * kind.itemsize
    if start + length > len(room):
        says = f"answered the output {told!r} of {length:,} bytes from {start:,} on"
        raise MisfitError(f"{says}; the file of outputs has {len(room):,}")
    return room[start : start + length].view(kind).reshape(shape)
