"""Caches on disk: files by key in a folder of the user, which can be deleted without harm.

What is kept is plain bytes with a checksum. A file that is old, cut off or exchanged is dropped, a folder that another
user owns or may write to is not used, and where nothing can be written nothing is kept; none of this is an error.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.resources
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import SpecError
from .files import read_bytes

VARIABLE = "ATTNSPEC_CACHE"
"""The variable that names the folder; `off` keeps nothing."""
OFF = "off"
MEASURED = "measured"
"""The file whose time says when the folder of somebody else's entries was measured last."""
INTERVAL = 3600.0
"""Seconds for which it is not measured again."""
ENTRY = 64 << 20
"""Bytes of one entry beyond which it is not kept."""
_CHECK = hashlib.sha256().digest_size
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path | None:
    """Where the caches of this user are; None where nothing is to be kept."""
    if chosen := os.environ.get(VARIABLE):
        return None if chosen == OFF else Path(chosen).absolute()
    try:
        return _platform_folder() / "attnspec"
    except RuntimeError:  # a user without a home
        return None


def _platform_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local")
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches"
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    return Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".cache"


def digest(*parts: str | bytes) -> str:
    """A key made of parts; other parts, or parts divided in another way, give another key."""
    found = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(raw).to_bytes(8, "big") + raw)
    return found.hexdigest()[:40]


@functools.cache
def code_of(package: str) -> str:
    """A digest of the sources of a package, without those below it: what they computed is of no use to other ones."""
    files = sorted(importlib.resources.files(package).iterdir(), key=lambda file: file.name)
    return digest(*(part for f in files if f.name.endswith(".py") for part in (f.name, f.read_bytes())))


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder and those below it."""
    return sum(found.st_size for _, found in _files(folder))


def fault_of(folder: Path) -> str:
    """Why a folder is not used, in a few words; nothing where it is."""
    try:
        found = folder.stat()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if not hasattr(os, "getuid"):
        return ""
    if found.st_uid != os.getuid():
        return "it belongs to another user"
    return "other users may write to it" if found.st_mode & _OTHERS else ""


def private_folder(kind: str, *, make: bool = True) -> Path | None:
    """The folder of what is kept of one kind, which nobody else can write; None where nothing is to be kept."""
    root = cache_folder()
    if root is None or not all(_private(each, make) for each in (root, root / kind)):
        return None
    return root / kind


class Store:
    """The entries of one kind, in a folder of their own; together they are about so many bytes at most."""

    def __init__(self, kind: str, most: int) -> None:
        self.kind, self.most = kind, most
        self._unmeasured = 0
        """Bytes that were written since the folder was last measured."""

    def get(self, key: str) -> bytes | None:
        """What was kept under a key, which `digest` made; None where that is nothing, or is damaged."""
        folder = self._folder()
        if folder is None:
            return None
        path = folder / key
        try:
            raw = read_bytes(path, ENTRY + _CHECK)
        except SpecError:
            return None
        content = raw[_CHECK:]
        if raw[:_CHECK] != _check(key, content):
            self.drop(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # what was used last is dropped last
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep an entry, which other processes see whole or not at all."""
        folder = self._folder(make=True)
        if folder is None or len(content) > min(ENTRY, self.most // 4):
            return
        name = ""
        try:
            handle, name = tempfile.mkstemp(prefix="new-", dir=folder)
            with open(handle, "wb") as file:
                file.write(_check(key, content) + content)
            os.replace(name, folder / key)
        except OSError:
            if name:
                _removed(name)
            return
        if not self._unmeasured or self._unmeasured > self.most // 16:
            self._bounded(folder)
            self._unmeasured = 0
        self._unmeasured += len(content) + 1

    def drop(self, key: str) -> None:
        """Forget an entry, as of one that its reader cannot make sense of."""
        if (folder := self._folder()) is not None:
            _removed(folder / key)

    def bound(self) -> None:
        """Keep a folder to its bound into which others write, unless that was done a short time ago."""
        folder = self._folder()
        if folder is None:
            return
        with contextlib.suppress(OSError):
            mark = folder / MEASURED
            if not mark.exists() or time.time() - mark.stat().st_mtime > INTERVAL:
                mark.touch()
                self._bounded(folder)

    def _folder(self, *, make: bool = False) -> Path | None:
        return private_folder(self.kind, make=make)

    def _bounded(self, folder: Path) -> None:
        """Remove what was not used for the longest time, down to three quarters of the bound, if it is exceeded."""
        found = sorted(_files(folder), key=lambda each: each[1].st_mtime)
        total = sum(entry.st_size for _, entry in found)
        if total <= self.most:
            return
        for path, entry in found:
            if total <= self.most * 3 // 4:
                return
            _removed(path)
            total -= entry.st_size


def _check(key: str, content: bytes) -> bytes:
    found = hashlib.sha256(key.encode() + b"\0")
    found.update(content)
    return found.digest()


def _private(folder: Path, make: bool) -> bool:
    """Whether a folder is there, belongs to this user, and can be written by nobody else."""
    if make and not os.path.exists(folder):
        _make(folder)
    return not fault_of(folder)


def _make(folder: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)


def _files(folder: Path | str) -> Iterator[tuple[str, os.stat_result]]:
    """The regular files in a folder and those below it; of tens of thousands, paths as texts take half as long."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False)


def _removed(path: Path | str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
