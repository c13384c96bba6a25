"""The end of a run: a row for each mechanism, the failures, and the verdicts."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.texts import safe_data, safe_lines
from ..judging.coverage import interpreters
from .blocks import texts, told_of_others
from .findings import named
from .prevalence import rarity
from .results import NAME, Line, grades, observed, place_of, witnessed
from .standings import altered, whole
from .typesetting import WIDTH, fitted, page_width
from .workloads import told

MARKS = {"pass": "", "fail": "x", "error": "!", "waived": "w", "internal": "#", "not_declared": "-", "not_tested": "?"}
WORDS = {
    "conformant": "CONFORMANT",
    "violated": "NOT CONFORMANT",
    "partial": "PARTIAL",
    "waived": "WAIVED",
    "not_tested": "NOT TESTED",
}
"""How a subject stands, as it is shown."""
FULL = 3
"""Failures that are shown in full."""
WIDE = 22
"""Columns for a dtype where there is room."""
SHOWN = 3
"""Known mistakes that are named where a run could not have noticed them."""


def page(
    lines: Sequence[Line],
    *,
    verbose: int = 0,
    folder: str = "",
    cases: str | None = None,
    columns: int | None = None,
    above: Collection[str] = (),
) -> Iterator[str]:
    """The report of a run, as lines of text; on a terminal of so many columns, none of them is longer.

    `folder` has its results, if that is not empty, and the cases that failed, unless `cases` does.
    The blocks of cases that are `above` have been shown before.
    """
    kept = folder if cases is None else cases
    for text in _page([safe_line(line) for line in lines], verbose, folder, kept, page_width(columns), above):
        for line in text.split("\n"):
            yield from fitted(line, columns)


def safe_line(line: Line) -> Line:
    """A line with all of its texts safe to show, be they of a subject or of a stranger's file."""
    found = safe_data(line)
    for own, shown in zip(_traced(line), _traced(found), strict=True):
        shown["trace"] = safe_lines(own["trace"])
    return found


def _traced(line: Line) -> list[Line]:
    """The parts of a line that have a trace, which has lines of its own."""
    return [part for part in (line, line.get("witness", {}), *line.get("unexplained", ())) if part.get("trace")]


def _page(
    lines: Sequence[Line], verbose: int, folder: str, cases: str, width: int, above: Collection[str]
) -> Iterator[str]:
    header, cells = lines[0], _in_order(lines)
    subjects = [line for line in lines if line["kind"] == "subject"]
    yield from dict.fromkeys(cell["run"]["taken"] for cell in cells if cell.get("run", {}).get("taken"))
    yield title(header)
    yield ""
    for subject in subjects:
        yield from rows(subject["subject"], [c for c in cells if c["subject"] == subject["subject"]], width)
        yield ""
    failures = list(told_of_others(cells))
    yield from texts(failures, 10**6 if verbose else FULL, width, cases, above)
    yield from unwitnessed(cells)
    yield from troubles(cells, verbose=bool(verbose))
    if verbose:
        yield from traces(failures)
    yield from verdicts(lines, folder, width)


def _in_order(lines: Sequence[Line]) -> list[Line]:
    """The cells of a run as they were to come, in whatever order they were found."""
    expected = {_group(line): at for at, line in enumerate(lines) if line["kind"] == "expected"}
    cells = [line for line in lines if line["kind"] == "cell"]
    return sorted(cells, key=lambda cell: expected.get(_group(cell), 0))


def title(header: Line) -> str:
    """What ran, and where."""
    packages = "   ".join(f"{name} {number}" for name, number in header.get("packages", {}).items())
    return (
        f"attnspec {header.get('attnspec')}   profile {header.get('profile')}   seed {header.get('seed')}   "
        f"{header.get('device')}{f' ({model})' if (model := header.get('model')) else ''}   {packages}"
    )


def rows(subject: str, cells: Sequence[Line], width: int = WIDTH) -> Iterator[str]:
    """A subject's table: mechanisms down, dtypes across, cells that pass of those that were tried."""
    dtypes = list(dict.fromkeys(cell["dtype"] for cell in cells))
    mechanisms = list(dict.fromkeys(cell["mechanism"] for cell in cells))
    table = [
        [_count([c for c in cells if c["mechanism"] == mechanism and c["dtype"] == d]) for d in dtypes]
        for mechanism in mechanisms
    ]
    yield from _columns([subject, *(f"  {mechanism}" for mechanism in mechanisms)], [dtypes, *table], width)
    for dtype, words in _alike(observed(cells)).items():
        yield f"  observed{dtype}: " + ", ".join(f"{name} = {word}" for name, word in words.items())
        yield from _rare(cells, words)
    beyond = {dtype: grade for dtype, grade in grades(cells).items() if grade.endswith("_naive")}
    if beyond:
        yield "  precision: " + ", ".join(f"{dtype} as {grade}" for dtype, grade in beyond.items())


def _columns(names: Sequence[str], table: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Rows by their names, with as many columns side by side as there is room for, and the others below."""
    first = max(24, *(len(name) + 2 for name in names))
    if first > width // 2 or not any(table):  # the first name is a heading
        yield names[0]
        names, first = ["", *names[1:]], 24
    widths = [max(map(len, column)) + 2 for column in zip(*table, strict=True)]
    wide = WIDE if first + sum(WIDE for _ in widths[1:]) + sum(widths[-1:]) <= width else max(widths)
    count = max(1, (width - first + 2) // wide)
    for at in range(0, len(widths), count):
        for name, row in zip(names, table, strict=True):
            yield (f"{name:<{first}}" + "".join(f"{text:<{wide}}" for text in row[at : at + count])).rstrip()


def _rare(cells: Sequence[Line], words: Mapping[str, str]) -> Iterator[str]:
    """Of the words that were observed, those that few follow; of one that explains not everything, nothing."""
    for name, word in words.items():
        if word.endswith("?"):
            continue
        rare = next((text for c in cells if (text := rarity(c["operator"], name, word))), "")
        if rare:
            yield f"    {name}: {rare}"


def _alike(found: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """What was observed, once if it is the same in every dtype."""
    versions = list(found.values())
    if versions and all(version == versions[0] for version in versions):
        return {"": versions[0]}
    return {f" in {dtype}": words for dtype, words in found.items()}


def _count(cells: Sequence[Line]) -> str:
    """`12/14 x mirrored`, or why there is nothing to count."""
    counts = Counter(cell["verdict"] for cell in cells)
    tried = counts["pass"] + counts["fail"] + counts["error"] + counts["waived"]
    if counts["internal"]:
        return "internal error"
    if not tried:
        return "not declared" if counts["not_declared"] else "not tested"
    must = [c for c in cells if c["verdict"] in ("fail", "error")]
    marks = " ".join(dict.fromkeys(("~" if c["level"] == "should" else MARKS[c["verdict"]]) for c in must))
    return f"{counts['pass']}/{tried}" + (f" {marks}" if marks else "")


def unwitnessed(cells: Sequence[Line]) -> Iterator[str]:
    """The violations that no single case shows, such as conventions that nobody has declared; one line each."""
    shown = witnessed(cells)
    bad = [c for c in cells if c["verdict"] in ("fail", "error") and c["level"] == "must"]
    rest = [c for c in bad if place_of(c) not in shown]
    for cell in rest:
        of = f"   known: {cell['finding']}" if cell.get("finding") else ""
        yield f"{cell['subject']}   {_address(cell)}   {cell['dtype']}   {cell['says']}{of}"
    if rest:
        yield ""


def _group(cell: Line) -> tuple[str, str, str]:
    return cell["subject"], cell["mechanism"], cell["dtype"]


def troubles(cells: Sequence[Line], *, verbose: bool) -> Iterator[str]:
    """Where attnspec itself failed: on cells that have no verdict, and in explaining failures, which stand."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell["verdict"] == "internal":
            what = f"{cell['subject']}   {cell['mechanism']}   {cell['dtype']}   could not be judged: {cell['says']}"
            found.setdefault((what, cell.get("trace", "")), []).append(cell["law"])
        for trouble in cell.get("unexplained", ()):
            what = f"{cell['subject']}   {_address(cell)}   {cell['dtype']}   could not be explained: {trouble['says']}"
            found.setdefault((what, trouble["trace"]), []).append(cell["law"])
    for (what, trace), laws in found.items():
        yield what + (f" ({len(laws)} laws)" if len(laws) > 1 else "")
        yield from (trace.splitlines() if verbose else ())
    if found:
        yield f"{'these are errors' if len(found) > 1 else 'this is an error'} in attnspec; -v shows where"
        yield ""


def traces(failures: Sequence[tuple[Mapping[str, Any], Line]]) -> Iterator[str]:
    """The traces of calls that raised."""
    for witness, cell in failures:
        if witness.get("trace"):
            yield f"-- trace of {cell['subject']}, case {witness['key']}"
            yield witness["trace"]


def verdicts(lines: Sequence[Line], folder: str, width: int = WIDTH) -> Iterator[str]:
    """The last lines: verdicts, counts, what weakens them, and where the rest is."""
    cells = _in_order(lines)
    strict = lines[0].get("fail_on") == "should"
    yield "== SUMMARY ".ljust(width, "=")
    for line in lines:
        if line["kind"] == "subject":
            yield _verdict(line, [c for c in cells if c["subject"] == line["subject"]], strict=strict)
            further = (text for part in ("beside", "reasons", "unmet") for text in line.get(part, ()))
            yield from (f"{'':<15} {text}" for text in (*familiar(line), *further))
    if not cells:
        yield "nothing was tested"
    passing = [c for c in cells if c["verdict"] == "pass" and c["worst"] and c["worst"] <= 1]
    calls = sum(c.get("run", {}).get("calls", 0) for c in cells)
    cases = sum(c.get("run", {}).get("cases", 0) for c in cells)
    seconds = next((line["seconds"] for line in lines if line["kind"] == "end"), None)
    if cells:
        worst = max(passing, key=lambda c: c["worst"], default=None)
        nearest = f", worst passing error {worst['worst']:.2f} x bound ({_address(worst)})" if worst else ""
        yield f"  {cases} cases, {calls} calls" + (f" in {seconds:.1f} s" if seconds is not None else "") + nearest
    if cells and lines[0].get("isolation"):
        yield f"  {lines[0]['isolation']}"
    yield from (f"  {text}" for text in told(lines[:1], cells))
    yield from rests_on(cells)
    yield from weakest(cells, lines[0])
    waived = [c for c in cells if c["verdict"] == "waived"]
    yield from (f"  waived: {c['subject']} {_address(c)} ({c['dtype']}) {c['says']}" for c in waived)
    yield from noted(cells, lines[0])
    lenient = [c for c in cells if c["verdict"] in ("fail", "error") and c["level"] == "should" and not c.get("note")]
    if lenient:
        names = list(dict.fromkeys(f"{c['subject']} {_address(c)}" for c in lenient))
        yield f"  failing `should` laws (~): {_listed(names, 4)}"
    resumed = sum(bool(c.get("resumed")) for c in cells)
    if resumed:
        yield f"  resumed: {resumed} of {len(cells)} cells are from the previous run"
    if lines[0].get("waivers_missing"):
        yield f"  waivers: {lines[0]['waivers_missing']} does not exist, so nothing is waived"
    if altered(lines):
        yield f"  ALTERED: another process wrote to {folder}/{NAME}; the run has written its own results again"
    if not whole(lines):
        yield "  PARTIAL: the run did not finish; the results so far are valid"
    written = [f"{folder}/{name}" for name in ("results.ndjson", "junit.xml") if (Path(folder) / name).is_file()]
    if folder and written:
        yield f"reports  {'  '.join(written)}"
    yield from known(lines, width)


def noted(cells: Sequence[Line], header: Line) -> Iterator[str]:
    """What fails under laws that the pin of a run does not have, and would fail it once the pin is raised."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        if cell.get("note"):
            found.setdefault(cell["note"], {})[f"{cell['subject']} {_address(cell)}"] = None
    if header.get("pin") and not found:
        yield f"  pinned by {header['pin']}; no newer law fails"
    elif found:
        yield f"  fails once the pin is renewed ('attnspec freeze' writes {header.get('pin')}):"
    yield from (f"    {reason}: {_listed([*names], 10)}" for reason, names in found.items())


def familiar(line: Line) -> Iterator[str]:
    """What is known of the violations of a subject, and what is not."""
    found = line.get("known")
    if found is None:
        return
    count = sum(found["cells"].values())
    if count:
        yield f"known: {count} of {count + found['new']}, see {', '.join(found['cells'])}"
    if count and found["new"]:
        yield f"new: {found['new']} of {count + found['new']}"
    yield from (f"fixed: {name} no longer fails" for name in found["mended"])


def known(lines: Sequence[Line], width: int = WIDTH) -> Iterator[str]:
    """What the known findings among the violations are, whom they concern, and whether they are all that there is."""
    found = [line["known"] for line in lines if line["kind"] == "subject" and line.get("known", {}).get("cells")]
    if not found:
        return
    yield ""
    for name in dict.fromkeys(name for one in found for name in one["cells"]):
        finding = named(name)
        if finding is not None:
            yield f"{name}: {finding.heading}"
            yield from textwrap.wrap(
                finding.matters or finding.happens, width, initial_indent="    ", subsequent_indent="    "
            )
    count = sum(sum(one["cells"].values()) for one in found)
    new = sum(line.get("known", {}).get("new", 1) for line in lines if line.get("verdict") == "violated")
    yield "'attnspec explain NAME' describes a finding, and shows how to reproduce it without attnspec."
    if not new:
        every = f"all {count} violations are known findings in released packages"
        yield f"No new failures: {every if count > 1 else 'the violation is a known finding in a released package'}."
        yield "This installation works."


def rests_on(cells: Sequence[Line]) -> Iterator[str]:
    """What the scenarios of a run are known to show."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        if "evidence" in cell.get("run", {}):
            groups.setdefault((cell["subject"], cell["mechanism"]), []).append(cell["run"]["evidence"])
    if not groups:
        return
    scenarios = sum(max(e["scenarios"] for e in found) for found in groups.values())
    claimed = sum(found[0]["mistakes"] - min(e["unclaimed"] for e in found) for found in groups.values())
    shown = claimed - sum(len({name for e in found for name in e["unshown"]}) for found in groups.values())
    yield f"  coverage: {scenarios} scenarios, which detect {shown} of the {claimed} known mistakes within the claims"


def weakest(cells: Sequence[Line], header: Line) -> Iterator[str]:
    """The laws that a run could hardly test, or not at all; and known mistakes that it may not have noticed."""
    laws = [c for c in cells if not c["law"].startswith(("contract.", "convention."))]
    untested: dict[str, dict[str, None]] = {}
    for cell in laws:
        if cell["verdict"] == "not_tested":
            untested.setdefault(cell["says"], {})[_address(cell)] = None
    for reason, names in untested.items():
        yield f"  not tested ({reason}): {_listed([*names], 5)}"
    blind = [c for c in cells if c.get("run", {}).get("evidence", {}).get("unshown")]
    few = [c for c in laws if c["verdict"] == "pass" and 0 < c["cases"] < 3]
    if blind:
        least = max(blind, key=lambda c: len(c["run"]["evidence"]["unshown"]))
        named = _listed(least["run"]["evidence"]["unshown"], SHOWN)
        yield f"  weakest evidence: {least['mechanism']} in {least['dtype']}: no scenario that ran can detect {named}"
        yield f"                    'attnspec audit --for {_again(least, header)}' says why"
    elif few:
        least = min(few, key=lambda c: c["cases"])
        yield f"  weakest evidence: {_address(least)} ({least['cases']} case{'s' * (least['cases'] != 1)})"


def _again(cell: Line, header: Line) -> str:
    """How the subject of a cell is named to a command, as far as it is known."""
    targets = header.get("targets", ())
    if len(targets) != 1:
        return cell["subject"]
    return "".join(
        [targets[0], *(f" --{name} {header[name]}" for name in ("operator", "framework") if header.get(name))]
    )


def _listed(names: Sequence[str], count: int) -> str:
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")


def _counted(cell: Line, *, strict: bool) -> str:
    """Its verdict, but that a law which only should hold counts against nobody who did not ask for it."""
    if cell["verdict"] in ("fail", "error") and cell.get("note"):
        return "note"
    lenient = cell["verdict"] in ("fail", "error") and cell["level"] == "should" and not strict
    return "should" if lenient else cell["verdict"]


def _verdict(line: Line, cells: Sequence[Line], *, strict: bool) -> str:
    counts = Counter(_counted(cell, strict=strict) for cell in cells)
    listed = [f"{counts[v]} {v.replace('_', ' ')}" for v in MARKS if counts.get(v)]
    listed += [f"{counts['should']} fail{'s' * (counts['should'] == 1)} a `should`"] if counts["should"] else []
    listed += [f"{counts['note']} note{'s' * (counts['note'] > 1)}"] if counts["note"] else []
    dtypes = " ".join(dict.fromkeys(c["dtype"] for c in cells))
    count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    subject = line["subject"] + (f" ({dtypes})" if dtypes else "") + (", interpreted" if interpreters(cells) else "")
    return f"{WORDS[line['verdict']]:<15} {subject}   {count}" + (f": {', '.join(listed)}" if listed else "")


def _address(cell: Line) -> str:
    return f"{cell['mechanism']}.{cell['law']}"
