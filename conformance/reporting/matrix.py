"""The results of implementations as a matrix: mechanisms and dtypes, conventions, and precision.

Made of one results file or of several, of which a later one counts where two speak of the same cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..data.texts import safe_data
from ..judging.coverage import interpreters
from .results import Line, grades
from .standings import missing, standings, whole, why_ended
from .summary import title
from .typesetting import aligned, page_width
from .workloads import shares

RANK = ("error", "fail", "internal", "partial", "waived", "pass", "not_tested", "not_declared")
"""Verdicts, the one first that speaks for cells of several."""
WORDS = {
    "error": "error",
    "fail": "FAIL",
    "internal": "internal error",
    "partial": "PARTIAL",
    "waived": "waived",
    "pass": "ok",
    "not_tested": "not tested",
    "not_declared": "-",
}
HOW = {"declared": "", "observed": "*", "unexplained": "?"}
"""What is put behind a convention's word."""
SHORT = {"float64": "f64", "float32": "f32", "bfloat16": "bf16", "float16": "f16"}


LEGEND = (
    "'ok' means that every law that was tested holds, and a dash that the adapter does not claim the mechanism.",
    "A cell that holds only for some dtypes names them.",
    "An 'interpreted' adapter ran device kernels in an interpreter on the CPU, not on a device.",
    "Conventions are as declared; a star means observed, a question mark that no word explains the results.",
)
LONGEST = 120
"""Characters of a reason that are shown."""
MANY = 8
"""Laws of a mechanism that are named in a row."""
CASES = 4
"""Cases that are named in a row."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its title; the first column names the rows. Without a title it belongs to the one before."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def heads(headers: Iterable[Line]) -> list[Line]:
    """Headers of several files with what differs only in packages put together."""
    found: dict[tuple[str, ...], dict[str, list[str]]] = {}
    named: dict[tuple[str, ...], Line] = {}
    for header in headers:
        key = tuple(str(header.get(name)) for name in ("attnspec", "profile", "seed", "device"))
        named.setdefault(key, header)
        packages = found.setdefault(key, {})
        for name, number in header.get("packages", {}).items():
            if number not in packages.setdefault(name, []):
                packages[name].append(number)
    return [
        {**named[key], "packages": {name: " and ".join(numbers) for name, numbers in sorted(packages.items())}}
        for key, packages in found.items()
    ]


def merged(files: Iterable[Sequence[Line]]) -> list[Line]:
    """The cells of several files."""
    cells: dict[tuple[str, ...], Line] = {}
    for lines in files:
        for line in lines:
            if line["kind"] == "cell":
                key = (line["subject"], line["mechanism"], line["law"], line["dtype"], line["device"])
                cells[key] = line
    return list(cells.values())


def lacking(files: Iterable[Sequence[Line]]) -> list[Line]:
    """For each group of the merged cells that lacks some, or ended early, one further cell that is partial."""
    expected, cells = _expected(files := list(files)), merged(files)
    groups = {key[:3] for key in missing([*expected, *cells])}
    found = {_group(line): line for line in expected if _group(line) in groups}
    found |= {_group(cell): cell for cell in cells if cell.get("run", {}).get("ended")}
    part = {"kind": "cell", "law": "", "level": "must", "verdict": "partial", "cases": 0, "says": ""}
    kept = ("subject", "operator", "mechanism", "dtype", "device")
    return [{**part, **{name: line[name] for name in kept}} for line in found.values()]


def shortcomings(files: Iterable[Sequence[Line]]) -> list[tuple[str, str]]:
    """Adapters of which the merged cells are not the whole answer, and why."""
    files = list(files)
    lines = [*(lines[0] for lines in files[:1]), *_expected(files), *merged(files)]
    found = standings(lines, next(filter(None, map(why_ended, files)), ""))
    return [(subject, reason) for subject, standing in sorted(found.items()) for reason in standing.reasons]


def _expected(files: Iterable[Sequence[Line]]) -> list[Line]:
    return [line for lines in files for line in lines if line["kind"] == "expected"]


def _group(line: Line) -> tuple[str, str, str]:
    return line["subject"], line["mechanism"], line["dtype"]


def unfinished(files: Iterable[Sequence[Line]]) -> int:
    """How many of the runs did not finish."""
    return sum(not whole(lines) for lines in files)


def legend(partial: int) -> Iterator[str]:
    """How to read the tables, and how many of the runs that they are made of did not finish."""
    yield from LEGEND
    if partial:
        runs = "A run" if partial == 1 else f"{partial} runs"
        yield f"PARTIAL: {runs} did not finish; the results so far are valid."


def tables(cells: Sequence[Line], reasons: Sequence[tuple[str, str]] = ()) -> Iterator[Table]:
    """Everything that is shown, operator by operator and as a whole."""
    for operator in sorted({cell["operator"] for cell in cells}):
        own = [cell for cell in cells if cell["operator"] == operator]
        yield verdicts(operator, own)
        conventions = followed(own)
        if len(conventions.columns) > 1:
            yield conventions
    yield precision(cells)
    violations = violated(cells)
    if violations.rows:
        yield violations
        yield sentences(cells)
    yield from (table for table in (waived(cells), noted(cells)) if table.rows)
    if reasons:
        yield Table("Partial", ["adapter", "why"], reasons)


def worked(headers: Iterable[Line], cells: Sequence[Line]) -> Iterator[Table]:
    """Which share of the workloads was judged that runs name, if they name any."""
    rows = [[each.subject, each.path, str(each.calls), each.part, str(each.wrong)] for each in shares(headers, cells)]
    if rows:
        yield Table("Workload", ["adapter", "file", "calls", "judged", "wrong"], rows)


def verdicts(operator: str, cells: Sequence[Line]) -> Table:
    """Adapters down, mechanisms across."""
    mechanisms = list(dict.fromkeys(cell["mechanism"] for cell in cells))
    rows = []
    for subject in _subjects(cells):
        own = [cell for cell in cells if cell["subject"] == subject]
        mark = " (interpreted)" if interpreters(own) else ""
        rows.append([subject + mark, *(_standing([c for c in own if c["mechanism"] == m]) for m in mechanisms)])
    return Table(operator, ["adapter", *mechanisms], rows)


def _standing(cells: Sequence[Line]) -> str:
    """How a subject stands on a mechanism: one word, or one for each group of dtypes."""
    standing: dict[str, list[str]] = {}
    for dtype in dict.fromkeys(cell["dtype"] for cell in cells):
        own = [c["verdict"] for c in cells if c["dtype"] == dtype and _counts(c)]
        worst = min(own, key=RANK.index, default="not_tested")
        standing.setdefault(WORDS[worst], []).append(_dtype(dtype))
    if len(standing) == 1:
        return next(iter(standing))
    return ", ".join(f"{word} {' '.join(dtypes)}" for word, dtypes in standing.items())


def _counts(cell: Line) -> bool:
    """Whether a cell decides how a subject stands: laws that must hold do, and so does what they break."""
    bad = cell["verdict"] in ("fail", "error", "waived")
    return cell["level"] == "must" and (bad or not cell["law"].startswith(("contract.", "convention.")))


def followed(cells: Sequence[Line]) -> Table:
    """The conventions that adapters follow: declared, or observed (with a star), or none of the words (?)."""
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for cell in cells:
        for name, finding in cell.get("run", {}).get("conventions", {}).items():
            if finding["how"] in HOW:
                word = finding["word"] + HOW[finding["how"]]
                dtypes = found.setdefault(cell["subject"], {}).setdefault(name, {}).setdefault(word, [])
                dtypes.append(_dtype(cell["dtype"]))
    names = sorted({name for words in found.values() for name in words})  # whichever adapter comes first
    rows = [[s, *(_words(found.get(s, {}).get(name, {})) for name in names)] for s in _subjects(cells) if s in found]
    return Table("", ["adapter", *names], rows)


def _words(words: Mapping[str, Sequence[str]]) -> str:
    if len(words) == 1:
        return next(iter(words))
    return ", ".join(f"{word} {' '.join(dict.fromkeys(dtypes))}" for word, dtypes in words.items())


def precision(cells: Sequence[Line]) -> Table:
    """The loosest grade that each adapter needed, which is the tightest that explains all that it returned."""
    dtypes = [dtype for dtype in SHORT if any(cell["dtype"] == dtype for cell in cells)]
    rows = []
    for subject in _subjects(cells):
        found = grades([cell for cell in cells if cell["subject"] == subject])
        rows.append([subject, *(found.get(dtype, "") for dtype in dtypes)])
    return Table("Precision", ["adapter", *dtypes], rows)


def violated(cells: Sequence[Line]) -> Table:
    """What fails; laws that fail alike stand in one row, with the cases that show it."""
    broken: dict[tuple[str, str, str], list[Line]] = {}
    for cell in _violations(cells):
        broken.setdefault((cell["subject"], cell["mechanism"], cell["law"]), []).append(cell)
    alike: dict[tuple[str, ...], dict[str, list[str]]] = {}
    shown: dict[tuple[str, ...], dict[str, None]] = {}
    witnesses = {_group(cell): cell["witness"] for cell in cells if "witness" in cell}
    for (subject, mechanism, law), own in broken.items():
        witness = next((cell["witness"] for cell in own if "witness" in cell), None)
        likeness = witness["likeness"]["name"] if witness and witness["likeness"] else ""
        dtypes = " ".join(dict.fromkeys(_dtype(cell["dtype"]) for cell in own))
        says = _short(next((cell["says"] for cell in own if cell["says"]), ""))
        known = ", ".join(dict.fromkeys(cell.get("finding", "new") for cell in own))
        row = (subject, dtypes, likeness, says, known if known != "new" else "")
        alike.setdefault(row, {}).setdefault(mechanism, []).append(law)
        shown.setdefault(row, {}).update((key, None) for cell in own if (key := _case(cell, witnesses)))
    rows = [
        [
            row[0],
            "; ".join(f"{name}: {_several(laws)}" for name, laws in found.items()),
            *row[1:],
            _several([*shown[row]], CASES),
        ]
        for row, found in sorted(alike.items(), key=lambda item: item[0][0])
    ]
    columns = ["adapter", "laws", "dtypes", "like", "says", "known", "cases"]
    if not any(cell.get("finding") for cell in cells):
        columns, rows = [*columns[:-2], columns[-1]], [[*row[:-2], row[-1]] for row in rows]
    return Table("Violations", columns, rows)


def waived(cells: Sequence[Line]) -> Table:
    """What somebody answers for, until when and why."""
    return _answered("Waived", [cell for cell in cells if cell["verdict"] == "waived"], "says")


def noted(cells: Sequence[Line]) -> Table:
    """What fails under laws that the pin of a run does not have."""
    return _answered("Notes: failures once the pin is renewed", [cell for cell in cells if cell.get("note")], "note")


def _answered(title: str, cells: Iterable[Line], why: str) -> Table:
    """Cells that fail no run, those of one law together."""
    rows: dict[tuple[str, str, str], dict[str, None]] = {}
    for cell in cells:
        rows.setdefault((cell["subject"], f"{cell['mechanism']}.{cell['law']}", cell[why]), {})[cell["dtype"]] = None
    listed = [[subject, law, " ".join(map(_dtype, dtypes)), says] for (subject, law, says), dtypes in rows.items()]
    return Table(title, ["adapter", "law", "dtypes", "why"], listed)


def _violations(cells: Sequence[Line]) -> list[Line]:
    return [cell for cell in cells if cell["verdict"] in ("fail", "error") and cell["level"] == "must"]


def _case(cell: Line, witnesses: Mapping[tuple[str, str, str], Line]) -> str:
    """The key of the case that shows a failure: its own, or that of the failure which it is listed under."""
    witness = cell.get("witness") or witnesses.get(_group(cell), {})
    return witness.get("key", "") if "witness" in cell or cell["law"] in witness.get("broken", ()) else ""


def sentences(cells: Sequence[Line]) -> Table:
    """What each law says that fails."""
    said = {
        f"{c['mechanism']}.{c['law']}": c.get("sentence") or c.get("witness", {}).get("says", "")
        for c in _violations(cells)
    }
    return Table("What these laws say", ["law", "says"], sorted(said.items()))


def _dtype(name: str) -> str:
    """The short name of a dtype."""
    return SHORT.get(name, name)


def _several(names: Sequence[str], most: int = MANY) -> str:
    """Names, the first ones where there are many."""
    named = ", ".join(names[:most])
    return named if len(names) <= most else f"{named} and {len(names) - most} more"


def _short(reason: str) -> str:
    """A reason on one line, and not too long for a table."""
    line = " ".join(reason.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _subjects(cells: Sequence[Line]) -> list[str]:
    return sorted({cell["subject"] for cell in cells})


# Rendering


def markdown(
    headers: Sequence[Line], cells: Sequence[Line], partial: int = 0, reasons: Sequence[tuple[str, str]] = ()
) -> Iterator[str]:
    """The tables as Markdown."""
    headers, cells, reasons = safe_data(headers), safe_data(cells), safe_data(reasons)
    yield "# Results of implementations"
    yield ""
    yield from (f"- `{title(header).replace('`', '')}`" for header in heads(headers))
    yield ""
    yield from legend(partial)
    for table in (*tables(cells, reasons), *worked(headers, cells)):
        yield ""
        if table.title:
            yield from (f"## {table.title}", "")
        yield f"| {' | '.join(map(_escaped, table.columns))} |"
        yield f"|{'---|' * len(table.columns)}"
        yield from (f"| {' | '.join(map(_escaped, row))} |" for row in table.rows)


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is in the cell of a table, and takes for no code, tag or link."""
    entities = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "&#96;", "\\": "&#92;"}
    return re.sub(r"[&<>`\\]", lambda found: entities[found[0]], text).replace("|", r"\|").replace("](", r"]\(")


def text(
    headers: Sequence[Line],
    cells: Sequence[Line],
    partial: int = 0,
    reasons: Sequence[tuple[str, str]] = (),
    columns: int | None = None,
) -> Iterator[str]:
    """The tables as plain text, each column as wide as it has to be; row by row where a terminal is too narrow."""
    headers, cells, reasons = safe_data(headers), safe_data(cells), safe_data(reasons)
    yield from map(title, heads(headers))
    yield from legend(partial)
    for table in (*tables(cells, reasons), *worked(headers, cells)):
        yield ""
        if table.title:
            yield f"== {table.title} ".ljust(page_width(columns), "=")
        lines = list(aligned([table.columns, *table.rows]))
        narrow = columns is not None and max(map(len, lines)) > columns
        yield from _stacked(table) if narrow else lines


def _stacked(table: Table) -> Iterator[str]:
    """The rows of a table one below the other, without what is not claimed."""
    width = max(map(len, table.columns)) + 2
    for first, *row in table.rows:
        yield first
        for column, entry in zip(table.columns[1:], row, strict=True):
            if entry not in ("", WORDS["not_declared"]):
                yield f"    {column:<{width}}{entry}"
