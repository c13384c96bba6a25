"""Files from outside, read with care: only regular files, up to a size limit, and only as UTF-8 text.

To open a pipe is to wait for whoever writes it, and a device may never end; neither is opened.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import Place, SpecError
from .texts import safe

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read_bytes(path: Path, most: int, name: str = "") -> bytes:
    """The bytes of a regular file, at most so many; `name` is what messages call it.

    A file that is missing, is not a regular file, has more bytes or cannot be read is a `SpecError`.
    """
    name = safe(name or str(path))
    try:
        _regular(path.stat().st_mode, name)
        opened = os.open(path, _FLAGS)
        with open(opened, "rb") as file:
            found = os.fstat(opened)
            _regular(found.st_mode, name)  # it may have been exchanged in between
            raw = file.read(min(found.st_size, most) + 1)  # room for `most` bytes takes longer than to read a file
            if len(raw) > found.st_size:  # it has grown, or is one of those of a system that tell no size
                raw += file.read(most + 1 - len(raw))
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise SpecError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > most:
        raise SpecError(f"cannot read {name}: it has more than {most:,} bytes, the limit for such a file")
    return raw


def read_text(path: Path, most: int, name: str = "") -> str:
    """The text of a regular file of at most so many bytes.

    Raises `SpecError` like `read_bytes`, and for what is not UTF-8, with the place of the first byte that is not.
    """
    return decoded(read_bytes(path, most, name), name or str(path))


def replace_text(path: Path, text: str) -> None:
    """Write a file by a new one that takes its place, so that it is never half of both; raises `OSError`."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, "utf-8")
    os.replace(new, path)


def decoded(raw: bytes, name: str) -> str:
    """Bytes as UTF-8 text; a `SpecError` with its place where they are not."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        first = raw.rfind(b"\n", 0, error.start) + 1
        column = len(raw[first : error.start].decode("utf-8")) + 1
        place = Place(safe(name), raw.count(b"\n", 0, error.start) + 1, column)
        raise SpecError(f"not UTF-8: the byte {raw[error.start]:#04x}; save the file as UTF-8", place) from None


def _regular(mode: int, name: str) -> None:
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise SpecError(f"cannot read {name}: not a file, but {kind}")
