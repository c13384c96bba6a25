"""How implementations stand: adapters by mechanisms and dtypes, the conventions that they follow, and their precision.

Made of one results file or of several, of which a later one counts where two speak of the same cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .results import Line, grades
from .summary import title

RANK = ("error", "fail", "waived", "pass", "not_tested", "not_declared")
"""Verdicts, the one first that speaks for cells of several."""
WORDS = {
    "error": "error",
    "fail": "FAIL",
    "waived": "waived",
    "pass": "ok",
    "not_tested": "not tested",
    "not_declared": "-",
}
HOW = {"declared": "", "observed": "*", "unexplained": "?"}
"""What is put behind a convention's word."""
SHORT = {"float64": "f64", "float32": "f32", "bfloat16": "bf16", "float16": "f16"}


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a title, a note under it, and its rows; the first column names them."""

    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def merged(files: Iterable[Sequence[Line]]) -> list[Line]:
    """The cells of several files."""
    cells: dict[tuple[str, ...], Line] = {}
    for lines in files:
        for line in lines:
            if line["kind"] == "cell":
                key = (line["subject"], line["mechanism"], line["law"], line["dtype"], line["device"])
                cells[key] = line
    return list(cells.values())


def tables(cells: Sequence[Line]) -> Iterator[Table]:
    """Everything that is shown, operator by operator and as a whole."""
    for operator in sorted({cell["operator"] for cell in cells}):
        own = [cell for cell in cells if cell["operator"] == operator]
        yield verdicts(operator, own)
        conventions = followed(operator, own)
        if len(conventions.columns) > 1:
            yield conventions
    yield precision(cells)
    violations = violated(cells)
    if violations.rows:
        yield violations


def verdicts(operator: str, cells: Sequence[Line]) -> Table:
    """Adapters down, mechanisms across; what holds for some dtypes only names them."""
    mechanisms = list(dict.fromkeys(cell["mechanism"] for cell in cells))
    rows = []
    for subject in _subjects(cells):
        own = [cell for cell in cells if cell["subject"] == subject]
        rows.append([subject, *(_standing([c for c in own if c["mechanism"] == m]) for m in mechanisms)])
    return Table(operator, "", ["adapter", *mechanisms], rows)


def _standing(cells: Sequence[Line]) -> str:
    """How a subject stands on a mechanism: one word, or one for each group of dtypes."""
    standing: dict[str, list[str]] = {}
    for dtype in dict.fromkeys(cell["dtype"] for cell in cells):
        own = [c["verdict"] for c in cells if c["dtype"] == dtype and _counts(c)]
        worst = min(own, key=RANK.index, default="not_tested")
        standing.setdefault(WORDS[worst], []).append(_short(dtype))
    if len(standing) == 1:
        return next(iter(standing))
    return ", ".join(f"{word} {' '.join(dtypes)}" for word, dtypes in standing.items())


def _counts(cell: Line) -> bool:
    """Whether a cell decides how a subject stands: laws that must hold do, and so does what they break."""
    bad = cell["verdict"] in ("fail", "error", "waived")
    return cell["level"] == "must" and (bad or not cell["law"].startswith(("contract.", "convention.")))


def followed(operator: str, cells: Sequence[Line]) -> Table:
    """The conventions that adapters follow: declared, or observed (with a star), or none of the words (?)."""
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for cell in cells:
        for name, finding in cell.get("run", {}).get("conventions", {}).items():
            if finding["how"] in HOW:
                word = finding["word"] + HOW[finding["how"]]
                dtypes = found.setdefault(cell["subject"], {}).setdefault(name, {}).setdefault(word, [])
                dtypes.append(_short(cell["dtype"]))
    names = list(dict.fromkeys(name for words in found.values() for name in words))
    rows = [[s, *(_words(found.get(s, {}).get(name, {})) for name in names)] for s in _subjects(cells) if s in found]
    note = "As declared; with a star, as observed; with a question mark, no word explains all that was returned."
    return Table(f"{operator}: conventions", note, ["adapter", *names], rows)


def _words(words: Mapping[str, Sequence[str]]) -> str:
    if len(words) == 1:
        return next(iter(words))
    return ", ".join(f"{word} {' '.join(dict.fromkeys(dtypes))}" for word, dtypes in words.items())


def precision(cells: Sequence[Line]) -> Table:
    """The loosest grade that each adapter needed."""
    dtypes = [dtype for dtype in SHORT if any(cell["dtype"] == dtype for cell in cells)]
    rows = []
    for subject in _subjects(cells):
        found = grades([cell for cell in cells if cell["subject"] == subject])
        rows.append([subject, *(found.get(dtype, "") for dtype in dtypes)])
    note = "The tightest grade that explains all that was returned ('attnspec explain GRADE')."
    return Table("Precision", note, ["adapter", *dtypes], rows)


def violated(cells: Sequence[Line]) -> Table:
    """What fails, law by law."""
    found: dict[tuple[str, str], list[Line]] = {}
    for cell in cells:
        if cell["verdict"] in ("fail", "error") and cell["level"] == "must":
            found.setdefault((cell["subject"], f"{cell['mechanism']}.{cell['law']}"), []).append(cell)
    rows = []
    for (subject, law), own in found.items():
        witness = next((cell["witness"] for cell in own if "witness" in cell), None)
        says = next((cell["says"] for cell in own if cell["says"]), "")
        likeness = witness["likeness"]["name"] if witness and witness["likeness"] else ""
        dtypes = " ".join(dict.fromkeys(_short(cell["dtype"]) for cell in own))
        rows.append([subject, law, dtypes, likeness, says])
    return Table("Violations", "", ["adapter", "law", "dtypes", "like", "says"], rows)


def _short(dtype: str) -> str:
    return SHORT.get(dtype, dtype)


def _subjects(cells: Sequence[Line]) -> list[str]:
    return sorted({cell["subject"] for cell in cells})


# Rendering


def markdown(headers: Sequence[Line], cells: Sequence[Line]) -> Iterator[str]:
    """The tables as Markdown."""
    yield "# How implementations stand"
    yield ""
    yield from (f"`{title(header)}`" for header in headers)
    for table in tables(cells):
        yield ""
        yield f"## {table.title}"
        yield ""
        if table.note:
            yield from (table.note, "")
        yield f"| {' | '.join(table.columns)} |"
        yield f"|{'---|' * len(table.columns)}"
        yield from (f"| {' | '.join(entry.replace('|', chr(92) + '|') for entry in row)} |" for row in table.rows)


def text(headers: Sequence[Line], cells: Sequence[Line]) -> Iterator[str]:
    """The tables as plain text, each column as wide as it has to be."""
    yield from map(title, headers)
    for table in tables(cells):
        yield ""
        yield f"== {table.title} ".ljust(100, "=")
        if table.note:
            yield table.note
        lines = [table.columns, *table.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(table.columns))]
        yield from ("  ".join(x.ljust(width) for x, width in zip(line, widths, strict=True)).rstrip() for line in lines)
