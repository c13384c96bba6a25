"""The contents of the HTML report, as values for a template: verdicts in sentences, tables, failures, charts.

All texts are made safe to print here; the template escapes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Error
from ..mechanisms.mechanism import Mechanism
from . import charts, drawings, matrix, workloads
from .blocks import FOLDER, told_of_others
from .exhibits import Failure, failure
from .formulas import mathml
from .results import Line, subject_lines
from .standings import library_of, standings, whole, why_ended
from .statements import COUNTED, NAMES, Statement, Untested, statements
from .summary import WORDS, safe_line, title, unwitnessed

TOLD = {
    "violated": "is not conformant",
    "partial": "was not tested completely",
    "waived": "is conformant except for what is waived",
    "conformant": "is conformant, as far as it was tested",
    "not_tested": "was not tested",
}
RANK = ("error", "fail", "internal", "waived", "pass", "not_tested", "not_declared")
"""Verdicts, the one first that a cell of the matrix is drawn as."""
MOST, FEWEST, SHOWN = 40, 2, 200
"""Failures that are shown of a subject: at most and at least, and about how many of all subjects together."""
CLOSEST = 8
"""Laws that are named which hold with the least room."""
DRAWN = 4000
"""Cells of a page up to which the errors of each law are drawn, and each column of a drawing says its number."""
LAWS = 20_000
"""Cells of a page up to which every law is listed that is claimed, and errors are drawn by law, length, row and score.

Of more, laws are listed that do not hold, and errors are drawn entry by entry alone.
"""


@dataclass(frozen=True, slots=True)
class Spot:
    """A field of a table: its text, and the verdict that it is drawn as."""

    text: str
    kind: str
    spark: str = ""
    """How the errors of its entries are spread, as the path of a drawing."""


@dataclass(frozen=True, slots=True)
class Row:
    """A mechanism by dtypes, and each of its laws by dtypes."""

    name: str
    title: str
    formula: str
    """MathML, if it can be typeset."""
    tex: str
    spots: tuple[Spot, ...]
    laws: tuple[tuple[str, tuple[Spot, ...]], ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """One implementation."""

    anchor: str
    name: str
    verdict: str
    word: str
    told: str
    statements: tuple[Statement, ...]
    dtypes: tuple[str, ...]
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]
    further: tuple[str, ...]
    """Failures in a line each."""
    untested: tuple[Untested, ...]
    spreads: tuple[charts.Spread, ...]
    rooms: tuple[charts.Spread, ...]
    clouds: tuple[charts.Cloud, ...]
    given: tuple[tuple[str, str], ...]
    """The options that were given in a scenario that was answered, by mechanism."""
    closest: tuple[charts.Bar, ...]
    coverage: tuple[charts.Bar, ...]
    noticed: tuple[charts.Bar, ...]
    times: tuple[charts.Bar, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A report."""

    title: str
    sentence: str
    verdict: str
    subjects: tuple[Subject, ...]
    runs: tuple[tuple[tuple[str, str], ...], ...]
    """For each run, what it was asked and where it ran."""
    warnings: tuple[str, ...]
    ticks: tuple[charts.Tick, ...]
    room_ticks: tuple[str, ...]
    brief: bool
    """Whether drawings are single shapes, which name no number: a browser lays out thousands of columns slowly."""


@dataclass(frozen=True, slots=True)
class Source:
    """The lines of a results file, and the folder in which its failing cases were kept."""

    lines: Sequence[Line]
    folder: str = FOLDER


def page(sources: Sequence[Source]) -> Page:
    """The page of one run or of several, of which a later one counts where two speak of the same cell."""
    files = [[safe_line(line) for line in source.lines] for source in sources]
    cells, heads = matrix.merged(files), [lines[0] for lines in files]
    folders = {_key(line): s.folder for s, lines in zip(sources, files, strict=True) for line in lines if _is(line)}
    stated, known = _stated(files, cells), _mechanisms(heads[0], cells)
    own: dict[str, list[Line]] = {}
    for cell in cells:
        own.setdefault(cell["subject"], []).append(cell)
    most = min(MOST, max(FEWEST, SHOWN // max(1, len(stated))))
    made = (
        _subject(f"s{number}", line, own.get(line["subject"], []), folders, known, len(cells), most)
        for number, line in enumerate(stated, 1)
    )
    subjects = tuple(sorted(made, key=lambda s: [*TOLD].index(s.verdict)))  # what is wrong is read first
    return Page(
        title=f"attnspec: {', '.join(s.name for s in subjects[:3])}{' and more' if len(subjects) > 3 else ''}",
        sentence=_overall(subjects),
        verdict=min((s.verdict for s in subjects), key=list(TOLD).index, default="not_tested"),
        subjects=subjects,
        runs=tuple(tuple(_run(lines)) for lines in files),
        warnings=tuple(_warnings(files)),
        ticks=charts.ticks(),
        room_ticks=charts.room_ticks(),
        brief=len(cells) > DRAWN,
    )


def _is(line: Line) -> bool:
    return line["kind"] == "cell"


def _key(cell: Line) -> tuple[str, ...]:
    return cell["subject"], cell["mechanism"], cell["law"], cell["dtype"]


def _stated(files: Sequence[Sequence[Line]], cells: Sequence[Line]) -> list[Any]:
    """How the subjects stand: as a whole file says it, else as it follows from what is there."""
    own = [line for line in files[0] if line["kind"] == "subject"]
    if len(files) == 1 and own:
        return own
    expected = [line for lines in files for line in lines if line["kind"] == "expected"]
    ended = next(filter(None, map(why_ended, files)), "")
    found = standings([files[0][0], *expected, *cells], ended)
    return list(subject_lines([*cells], found, strict=files[0][0].get("fail_on") == "should"))


def _mechanisms(header: Line, cells: Sequence[Line]) -> dict[str, Mechanism]:
    """The mechanisms of cells by name, as far as the specifications at hand are those of the run."""
    try:
        library = library_of(header)
        digests = {cell["mechanism"]: cell["digest"] for cell in cells}
        found = {name: library[name] for name in digests if name in library}
    except Error:
        return {}
    return {name: mechanism for name, mechanism in found.items() if mechanism.digest == digests[name]}


def _overall(subjects: Sequence[Subject]) -> str:
    if len(subjects) == 1:
        return f"{subjects[0].name} {subjects[0].told}."
    counts = Counter(subject.verdict for subject in subjects)
    told = [f"{counts[verdict]} {WORDS[verdict].lower()}" for verdict in TOLD if counts[verdict]]
    return f"{len(subjects)} subjects: {', '.join(told)}." if told else "Nothing was tested."


def _run(lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """What was asked for, where, and with what."""
    header = lines[0]
    yield "run", title(header)
    end = next((line for line in lines if line["kind"] == "end"), {})
    more = {"command": "command", "began": "started", "machine": "platform", "Python": "python"}
    for name, key in {**more, "part": "shard", "isolation": "isolation"}.items():
        if header.get(key):
            yield name, str(header[key])
    if header.get("require"):
        yield "required", ", ".join(header["require"])
    yield from (
        ("workload", text) for text in workloads.told(lines[:1], [line for line in lines if line["kind"] == "cell"])
    )
    if end:
        yield "took", f"{end['seconds']:.1f} s"
    for path, digest in header.get("sources", {}).items():
        yield "file", f"{path} (digest {digest})"


def _warnings(files: Sequence[Sequence[Line]]) -> Iterator[str]:
    unfinished = sum(not whole(lines) for lines in files)
    if unfinished:
        which = "The run" if len(files) == 1 else f"{unfinished} of {len(files)} runs"
        yield f"{which} did not finish; the results so far are valid."
    for lines in files:
        if lines[0].get("waivers_missing"):
            yield f"{lines[0]['waivers_missing']} does not exist, so nothing is waived."
        if any(line.get("altered") for line in lines if line["kind"] == "end"):
            yield "Another process wrote to the results; the run has written its own results again."


def _subject(
    anchor: str,
    line: Mapping[str, Any],
    cells: Sequence[Line],
    folders: Mapping[tuple[str, ...], str],
    known: Mapping[str, Mechanism],
    total: int,
    most: int,
) -> Subject:
    dtypes = tuple(dict.fromkeys(cell["dtype"] for cell in cells))
    pairs = sorted(told_of_others([*cells]), key=lambda pair: not pair[0].get("full"))
    shown = tuple(
        failure(witness, cell, f"{anchor}f{number}", folders[_key(cell)], known.get(cell["mechanism"]))
        for number, (witness, cell) in enumerate(pairs[:most], 1)
    )
    left = [f"{c['mechanism']}.{c['law']}   {c['dtype']}   case {w['key']}" for w, c in pairs[most:]]
    further = (*left, *(text for text in unwitnessed(cells) if text))
    untested = tuple(_untested(cells))
    runs = [cell for cell in cells if cell.get("run")]
    holding = [c for c in cells if c["verdict"] == "pass" and c["worst"] and c["worst"] <= 1]
    holding.sort(key=lambda cell: -cell["worst"])
    return Subject(
        anchor=anchor,
        name=line["subject"],
        verdict=line["verdict"],
        word=WORDS[line["verdict"]].capitalize(),
        told=TOLD[line["verdict"]],
        statements=tuple(statements(line, cells, shown, further, untested, known)),
        dtypes=dtypes,
        rows=tuple(_rows(cells, dtypes, known, every=total <= LAWS, drawn=total <= DRAWN)),
        failures=shown,
        further=further,
        untested=untested,
        spreads=tuple(found for d in dtypes if total <= LAWS and (found := charts.spread(d, _errors(cells, d)))),
        rooms=tuple(found for d in dtypes if (found := charts.room(d, drawings.entries(cells, d)))),
        clouds=tuple(drawings.clouds(runs)) if total <= LAWS else (),
        given=tuple(drawings.given(runs)),
        closest=tuple(
            charts.Bar(
                f"{c['mechanism']}.{c['law']} in {c['dtype']}",
                round(charts.WIDTH * c["worst"]),
                f"{charts.number(c['worst'])} × the bound",
            )
            for c in holding[: CLOSEST if total <= LAWS else CLOSEST // 4]
        ),
        coverage=charts.shares([*drawings.answered(runs)]),
        noticed=charts.shares([*drawings.noticed(runs)]),
        times=drawings.times(runs),
    )


def _errors(cells: Iterable[Line], dtype: str) -> list[float | None]:
    return [cell["worst"] for cell in cells if cell["dtype"] == dtype and cell["verdict"] in ("pass", "fail")]


# Tables


def _rows(
    cells: Sequence[Line], dtypes: Sequence[str], known: Mapping[str, Mechanism], *, every: bool, drawn: bool
) -> Iterator[Row]:
    groups: dict[str, list[Line]] = {}
    for cell in cells:
        groups.setdefault(cell["mechanism"], []).append(cell)
    for name, own in groups.items():
        spots = tuple(_counts([cell for cell in own if cell["dtype"] == dtype]) for dtype in dtypes)
        laws: dict[str, dict[str, Line]] = {}
        for cell in own:
            laws.setdefault(cell["law"], {})[cell["dtype"]] = cell
        left = ("not_declared",) if every else ("not_declared", "not_tested", "pass")
        kept = [(law, by) for law, by in laws.items() if any(cell["verdict"] not in left for cell in by.values())]
        mechanism = known.get(name)
        tex = mechanism.formula if mechanism else ""
        listed = tuple((law, tuple(_law(by.get(dtype), drawn=drawn) for dtype in dtypes)) for law, by in kept)
        yield Row(name, mechanism.title if mechanism else "", mathml(tex), tex, spots, listed)


def _counts(cells: Sequence[Line]) -> Spot:
    counts = Counter(_drawn(cell) for cell in cells)
    tried = sum(counts[verdict] for verdict in (*COUNTED, "should"))
    worst = min((cell["verdict"] for cell in cells if _drawn(cell) != "should"), key=RANK.index, default="not_declared")
    if not tried:
        return Spot(NAMES[worst] if cells else "–", worst)
    bad = counts["fail"] + counts["error"]
    more = f", {bad} fail{'s' * (bad == 1)}" if bad else ", internal error" if counts["internal"] else ""
    return Spot(f"{counts['pass']}/{tried}{more}", worst if counts["pass"] or bad else "not_tested")


def _drawn(cell: Line) -> str:
    lenient = cell["verdict"] in ("fail", "error") and cell["level"] == "should"
    return "should" if lenient else cell["verdict"]


def _law(cell: Line | None, *, drawn: bool) -> Spot:
    if cell is None:
        return Spot("–", "not_declared")
    verdict = _drawn(cell)
    error = f" {charts.number(cell['worst'])}" if verdict in COUNTED[:2] and cell["worst"] != 0 else ""
    return Spot(NAMES[verdict] + error, verdict, charts.spark(cell.get("spread", ())) if drawn else "")


def _untested(cells: Sequence[Line]) -> Iterator[Untested]:
    """What was not tested and what is not claimed, by reason, what is claimed first."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for verdict in ("internal", "not_tested", "not_declared"):
        for cell in cells:
            if cell["verdict"] == verdict:
                groups.setdefault((verdict, cell["says"] or NAMES[verdict]), []).append(cell)
    for (verdict, reason), own in groups.items():
        by: dict[tuple[str, str], list[str]] = {}
        for cell in own:
            by.setdefault((cell["mechanism"], cell["dtype"]), []).append(cell["law"])
        yield Untested(reason, len(own), verdict, tuple(_by_dtypes(by)))
    blind: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        unshown = cell.get("run", {}).get("evidence", {}).get("unshown", ())
        if unshown:
            blind[cell["mechanism"], cell["dtype"]] = list(unshown)
    if blind:
        count = sum(map(len, blind.values()))
        told = tuple(_by_dtypes(blind))
        yield Untested("known mistakes that no scenario of the run can detect", count, "not_tested", told)


def _by_dtypes(found: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Names by mechanism and dtype, those of a mechanism together whose names are the same."""
    dtypes: dict[tuple[str, str], list[str]] = {}
    for (mechanism, dtype), names in found.items():
        dtypes.setdefault((mechanism, ", ".join(dict.fromkeys(names))), []).append(dtype)
    for (mechanism, told), own in dtypes.items():
        yield f"{mechanism} in {', '.join(own)}", told
