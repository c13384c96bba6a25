"""What the HTML report draws, of the result lines of one subject: errors, coverage and time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import charts
from .results import Line


def entries(cells: Iterable[Line], dtype: str) -> list[int]:
    """The entries of cases on which laws hold, by their errors."""
    own = [cell["spread"] for cell in cells if cell["dtype"] == dtype and cell.get("spread")]
    return [sum(counts) for counts in zip(*own, strict=True)]


def clouds(runs: Sequence[Line]) -> Iterator[charts.Cloud]:
    """Errors against the length of a case, the place of a row and the size of scores, by dtype."""
    for dtype in dict.fromkeys(cell["dtype"] for cell in runs):
        own = [(cell, case) for cell in runs if cell["dtype"] == dtype for case in cell["run"].get("errors", ())]
        longest = max((case["length"] for _, case in own), default=1)
        scores = [math.log2(case["score"]) for _, case in own if case.get("score")]
        low, high = min(scores, default=0.0), max(scores, default=0.0)
        by_length, by_row, by_score = [], [], []
        for cell, case in own:
            error = f"{cell['mechanism']}, {case['case']}: {charts.number(case['units'])} × the bound"
            length = math.log2(case["length"]) / max(1.0, math.log2(longest))
            by_length.append((length, case["units"], f"{error} at length {case['length']}"))
            if case["rows"] > 1 and case["units"]:
                place = f"in row {case['row']} of {case['rows']}"
                by_row.append((case["row"] / (case["rows"] - 1), case["units"], f"{error} {place}"))
            if case.get("score"):
                size = (math.log2(case["score"]) - low) / max(1.0, high - low)
                by_score.append((size, case["units"], f"{error}, scores of up to {case['score']:.3g}"))
        middle = f"{round(math.sqrt(longest))}"
        yield from filter(
            None,
            (
                charts.cloud(f"{dtype}, by length", by_length, ("1", middle, str(longest))),
                charts.cloud(f"{dtype}, by the place of the row", by_row, ("first", "middle", "last")),
                charts.cloud(
                    f"{dtype}, by the largest score",
                    by_score,
                    tuple(f"{2 ** (low + part * max(1.0, high - low)):.2g}" for part in (0.0, 0.5, 1.0)),
                ),
            ),
        )


def given(cells: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """The options that were given, by mechanism."""
    for name, found in _by_mechanism(cells, "coverage").items():
        options = dict.fromkeys(option for part in found for option in part.get("given", ()))
        if options:
            yield name, ", ".join(options)


def answered(cells: Sequence[Line]) -> Iterator[tuple[str, int, int, str]]:
    """Of each mechanism, the scenarios that were answered and all that were asked."""
    for name, found in _by_mechanism(cells, "coverage").items():
        answered, asked = (sum(part[key] for part in found) for key in ("answered", "scenarios"))
        yield name, answered, asked, "scenarios answered"


def noticed(cells: Sequence[Line]) -> Iterator[tuple[str, int, int, str]]:
    """Of each mechanism, the known mistakes that would be detected and all that are within the claims."""
    for name, found in _by_mechanism(cells, "evidence").items():
        claimed = sum(part["mistakes"] - part["unclaimed"] for part in found)
        yield name, claimed - sum(len(part["unshown"]) for part in found), claimed, "known mistakes would be detected"


def _by_mechanism(cells: Sequence[Line], key: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        if key in cell["run"]:
            found.setdefault(cell["mechanism"], []).append(cell["run"][key])
    return found


def times(cells: Sequence[Line]) -> tuple[charts.Bar, ...]:
    """The seconds of each mechanism, with the number of calls."""
    seconds: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for cell in cells:
        seconds[cell["mechanism"]] += cell["run"]["seconds"]
        calls[cell["mechanism"]] += cell["run"]["calls"]
    told = {name: f"{seconds[name]:.1f} s, {calls[name]} calls" for name in seconds}
    return charts.bars({name: x for name, x in seconds.items() if x}, told)
