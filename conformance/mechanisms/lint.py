"""The faults of a specification: errors, and poor prose.

Loading finds what cannot be understood (schema, names, expressions, circles).
The linter adds what the house asks of prose: indicative sentences, conventions and scenarios that are told apart, and
sources that name something.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import Error, Place, SpecError, SpecErrors, UsageError, first_of
from ..numerics.budget import COUNTED, FAULTS
from .evidence import evidence_of, path_of
from .loader import NONE, Specs, library, load
from .mechanism import Mechanism
from .parameters import faults as parameter_faults
from .schema import place_of, spec_folder
from .serving import faults as serving_faults
from .signature_faults import faults as signature_faults

NOT_INDICATIVE = re.compile(r"\b(should|shall|must|ought|may not|needs? to|has to|have to)\b", re.IGNORECASE)
LONGEST_SENTENCE = 160
PLAINER = {
    r"whole numbers?": "integer",
    r"truths?": "boolean",
    r"(is|are) immaterial": "does not matter",
    r"(has|have) no say": "does not matter",
    r"in vain": "without effect",
    r"looks? out": "is careful",
    r"so-manieth": "n-th",
    r"reckon(s|ed|ing)?": "compute",
    r"stands?": "is, occurs or represents",
    r"but for": "except for",
    r"one behind the other": "one after the other",
    r"taken for": "treated as",
    r"once more": "again",
    r"anew": "again",
    r"in place of": "instead of",
    r"besides": "also",
    r"every so many": "every n-th",
    r"(is|are) told": "is reported or recognised",
    r"told apart": "distinguished",
    r"speaks? of": "refers to",
    r"comes? along": "is included",
    r"merely": "only",
    r"whence": "from which",
}
"""What the prose of a specification says in plainer words."""
_PLAINER = re.compile("|".join(rf"\b({word})\b" for word in PLAINER), re.IGNORECASE)


def lint_files(paths: Sequence[Path], specs: Specs = NONE) -> tuple[list[Error], int]:
    """The faults of files, or of all that are shipped, and how many files were read.

    A folder stands for its files; one without any is a `UsageError`.
    A file is read beside the shipped ones, so that a new mechanism may build on an operator of theirs.
    Further folders of specifications are linted with the evidence beside them.
    """
    if specs.folders:
        known = specs.library()
        further = [*known.files]
        found = _linted([known.files[name].path for name in further], library(), known.references)
        found = found or [stale(known[name], specs) for name in further if evidence_of(known[name]) is None]
        others, count = lint_files(paths) if paths else ([], 0)
        return [*found, *others], len(further) + count
    if not paths:
        shipped = sorted(spec_folder().glob("*.yaml"))
        found = _linted(shipped, {})
        beside = (signature_faults, parameter_faults, serving_faults)
        found = found or [fault for faults in beside for fault in faults(library())]
        return found or [stale(m) for m in library().values() if evidence_of(m) is None], len(shipped)
    files = [file for path in paths for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]
    if not files:
        raise UsageError(f"there is no .yaml file in {', '.join(map(str, paths))}")
    return _linted(files, library()), len(files)


def _linted(
    files: Sequence[Path], beside: Mapping[str, Mechanism], references: Mapping[str, Callable[..., Any]] | None = None
) -> list[Error]:
    try:
        loaded = load(files, beside, references)
    except SpecErrors as several:
        return list(several.errors)
    return [fault for name in loaded.files for fault in first_of(faults(loaded[name]), FAULTS, COUNTED)]


def stale(mechanism: Mechanism, specs: Specs = NONE) -> SpecError:
    """What is said where draws, definition or mistakes have changed since the evidence on them was derived."""
    asked = f"'attnspec audit --derive --mechanism {mechanism.name}{specs.arguments}'"
    return SpecError(
        f"{path_of(mechanism).name}: not of this text, or missing; {asked} derives it", Place(mechanism.path, 1, 1)
    )


def faults(mechanism: Mechanism) -> Iterator[SpecError]:
    """What a loaded mechanism gets wrong in style."""
    for kind, items in (("laws", mechanism.laws), ("mistakes", mechanism.mistakes), ("rejects", mechanism.rejects)):
        for name, item in items.items():
            yield from _sentence(f"{kind}.{name}.says", item.says)
    prose = {f"laws.{name}.contract": law.contract for name, law in mechanism.laws.items()}
    words = mechanism.conventions.items() if mechanism.name == mechanism.operator else ()
    prose |= {f"conventions.{name}.{word}": says for name, own in words for word, says in own.items()}
    for label, text in {"title": mechanism.title, "summary": mechanism.summary, **prose}.items():
        yield from _plain(label, text, place_of(text) or Place(mechanism.path, 1, 1))
    for name in sorted({*mechanism.laws, *mechanism.rejects} & set(mechanism.mistakes)):
        yield SpecError(f"mistakes.{name}: a law has the same name", mechanism.mistakes[name].place)
    for law in mechanism.laws.values():
        unused = set(law.given) - law.when.uses - law.holds.uses - {n for g in law.given.values() for n in g.uses}
        for name in sorted(unused):
            yield SpecError(f"laws.{law.name}.given: {name!r} is used nowhere", law.given[name].place)
        if not law.holds.asks and not any(g.asks for g in law.given.values()):
            yield SpecError(f"laws.{law.name}: the claim does not ask what the subject returns", law.place)
    for source in mechanism.sources:
        if not re.search(r"\d{4}|http|arXiv", source):
            yield SpecError(f"sources: {source[:40]!r} names no year, number or address", place_of(source))
    lines = {name for line in mechanism.definition.values() for name in line.uses}
    mentioned = lines | {
        n for law in mechanism.laws.values() for e in (law.when, law.holds, *law.given.values()) for n in e.uses
    }
    mentioned |= {name for layout in mechanism.layouts.values() for name in layout}  # what a backward pass is handed
    for name, line in mechanism.definition.items():
        if name not in mentioned and name not in mechanism.outputs and line.place and line.place.file == mechanism.path:
            yield SpecError(f"definition.{name}: no line and no law uses it", line.place)


def _sentence(label: str, text: str) -> Iterator[SpecError]:
    place = place_of(text)
    found = NOT_INDICATIVE.search(text)
    if found and not label.startswith("mistakes"):
        yield SpecError(f"{label}: say what is, not what {found.group(0)!r} be", place)
    if not text[:1].isupper() and not text[:1].isdigit():
        yield SpecError(f"{label}: a sentence starts with a capital letter", place)
    yield from _plain(label, text, place)
    if len(text) > LONGEST_SENTENCE:
        yield SpecError(f"{label}: {len(text)} characters are more than one sentence ({LONGEST_SENTENCE})", place)


def _plain(label: str, text: str, place: Place | None) -> Iterator[SpecError]:
    """Words of a text for which there is a plainer one."""
    for found in _PLAINER.finditer(text):
        instead = next(plain for word, plain in PLAINER.items() if re.fullmatch(word, found[0], re.IGNORECASE))
        yield SpecError(f"{label}: for {found[0]!r} there is a plainer word: {instead}", place)
