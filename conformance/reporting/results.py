"""The results file: one JSON object per line, written at once, so that an interrupted run loses nothing.

The first line says what ran and where (`run`), then come the cells that are expected of every group (`expected`), the
cells (`cell`), the verdict on every subject (`subject`), and a last line (`end`), without which a file is known to be
partial.
Each line has a digest of itself and of the one before it (`chain`), so that a file which was changed after it was
written is refused, by `report` and by `check --resume`; a last line that is cut off is left out.
A folder belongs to one run at a time.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import IO, Any, TextIO

from ..data.files import read_bytes, read_text
from ..data.records import check_format, record
from ..data.texts import safe
from ..diagnosis.shapes import line as line_shape
from ..errors import Error, UsageError
from ..judging.coverage import beside
from ..numerics.grades import LADDER
from .chain import Chain
from .records import FORMAT, EndLine, SubjectLine
from .standings import Standing, known, missing, standings

Line = dict[str, Any]
NAME = "results.ndjson"
SAME = ("attnspec", "python", "packages", "sources", "profile", "seed", "device", "environments")
"""What two runs have to have in common, so that one can resume the other."""
MOST = 256 << 20
"""Bytes of a results file, and of a file whose digest is kept in one."""
LINES = 200_000
"""Lines of a results file."""
NAMES = 1000
"""Subjects of a results file, and mechanisms."""
LONGEST = 4 << 20
"""Characters of a line."""


class Results:
    """The results of one run, on disk line by line and in memory as a whole."""

    def __init__(self, folder: Path | None, header: Mapping[str, Any], earlier: Iterable[Line] = ()) -> None:
        """With no folder, nothing is written. A folder that cannot be written to is an `Error`.

        `earlier` are the cells of a run that this one resumes.
        """
        self.folder, self.lines, self._chain = folder, [], Chain()
        self._written = hashlib.blake2b()
        self._file: TextIO | None = None
        self.started = time.time()
        first = [{"kind": "run", **header}, *earlier]
        if folder is not None:
            self._file = opened(folder, self._text(first))
        self.lines += first

    lines: list[Line]

    def add(self, line: Mapping[str, Any]) -> None:
        """Keep a line, and flush it."""
        self.lines.append(dict(line))
        if self._file is None:
            return
        try:
            self._file.write(self._text([line]))
            self._file.flush()
        except OSError as error:
            raise Error(f"cannot write the results: {error.strerror}") from None

    def _text(self, lines: Iterable[Mapping[str, Any]]) -> str:
        """The next lines, as they are written."""
        text = "".join(map(self._chain.text, lines))
        self._written.update(text.encode())
        return text

    def finish(self, ended: str = "") -> None:
        """The verdicts, and the last line; `ended` says why the run ended early, and nothing if it did not."""
        partial = bool(missing(self.lines) or any(c.get("run", {}).get("ended") for c in self.cells))
        strict = self.header.get("fail_on") == "should"
        for line in subject_lines(self.cells, standings(self.lines, ended), strict=strict):
            self.add(line)
        seconds = round(time.time() - self.started, 3)
        end: EndLine = {"kind": "end", "partial": partial, "ended": ended, "seconds": seconds}
        self.add(end)
        if self._file is not None and self._altered():
            del self.lines[-1]
            self.lines.append({**end, "altered": True})
            self._write_again()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _altered(self) -> bool:
        """Whether the file has anything else in it than what was written."""
        assert self.folder is not None
        try:
            with (self.folder / NAME).open("rb") as present:
                return hashlib.file_digest(present, hashlib.blake2b).digest() != self._written.digest()
        except OSError:
            return True

    def _write_again(self) -> None:
        """Have the file hold what the run knows, whatever it holds now."""
        assert self.folder is not None
        assert self._file is not None
        self._file.close()
        self._file = opened(self.folder, "".join(map(Chain().text, self.lines)))

    @property
    def cells(self) -> list[Line]:
        return [line for line in self.lines if line["kind"] == "cell"]

    @property
    def header(self) -> Line:
        return self.lines[0]


def opened(folder: Path, text: str) -> TextIO:
    """The results file of a folder, begun anew with a text in one step, so that it is never without its first line.

    A folder that cannot be written to, or to which another run writes, is a `UsageError`.
    """
    check_folder(folder)
    begun = folder / f".{NAME}.{os.getpid()}"
    try:
        with ExitStack() as unless_well:
            file = unless_well.enter_context(begun.open("w", encoding="utf-8"))
            _lock(file, folder)
            file.write(text)
            file.flush()
            begun.replace(folder / NAME)
            unless_well.pop_all()
    except OSError as error:
        with suppress(OSError):
            begun.unlink()
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None
    return file


def check_folder(folder: Path) -> None:
    """Raise `UsageError` for a folder that cannot be written to, or to which another run writes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise UsageError(f"cannot write to {folder}: {os.strerror(errno.EACCES)}")
        if (folder / NAME).is_file():
            with (folder / NAME).open("rb") as present:
                _lock(present, folder)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None


def _lock(file: IO[Any], folder: Path) -> None:
    """Hold a file as long as it is open."""
    try:
        import fcntl
    except ImportError:  # on systems without such locks, runs are on their own
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another run writes to {folder}; name another folder with --report-dir") from None


def resumable(folder: Path, header: Mapping[str, Any], laws: Mapping[tuple[str, ...], Collection[str]]) -> list[Line]:
    """The cells of an earlier run in a folder that need not be computed again, marked as `resumed`.

    `laws` are the laws of every group that is asked for. A group counts if all of its cells are there and were tried to
    the end, and its specification is the same; a run that asked for something else, or with other versions, is a
    `UsageError`.
    """
    if not (folder / NAME).is_file():
        return []
    lines = read(folder / NAME)
    for key in SAME:
        if lines[0].get(key) != json.loads(json.dumps(header.get(key))):
            then, now = lines[0].get(key), header.get(key)
            raise UsageError(
                f"the run in {folder} cannot be resumed: its {key} was {safe(repr(then))}, not {safe(repr(now))}"
            )
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        if line["kind"] == "cell":
            groups.setdefault(group_of(line), []).append(line)
    whole = [
        own
        for key, own in groups.items()
        if sorted(c["law"] for c in own) == sorted(laws.get(key, ())) and not any(map(_broken_off, own))
    ]
    return [{**cell, "resumed": True} for cells in whole for cell in cells]


def _broken_off(cell: Line) -> bool:
    """Whether a cell is to be computed once more: time was up, or attnspec itself failed."""
    return cell["verdict"] == "internal" or bool(cell.get("run", {}).get("ended"))


def group_of(cell: Line) -> tuple[str, ...]:
    """What the cells have in common that are computed together."""
    return cell["subject"], cell["mechanism"], cell["dtype"], cell["digest"]


def place_of(cell: Line, law: str = "") -> tuple[str, str, str, str]:
    """Which cell of a run it is, or that of another law beside it."""
    return cell["subject"], cell["mechanism"], cell["dtype"], law or cell["law"]


def witnessed(cells: Iterable[Line]) -> set[tuple[str, str, str, str]]:
    """The places of the cells that some case shows, and of those that the same fault breaks."""
    shown = [cell for cell in cells if "witness" in cell]
    return {place_of(cell, law) for cell in shown for law in (cell["law"], *cell["witness"]["broken"])}


def subject_lines(
    cells: Sequence[Line], found: Mapping[str, Standing], *, strict: bool = False
) -> Iterable[SubjectLine]:
    """One line for every subject: how it stands, its cells counted, and what was observed.

    A `strict` run counts laws that only should hold as violations.
    """
    for subject, standing in found.items():
        own = [cell for cell in cells if cell["subject"] == subject]
        line: SubjectLine = {
            "kind": "subject",
            "subject": subject,
            "operator": ", ".join(dict.fromkeys(cell["operator"] for cell in own)),
            "verdict": standing.verdict,
            "reasons": list(standing.reasons),
            "beside": beside(own),
            "unmet": list(standing.unmet),
            "cells": dict(Counter(cell["verdict"] for cell in own)),
            "conventions": observed(own),
            "grades": grades(own),
        }
        familiar = known(own, strict=strict)
        yield line if familiar is None else {**line, "known": familiar}


def observed(cells: Iterable[Line]) -> dict[str, dict[str, str]]:
    """The conventions that a subject was seen to follow, by dtype."""
    found: dict[str, dict[str, str]] = {}
    for cell in cells:
        for name, finding in cell.get("run", {}).get("conventions", {}).items():
            if finding["how"] in ("observed", "unexplained"):
                word = finding["word"] + ("?" if finding["how"] == "unexplained" else "")
                found.setdefault(cell["dtype"], {})[name] = word
    return found


def grades(cells: Iterable[Line]) -> dict[str, str]:
    """The loosest grade that a subject needed, by dtype."""
    found: dict[str, str] = {}
    for cell in cells:
        dtype, grade = cell["dtype"], cell.get("run", {}).get("grade")
        if grade:
            ladder = [known.name for known in LADDER[dtype]]
            found[dtype] = max(found.get(dtype, grade), grade, key=lambda g: ladder.index(g) if g in ladder else -1)
    return found


def environment(
    command: str, options: Mapping[str, Any], packages: Iterable[str] = (), sources: Iterable[Path] = ()
) -> Line:
    """The header of a run: versions of what was imported, files by their digest, machine, and how it was called."""
    distributions = {name: distribution_of(name) for name in ("numpy", "torch", *packages)}
    return {
        "format": FORMAT,
        "attnspec": version_of("attnspec"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: version_of(name) for name in distributions.values() if version_of(name)},
        "sources": {str(path): hashlib.blake2b(read_bytes(path, MOST), digest_size=8).hexdigest() for path in sources},
        "command": command,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        **options,
    }


def distribution_of(module: str) -> str:
    """The name under which a module is installed; its own where that is not known."""
    top = module.partition(".")[0]
    name = top.replace("_", "-")
    return name if version_of(name) else next(iter(_distributions().get(top, ())), name)


@functools.cache
def _distributions() -> Mapping[str, Sequence[str]]:
    return packages_distributions()


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _cut_off(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return True
    except RecursionError:
        return False
    return False


def read(path: Path) -> list[Line]:
    """The lines of a results file; a line that is cut off at the end is left out.

    A file of anything else, or one that was changed after it was written, is an `Error` with the line at fault.
    """
    texts = read_text(path, MOST).split("\n")
    named = [(number, text) for number, text in enumerate(texts, 1) if text.strip()]
    if len(named) > LINES:
        raise UsageError(f"{safe(str(path))} has more than {LINES:,} lines, the most that a results file may have")
    lines: list[Line] = []
    chain = Chain()
    for number, text in named:
        place = f"{safe(str(path))}:{number}"
        if len(text) > LONGEST:
            raise UsageError(f"{place}: more than the {LONGEST:,} characters that a line of results may have")
        content, fault = chain.content(text)
        if fault and number == named[-1][0] and lines and _cut_off(text):
            break
        if fault:
            record(text, line_shape, path, number)  # what is not a record at all is said first
            raise UsageError(f"{place}: {fault}; run the check again")
        lines.append(record(content, line_shape, path, number))
    if not lines or lines[0]["kind"] != "run":
        raise UsageError(f"{safe(str(path))} is not a results file: it does not begin with a line of the kind 'run'")
    check_format(lines[0].get("format", FORMAT), FORMAT, "results", path)
    for key in ("subject", "mechanism"):
        if len({line.get(key) for line in lines}) > NAMES + 1:
            raise UsageError(f"{safe(str(path))} speaks of more than {NAMES:,} {key}s, the most that one may")
    return lines
