"""The limits of a verdict: refusals, loose claims, unknown parameters.

All of it is read from the lines of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..data.texts import told

Line = Mapping[str, Any]
NAMED = 2
"""Refusals and parameters that are named."""
LONGEST = 100
"""Characters of what a subject said that are repeated."""


def declined(cells: Sequence[Line]) -> Iterator[str]:
    """The mechanisms of which a subject answers a smaller share of the scenarios than they ask, with what it said.

    A further mechanism of an operator that is refused as a whole is not declared, and asks for nothing.
    """
    found: dict[tuple[str, int, int, float, str], list[str]] = {}
    for cell, part in _parts(cells, "coverage"):
        answered, scenarios, share = part["answered"], part["scenarios"], part["share"]
        whole = not answered and cell["mechanism"] != cell["operator"]
        if answered < share * scenarios and not whole:
            found.setdefault((cell["mechanism"], answered, scenarios, share, part["says"]), []).append(cell["dtype"])
    for (mechanism, answered, scenarios, share, says), dtypes in found.items():
        where = f"{answered} of {scenarios} scenarios of {mechanism} ({' '.join(dtypes)})"
        yield f"answers {where}, where {share:.0%} are asked: {_short(says)}"


def beside(cells: Sequence[Line]) -> list[str]:
    """What is to be said beside the verdict on a subject: the lines that follow it."""
    first = "; ".join((*_answers(cells), *_noticed(cells), *_loose(cells), *_customary(cells)))
    rest = (*_wholly(cells), *_by_value(cells), *_untested(cells), *_notes(cells))
    return [*_nothing(cells), *_interpreted(cells), *([first] if first else []), *rest]


def _nothing(cells: Sequence[Line]) -> Iterator[str]:
    """Why nothing was tested, where no law was: what is said of the definition, or else of the most laws."""
    laws = [cell for cell in cells if not cell["law"].startswith(("contract.", "convention."))]
    if not laws or any(cell.get("verdict") not in ("not_declared", "not_tested") for cell in laws):
        return
    whole = [cell for cell in laws if cell["mechanism"] == cell["operator"]] or laws
    first = [cell for cell in whole if cell["law"] == "definition" and cell["says"]]
    says = Counter(cell["says"] for cell in first or whole if cell["says"])
    if says:
        yield f"nothing was tested: {_short(max(says, key=lambda text: says[text]))}"


def share(cells: Sequence[Line]) -> float:
    """The smallest share of the scenarios of a mechanism that is answered."""
    parts = [
        part for cell, part in _parts(cells, "coverage") if part["answered"] or cell["mechanism"] == cell["operator"]
    ]
    return min((part["answered"] / part["scenarios"] for part in parts if part["scenarios"]), default=1.0)


def interpreters(cells: Sequence[Line]) -> list[str]:
    """What ran the kernels of a device on the CPU; nothing where no cell says so."""
    return list(dict.fromkeys(by for _, by in _parts(cells, "interpreted")))


def _interpreted(cells: Sequence[Line]) -> list[str]:
    """That no device was seen, and what was not seen with it."""
    by = " and ".join(map(_short, interpreters(cells)))
    return [f"interpreted by {by}: neither a compiler nor a device was tested"] if by else []


def _notes(cells: Sequence[Line]) -> list[str]:
    """What first calls have found."""
    return list(dict.fromkeys(note for cell in cells for note in cell.get("run", {}).get("notes", ())))


def _answers(cells: Sequence[Line]) -> Iterator[str]:
    """How many scenarios are answered, where some are refused."""
    fewest = _fewest(cells)
    answered, scenarios = (sum(part[name] for part in fewest.values()) for name in ("answered", "scenarios"))
    if answered < scenarios:
        yield f"where it answers: {answered} of {scenarios} scenarios"


def _noticed(cells: Sequence[Line]) -> Iterator[str]:
    """How many of the known mistakes could be noticed, of those mechanisms of which something is refused."""
    refused = {name for name, part in _fewest(cells).items() if part["answered"] < part["scenarios"]}
    evidence: dict[str, list[Line]] = {}
    for cell, part in _parts(cells, "evidence"):
        if cell["mechanism"] in refused:
            evidence.setdefault(cell["mechanism"], []).append(part)
    claimed = sum(max(part["mistakes"] - part["unclaimed"] for part in parts) for parts in evidence.values())
    unshown = sum(len({name for part in parts for name in part["unshown"]}) for parts in evidence.values())
    if unshown:
        yield f"{claimed - unshown} of {claimed} mistakes could be noticed"


def _fewest(cells: Sequence[Line]) -> dict[str, Line]:
    """What was answered of each mechanism, in the dtype in which that was least."""
    found: dict[str, Line] = {}
    for cell, part in _parts(cells, "coverage"):
        known = found.get(cell["mechanism"])
        if part["scenarios"] and (known is None or _ratio(part) < _ratio(known)):
            found[cell["mechanism"]] = part
    return found


def _ratio(part: Line) -> float:
    return part["answered"] / part["scenarios"]


def _loose(cells: Sequence[Line]) -> Iterator[str]:
    """The claims about precision that allow more rounding than what is claimed by saying nothing."""
    claims = {cell["dtype"]: grade for cell, grade in _parts(cells, "claimed")}
    single = len({cell["dtype"] for cell in cells}) == 1
    for grade in dict.fromkeys(claims.values()):
        dtypes = [dtype for dtype, own in claims.items() if own == grade]
        yield f"precision as {grade}" if single else f"precision as {grade} in {' and '.join(dtypes)}"


def _customary(cells: Sequence[Line]) -> Iterator[str]:
    """Where rounding is looser than what is claimed by saying nothing, as is usual on the device."""
    usual = [c for c in cells if c["law"] == "contract.precision" and c["verdict"] == "fail" and c["level"] == "should"]
    for says in dict.fromkeys(f"{cell['dtype']} {cell['says'].partition(',')[0]}" for cell in usual):
        yield f"{says}, as is usual on {usual[0]['device']}: if intended, declare the grade"


def _wholly(cells: Sequence[Line]) -> Iterator[str]:
    """The further mechanisms that are refused as a whole."""
    for name, part in _fewest(cells).items():
        if not part["answered"]:
            yield f"refuses all of {name}: {_short(part['says'])}"


def _by_value(cells: Sequence[Line]) -> Iterator[str]:
    """What is refused for its entries alone."""
    said = dict.fromkeys(says for _, part in _parts(cells, "coverage") for says in part["by_value"])
    yield from (f"refuses by value: {_short(says)}" for says in [*said][:NAMED])
    if len(said) > NAMED:
        yield f"refuses by value for {len(said) - NAMED} more reasons"


def _untested(cells: Sequence[Line]) -> Iterator[str]:
    """The parameters that no input or option is."""
    yield from dict.fromkeys(_short(says) for _, part in _parts(cells, "untested") for says in part)


def _parts(cells: Iterable[Line], name: str) -> Iterator[tuple[Line, Any]]:
    """What runs have under a name, with the cell that has it."""
    for cell in cells:
        part = cell.get("run", {}).get(name)
        if part:
            yield cell, part


def _short(text: str) -> str:
    return told(text, LONGEST)
