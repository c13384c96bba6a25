"""The results file: one JSON object a line, written as soon as it is known, so that nothing earned is ever lost.

The first line says what ran and where (`run`), then come the cells (`cell`), the verdict on every subject (`subject`),
and a last line (`end`), without which a file is known to be partial.
"""

from __future__ import annotations

import json
import platform
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from attnspec.errors import Error, UsageError
from attnspec.grades import LADDER

Line = dict[str, Any]


class Results:
    """The results of one run, on disk line by line and in memory as a whole."""

    def __init__(self, folder: Path | None, header: Mapping[str, Any]) -> None:
        """With no folder, nothing is written. A folder that cannot be written to is an `Error`."""
        self.folder, self.lines = folder, []
        self._file: TextIO | None = None
        self.started = time.time()
        if folder is not None:
            self._file = opened(folder)
        self.add({"kind": "run", **header})

    lines: list[Line]

    def add(self, line: Mapping[str, Any]) -> None:
        """Keep a line, and flush it."""
        self.lines.append(dict(line))
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(line, allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise Error(f"cannot write the results: {error.strerror}") from None

    def finish(self, verdicts: Mapping[str, str], *, partial: bool) -> None:
        """The verdicts, and the last line."""
        for line in subject_lines(self.cells, verdicts):
            self.add(line)
        self.add({"kind": "end", "partial": partial, "seconds": round(time.time() - self.started, 3)})
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def cells(self) -> list[Line]:
        return [line for line in self.lines if line["kind"] == "cell"]

    @property
    def header(self) -> Line:
        return self.lines[0]


def opened(folder: Path) -> TextIO:
    """The results file of a folder, to be written anew; a folder that cannot be written to is a `UsageError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / "results.ndjson").open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None


def subject_lines(cells: Sequence[Line], verdicts: Mapping[str, str]) -> Iterable[Line]:
    """One line for every subject: its verdict, its cells counted, and what was observed."""
    for subject, verdict in verdicts.items():
        own = [cell for cell in cells if cell["subject"] == subject]
        yield {
            "kind": "subject",
            "subject": subject,
            "operator": ", ".join(dict.fromkeys(cell["operator"] for cell in own)),
            "verdict": verdict,
            "cells": dict(Counter(cell["verdict"] for cell in own)),
            "conventions": observed(own),
            "grades": grades(own),
        }


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


def environment(command: str, options: Mapping[str, Any]) -> Line:
    """The header of a run: versions, machine, and how it was called."""
    return {
        "attnspec": _version("attnspec"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in ("numpy", "torch", "transformers", "onnx") if _version(name)},
        "command": command,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        **options,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def read(path: Path) -> list[Line]:
    """The lines of a results file; a line that is cut off at the end is left out, any other fault is a `UsageError`."""
    try:
        texts = path.read_text("utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    lines = []
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            lines.append(json.loads(text))
        except ValueError:
            if number >= len(texts) - 1:
                break
            raise UsageError(f"{path}:{number}: not a line of results") from None
    if not lines or lines[0].get("kind") != "run":
        raise UsageError(f"{path} is no results file")
    return lines
