"""Results of a long measurement, each kept in a file as soon as it is there, so that what was earned is not lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Earned:
    """The results that a file has, by their names; without a file, those of this run."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.results: dict[str, dict[str, Any]] = {}
        for line in path.read_text().splitlines() if path is not None and path.exists() else ():
            try:
                found = json.loads(line)
            except ValueError:  # the line that was written when the run was cut off
                continue
            self.results[found["what"]] = found

    def __contains__(self, what: str) -> bool:
        return what in self.results

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.results.values())

    def names(self) -> list[str]:
        """What there are results of."""
        return list(self.results)

    def add(self, what: str, **found: Any) -> dict[str, Any]:
        """Keep one result, which is of plain data."""
        self.results[what] = {"what": what, **found}
        if self.path is not None:
            cut_off = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
            with self.path.open("a") as file:
                file.write("\n" * cut_off + json.dumps(self.results[what]) + "\n")
        return self.results[what]
