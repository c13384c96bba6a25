"""The differences between the runs of two subjects, kind by kind, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..cases.samples import Sample
from ..data.texts import safe
from ..diagnosis.stored import plain_value
from ..diagnosis.witness import describe, finite_or_none, shown, sizes_of_case
from ..judging.cells import Cell, Result, sentence_of
from ..judging.comparison import Both, Compared, entry, on_a_scenario, smallest
from ..judging.ranges import Range, range_of
from ..judging.shrinking import made_small
from ..mechanisms.mechanism import Mechanism
from ..numerics.grades import LADDER
from ..reporting import difference as told
from ..reporting.difference import Pair, Which
from ..reporting.side_by_side import answer, less_precise, other_layouts
from ..subjects.claims import Claims
from ..subjects.shared import lacking
from .explaining import headline
from .options import Options
from .pairs import Two

SIDES: tuple[Which, Which] = ("a", "b")
EXPLAINED = 3
"""Laws of one side that are explained with a witness."""
OWN = ("contract.parameters", "contract.precision", "contract.independence")
"""Contracts that are told elsewhere, or depend on who is asked."""


@dataclass(frozen=True, slots=True)
class Part:
    """Two subjects on one mechanism and dtype: their runs, and every case that both have met."""

    both: Both
    results: tuple[Result, Result]
    cases: Sequence[Compared]

    @property
    def dtype(self) -> str:
        return self.both.benches[0].dtype

    @property
    def mechanism(self) -> Mechanism:
        return self.both.mechanism


def told_of(two: Two, sides: tuple[told.Side, told.Side], parts: Sequence[Part], options: Options) -> Pair:
    """What the runs of two subjects have shown, as plain data; `sides` are who they are, with the layouts they read."""
    wrong = list(_wrong(two, parts))
    broken = [{_address(c) for p in parts for c in p.results[i].cells if _breaks(c, p.results[i])} for i in (0, 1)]
    cases = [case for part in parts for case in part.cases]
    data: Pair = {
        "operator": two.operator,
        "a": sides[0],
        "b": sides[1],
        "verdict": "same",
        "sentence": "",
        "cases": len(cases),
        "both_wrong": sum(case.how == "wrong" and not any(a.right for a in case.answers) for case in cases),
        "broken": sorted(broken[0] & broken[1]),
        "ended": next((result.ended for part in parts for result in part.results if result.ended), ""),
        "conventions": list(_conventions(parts)),
        "lacks": list(_lacks(two, cases, options)),
        "refusals": list(_refusals(parts)),
        "open": list(_open(parts)),
        "wrong": wrong,
        "precision": list(_precision(parts)),
        "bits": _bits(parts),
        "contracts": list(_contracts(parts)),
    }
    data["verdict"] = _verdict(data)
    data["sentence"] = safe(answer(data), 2000)
    return data


def _verdict(pair: Pair) -> Any:
    kinds = pair["conventions"], pair["lacks"], pair["refusals"], pair["open"], pair["wrong"], pair["contracts"]
    if any(kinds) or other_layouts(pair) or pair["both_wrong"] or any(map(less_precise, pair["precision"])):
        return "differ"
    if not pair["cases"]:
        return "nothing"
    return "partial" if pair["ended"] else "same"


def _range(found: Range) -> told.Range:
    return {"conditions": list(found.conditions), "cases": found.cases, "such": found.such}


def _witness(found: Compared) -> told.Witness:
    """The smallest case on which answers differ, with what each of them is."""
    at = entry(found)
    if at is None:
        values = [a.reply.fault.says if a.reply.fault else "answers" for a in found.answers]
        at = ("", *values)
    values, m = found.sample.values, found.sample.mechanism
    sizes = {
        **sizes_of_case(found.sample),
        **{n: shown(x) for n in m.optional if isinstance(x := values[n], np.ndarray)},
    }
    return {"sizes": sizes, "place": at[0], "a": plain_value(at[1]), "b": plain_value(at[2])}


def _dtypes(parts: Sequence[Part]) -> list[str]:
    return list(dict.fromkeys(part.dtype for part in parts))


def _where(part: Part, happens: Sequence[Compared], small: Sample | None = None) -> Range:
    own = {id(case) for case in happens}
    others = [case.sample for case in part.cases if id(case) not in own]
    return range_of([case.sample for case in happens], others, small)


def _shown(part: Part, happens: Sequence[Compared]) -> tuple[Range, Compared]:
    """Where something happens, and the smallest case found on which it does."""
    least = min(happens, key=lambda case: case.sample.entries)
    small, _ = smallest(part.both, least)
    return _where(part, happens, small.sample), small


def _conventions(parts: Sequence[Part]) -> Iterator[told.Convention]:
    for name in dict.fromkeys(name for part in parts for name in _words(part)):
        own = [part for part in parts if name in _words(part)]
        first = own[0]
        shows = [(p, found) for p in own if (found := [c for c in p.cases if c.conventions[:1] == (name,)])]
        shows = shows or [(p, found) for p in own if (found := [c for c in p.cases if name in c.conventions])]
        where = witness = None
        if not shows and (example := on_a_scenario(first.both, name)) is not None:
            witness = _witness(smallest(*example)[0])
        if shows:
            part, happens = max(
                shows, key=lambda pair: (pair[0].mechanism.name == first.mechanism.operator, len(pair[1]))
            )
            happens = [case for case in part.cases if name in case.conventions]
            found, small = _shown(part, happens)
            where, witness = _range(found), _witness(small)
        words = [first.both.benches[i].words[name] for i in (0, 1)]
        yield {
            "convention": name,
            "a": words[0],
            "b": words[1],
            "dtypes": _dtypes(own),
            "where": where,
            "witness": witness,
        }


def _words(part: Part) -> list[str]:
    """The conventions in which both are known to follow another word."""
    known = [result.conventions for result in part.results]
    return [
        n for n in part.both.words if all(f.get(n) is not None and f[n].how in ("declared", "observed") for f in known)
    ]


def _lacks(two: Two, cases: Sequence[Compared], options: Options) -> Iterator[told.Lack]:
    operator = two.subjects[0].mechanism.stating
    claims = two.subjects[0].claims, two.subjects[1].claims
    turns: tuple[tuple[Which, Claims, Claims], ...] = (("b", *claims), ("a", claims[1], claims[0]))
    for side, own, other in turns:
        for what in lacking(own, other, operator):
            if not (options.dtypes and what in own.dtypes):
                yield {"lacks": side, "what": what}
    answered = [case for case in cases if case.answered]
    returned = [{name for case in answered for name in case.answers[i].reply.outputs} for i in (0, 1)]
    for side, i in zip(SIDES, (0, 1), strict=True):
        for name in sorted(returned[1 - i] - returned[i]):
            yield {"lacks": side, "what": f"the output {name}"}


def _refusals(parts: Sequence[Part]) -> Iterator[told.Refusal]:
    for i, side in enumerate(SIDES):
        found: dict[str, list[tuple[Part, list[Compared]]]] = {}
        for part in parts:
            said: dict[str, list[Compared]] = {}
            for case in part.cases:
                if case.answers[i].refused and not case.answers[1 - i].refused:
                    said.setdefault(case.answers[i].refused, []).append(case)
            for says, cases in said.items():
                found.setdefault(says, []).append((part, cases))
        for says, shows in found.items():
            part, cases = max(shows, key=lambda pair: len(pair[1]))
            where = _range(_where(part, cases))
            yield {"refuses": side, "says": says, "dtypes": _dtypes([p for p, _ in shows]), "where": where}


def _open(parts: Sequence[Part]) -> Iterator[told.Open]:
    found: dict[str, list[tuple[Part, list[Compared]]]] = {}
    for part in parts:
        for output in part.mechanism.outputs:
            own = [case for case in part.cases if case.how == "open" and case.output == output]
            if own:
                found.setdefault(output, []).append((part, own))
    for output, shows in found.items():
        part, cases = max(shows, key=lambda pair: len(pair[1]))
        where, small = _shown(part, cases)
        yield {
            "output": output,
            "mechanism": part.mechanism.name,
            "dtypes": _dtypes([p for p, _ in shows]),
            "where": _range(where),
            "witness": _witness(small),
        }


def _address(cell: Cell) -> str:
    return f"{cell.mechanism}.{cell.law}"


def _breaks(cell: Cell, result: Result) -> bool:
    """Whether a cell says that its subject is wrong."""
    if not cell.bad or cell.level != "must" or cell.law.startswith("contract."):
        return False
    convention = cell.law.removeprefix("convention.")
    return convention == cell.law or result.conventions[convention].how == "unexplained"


def _wrong(two: Two, parts: Sequence[Part]) -> Iterator[told.Wrong]:
    """The laws that one breaks and the other keeps; those of a mechanism stand together."""
    for i, side in enumerate(SIDES):
        found: dict[str, list[tuple[Part, list[Cell]]]] = {}
        for part in parts:
            kept = {cell.law for cell in part.results[1 - i].cells if not _breaks(cell, part.results[1 - i])}
            failed = [cell for cell in part.results[i].cells if _breaks(cell, part.results[i]) and cell.law in kept]
            if failed:
                found.setdefault(part.mechanism.name, []).append((part, failed))
        for number, shows in enumerate(found.values()):
            yield _explained(two, i, side, shows, full=number < EXPLAINED)


def _explained(two: Two, i: int, side: Which, shows: Sequence[tuple[Part, list[Cell]]], *, full: bool) -> told.Wrong:
    part, failed = shows[0]
    head, bench = headline(failed, part.mechanism), part.both.benches[i]
    data: dict[str, Any] = {"sizes": {}, "outcome": None, "units": finite_or_none(head.worst), "reason": head.says}
    if full and head.failure is not None:
        failure = made_small(head.failure, part.results[i])
        with bench.subject.session():
            data = describe(failure, bench, two.targets[i], None, [])
    wrong = [c for c in part.cases if not c.answers[i].right and c.answers[1 - i].right]
    outcome = data["outcome"] or {"found": None, "expected": None, "units": data["units"]}
    also = [_address(cell) for _, cells in shows for cell in cells if cell.law != head.law]
    return {
        "wrong": side,
        "law": _address(head),
        "sentence": sentence_of(part.mechanism, head.law),
        "says": data["reason"],
        "also": list(dict.fromkeys(also)),
        "dtypes": _dtypes([p for p, _ in shows]),
        "where": _range(_where(part, wrong)) if wrong else None,
        "sizes": data["sizes"],
        "found": outcome["found"],
        "expected": outcome["expected"],
        "units": outcome["units"],
    }


def _precision(parts: Sequence[Part]) -> Iterator[told.Precision]:
    for dtype in _dtypes(parts):
        own = [part for part in parts if part.dtype == dtype]
        ladder = [grade.name for grade in LADDER[dtype]]
        loosest, claimed = [], []
        for i in (0, 1):
            right = not any(_breaks(cell, p.results[i]) for p in own for cell in p.results[i].cells)
            names = [p.results[i].grade.name for p in own if p.results[i].grade is not None]  # type: ignore[union-attr]
            known = [name for name in names if name in ladder] or names
            loosest.append(max(known, key=lambda n: ladder.index(n) if n in ladder else 0) if right and known else "")
            claimed.append(own[0].both.benches[i].subject.claims.grade(dtype).name)
        laws: dict[str, list[float | None]] = {}
        for part in own:
            cells = [{cell.law: cell for cell in result.cells} for result in part.results]
            for law, cell in cells[0].items():
                pair = [side.get(law) for side in cells]
                if all(each is not None and each.verdict == "pass" and each.cases for each in pair):
                    units = [None if each.claimed is None else finite_or_none(each.claimed) for each in pair if each]
                    if not law.startswith(("contract.", "convention.")) and cell.cases:
                        laws[_address(cell)] = units
        yield {"dtype": dtype, "a": loosest[0], "b": loosest[1], "claimed": claimed, "laws": laws}


def _bits(parts: Sequence[Part]) -> told.Bits:
    answered = [(part, case) for part in parts for case in part.cases if case.answered]
    rounding = [(part, case) for part, case in answered if case.how == "rounding"]
    witness = None
    if rounding:
        part, case = min(rounding, key=lambda pair: pair[1].sample.entries)
        witness = _witness(smallest(part.both, case)[0])
    return {
        "same": sum(case.same_bits for _, case in answered),
        "cases": len(answered),
        "apart": max((case.apart for _, case in rounding), default=0.0),
        "witness": witness,
    }


def _contracts(parts: Sequence[Part]) -> Iterator[told.Contract]:
    found: dict[tuple[str, Which], tuple[str, list[Part]]] = {}
    for part in parts:
        cells = [
            {c.law: c for c in r.cells if c.law.startswith("contract.") and c.law not in OWN} for r in part.results
        ]
        for law, first in cells[0].items():
            second = cells[1].get(law)
            if second is None or {first.verdict, second.verdict} != {"pass", "fail"}:
                continue
            keeps, broken = ("a", second) if first.verdict == "pass" else ("b", first)
            key = law.removeprefix("contract."), cast(Which, keeps)
            found.setdefault(key, (broken.says, []))[1].append(part)
    for (name, keeps), (says, own) in found.items():
        yield {"contract": name, "keeps": keeps, "says": says, "dtypes": _dtypes(own)}
