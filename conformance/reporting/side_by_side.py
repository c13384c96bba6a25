"""The differences of two implementations: the answer in a sentence, then each kind of difference."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..data.texts import safe_data
from ..numerics.grades import LADDER
from .difference import Difference, Pair, Precision, Range, Witness
from .typesetting import aligned

WIDTH = 80
"""Columns of the page."""
LAWS = 8
"""Laws of a dtype whose errors are shown."""
FEW = 3
"""Names that a sentence lists."""
COLUMN = 22
"""Characters of a name up to which it heads a column."""
SMALL = 0.1
"""Errors of laws below this are not told from one another."""
SAME = 1.1
"""How many times as large an error has to be as another one to be told from it."""


@dataclass(frozen=True, slots=True)
class Item:
    """One difference: what it is, and what there is to say of it."""

    head: str
    more: Sequence[str] = ()


# The answer


def answer(pair: Pair) -> str:
    """What two implementations differ in, in a sentence."""
    first, second = pair["a"]["name"], pair["b"]["name"]
    if not pair["cases"]:
        return f"{second} and {first} were not compared: no case was answered by both."
    bits = _bits(pair)
    within, clauses = list(_within(pair)), list(_clauses(pair))
    if not within and not clauses:
        both = "both break the same laws" if pair["broken"] else "both are right"
        return f"{second} does what {first} does: {both}, and bits are {bits}."
    clauses = [f"{second} differs from {first} in {_joined(within)}", *clauses] if within else clauses
    rest = "both are wrong in other laws" if pair["broken"] or pair["both_wrong"] else "elsewhere both are right"
    return f"{'; '.join(clauses)}; {rest}, and bits are {bits}."


def _within(pair: Pair) -> Iterator[str]:
    """In what both are right, or both are wrong, and differ."""
    if other_layouts(pair):
        yield f"layout ({pair['a']['layout']} and {pair['b']['layout']})"
    conventions = [c["convention"] for c in pair["conventions"]]
    if conventions:
        yield f"{_counted(len(conventions), 'convention')} ({_few(conventions)})"
    if pair["open"]:
        outputs = list(dict.fromkeys(o["output"] for o in pair["open"]))
        yield f"entries of {_few(outputs)} that the definition leaves open"
    for precision in pair["precision"]:
        if less_precise(precision):
            yield f"precision ({precision['a']} and {precision['b']} in {precision['dtype']})"
    if pair["both_wrong"]:
        yield f"{_counted(pair['both_wrong'], 'case')} that both get wrong"


def other_layouts(pair: Pair) -> bool:
    """Whether the arrays of both have another order of axes."""
    layouts = pair["a"]["layout"], pair["b"]["layout"]
    return all(layouts) and layouts[0] != layouts[1]


def _clauses(pair: Pair) -> Iterator[str]:
    """What is to be said of one of them."""
    for side, name in _names(pair).items():
        what = [lack["what"] for lack in pair["lacks"] if lack["lacks"] == side]
        if what:
            yield f"{name} lacks {_few(what)}"
        wrong = [w for w in pair["wrong"] if w["wrong"] == side]
        if wrong:
            laws = sum(1 + len(w["also"]) for w in wrong)
            places = list(dict.fromkeys(_where(w["where"]) for w in wrong if _where(w["where"])))
            cases = sum(w["where"]["cases"] for w in wrong if w["where"] is not None)
            place = _few(places, 1) if places else f"on {_counted(cases, 'case')}" if cases else ""
            yield f"{name} is wrong {place} ({_counted(laws, 'law')})".replace("  ", " ")
        refused = [r for r in pair["refusals"] if r["refuses"] == side]
        if refused:
            yield f"{name} refuses {_counted(sum(r['where']['cases'] for r in refused), 'case')}"
        broken = [c["contract"] for c in pair["contracts"] if c["keeps"] != side]
        if broken:
            yield f"{name} breaks {_counted(len(broken), 'contract')} ({_few(broken)})"


def less_precise(precision: Precision) -> bool:
    """Whether exactly one of them is less precise than it claims."""
    ladder = [grade.name for grade in LADDER[precision["dtype"]]]
    beyond = [
        claimed in ladder and found in ladder and ladder.index(found) > ladder.index(claimed)
        for found, claimed in zip((precision["a"], precision["b"]), precision["claimed"], strict=True)
    ]
    return beyond[0] != beyond[1]


def _bits(pair: Pair) -> str:
    bits = pair["bits"]
    if bits["same"] == bits["cases"]:
        return f"the same in all {bits['cases']} cases"
    return f"the same in {bits['same']} of {bits['cases']} cases"


# The page


def page(found: Difference, width: int = WIDTH) -> Iterator[str]:
    """The lines of a page that is no wider than that."""
    found = safe_data(found)
    for pair in found["pairs"]:
        yield from textwrap.wrap(pair["sentence"], width, break_on_hyphens=False)
        yield ""
        yield from textwrap.wrap(_scope(found, pair), width)
        for side, text in _sides(pair).items():
            yield from _hung(f"{side}  ", text, width)
        for title, items in sections(pair):
            yield ""
            yield title
            for item in items:
                yield from _hung("  ", item.head, width)
                for text in item.more:
                    yield from _hung("      ", text, width)
        for precision in pair["precision"]:
            yield ""
            yield from _table(pair, precision, width)
        yield ""
        yield from _further(pair)


def _hung(indent: str, text: str, width: int) -> list[str]:
    """A paragraph whose further lines stand under its first one."""
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=" " * (len(indent) + 2), break_on_hyphens=False
    )


def _scope(found: Difference, pair: Pair) -> str:
    ended = f"   cut short: {pair['ended']}" if pair["ended"] else ""
    return (
        f"{pair['operator']}   profile {found['profile']}   seed {found['seed']}   {found['device']}   "
        f"{pair['cases']} cases{ended}"
    )


def _sides(pair: Pair) -> dict[str, str]:
    """Who they are, and with what they are called; what both have in common is left to the first."""
    found = {}
    for side in ("a", "b"):
        own: Any = pair[side]
        packages = " ".join(f"{name} {number}" for name, number in own["packages"].items())
        python = f"Python {own['python']}" if own["python"] else "computed by attnspec"
        layout = own["layout"] if other_layouts(pair) else ""
        found[side] = "   ".join(filter(None, [own["name"], layout, python, packages]))
    return found


def sections(pair: Pair) -> Iterator[tuple[str, list[Item]]]:
    """Each kind of difference that there is, with its items."""
    names = _names(pair)
    kinds = {
        "Conventions": [_convention(pair, c) for c in pair["conventions"]],
        "Not taken": [
            Item(f"{name} lacks {', '.join(what)}")
            for side, name in names.items()
            if (what := [lack["what"] for lack in pair["lacks"] if lack["lacks"] == side])
        ],
        "Refused": [
            Item(
                f"{names[r['refuses']]} refuses, in {_dtypes(r['dtypes'])}: {r['says']}",
                [f"{_happens(r['where'])}; {names[_other(r['refuses'])]} answers"],
            )
            for r in pair["refusals"]
        ],
        "Wrong": [_wrong(pair, w) for w in pair["wrong"]],
        "Both right, and left open": [
            Item(
                f"{o['output']} of {o['mechanism']}, in {_dtypes(o['dtypes'])}",
                [_happens(o["where"]), _smallest(pair, o["witness"])],
            )
            for o in pair["open"]
        ],
        "Contracts": [
            Item(
                f"{c['contract']} is kept by {names[c['keeps']]}, in {_dtypes(c['dtypes'])}",
                [f"{names[_other(c['keeps'])]}: {c['says']}"],
            )
            for c in pair["contracts"]
        ],
        "Broken by both": [Item(", ".join(pair["broken"]))] if pair["broken"] else [],
        "Bits": [_bits_item(pair)] if pair["bits"]["cases"] else [],
    }
    yield from ((title, items) for title, items in kinds.items() if items)


def _convention(pair: Pair, found: Any) -> Item:
    names = _names(pair)
    head = f"{found['convention']}: {found['a']} in {names['a']}, {found['b']} in {names['b']}"
    where = _happens(found["where"]) if found["where"] is not None else "none of the cases that were tried shows it"
    return Item(head, [where, *filter(None, [_smallest(pair, found["witness"])])])


def _wrong(pair: Pair, found: Any) -> Item:
    names = _names(pair)
    head = f"{names[found['wrong']]} breaks {found['law']}, and {names[_other(found['wrong'])]} keeps it"
    more = [f"{found['sentence']} ({_dtypes(found['dtypes'])})"]
    if found["where"] is not None:
        more.append(_happens(found["where"]))
    if found["expected"] is not None:
        units = f": {found['units']:.3g} x its bound" if found["units"] is not None else ""
        more.append(
            f"smallest: {_values(found['sizes'])}; got {_value(found['found'])}, expected "
            f"{_value(found['expected'])}{units}"
        )
    elif found["says"]:
        more.append(f"smallest: {_values(found['sizes'])}; {found['says']}" if found["sizes"] else found["says"])
    if found["also"]:
        more.append(f"and {_few(found['also'], 4)}")
    return Item(head, more)


def _bits_item(pair: Pair) -> Item:
    bits = pair["bits"]
    more = [_smallest(pair, bits["witness"])] if bits["witness"] else []
    apart = f"; by rounding, they are apart by at most {bits['apart']:.2g} of both bounds" if bits["witness"] else ""
    return Item(_bits(pair) + apart, more)


def _smallest(pair: Pair, witness: Witness | None) -> str:
    if witness is None:
        return ""
    names = _names(pair)
    at = f"{witness['place']} is " if witness["place"] else ""
    return (
        f"smallest: {_values(witness['sizes'])}; {at}{_value(witness['a'])} in {names['a']}, "
        f"{_value(witness['b'])} in {names['b']}"
    )


def _happens(where: Range) -> str:
    count = f"{where['cases']} of {where['such']}"
    if not where["conditions"]:
        return f"on {count} cases; no option or size tells them from the others"
    return f"{_where(where)}, on {count} such cases"


def _where(where: Range | None) -> str:
    return f"where {' and '.join(where['conditions'])}" if where is not None and where["conditions"] else ""


def _values(values: Mapping[str, Any]) -> str:
    telling = {name: x for name, x in values.items() if x is not None and x is not False}
    return " ".join(f"{name}={_value(x)}" for name, x in telling.items()) or "any size"


def _value(x: Any) -> str:
    return f"{x:.9g}" if isinstance(x, float) else str(x)


def _other(side: str) -> str:
    return "b" if side == "a" else "a"


def _names(pair: Pair) -> dict[str, str]:
    return {"a": pair["a"]["name"], "b": pair["b"]["name"]}


def _dtypes(dtypes: Sequence[str]) -> str:
    return ", ".join(dtypes)


# Precision


def _table(pair: Pair, precision: Precision, width: int) -> Iterator[str]:
    names = _names(pair)
    yield f"Precision in {precision['dtype']}"
    rows = list(rows_of(pair, precision))
    heads = list(names.values()) if all(len(name) <= COLUMN for name in names.values()) else list(names)
    yield from (
        "  " + line
        for line in aligned([("", *heads), *((_cut(row[0], width - 2 * COLUMN - 8), *row[1:]) for row in rows)], 1)
    )
    if rows[1:]:
        yield from _hung(
            "  ", "errors in units of the bound that is claimed; - is no more than rounding the result", width
        )


def rows_of(pair: Pair, precision: Precision) -> Iterator[tuple[str, str, str]]:
    """The grades, and the errors of the definition and of the laws in which they differ most."""
    yield "grade", precision["a"] or "none fits", precision["b"] or "none fits"
    laws = precision["laws"]
    first = f"{pair['operator']}.definition"
    order = sorted((name for name in laws if name != first), key=lambda name: -_ratio(laws[name]))
    telling = [n for n in order if _ratio(laws[n]) > SAME and max(x or 0.0 for x in laws[n]) >= SMALL]
    shown = telling[: LAWS - 1]
    for name in [first] * (first in laws) + shown:
        yield name, *(_error(x) for x in laws[name])  # type: ignore[misc] - there are two


def _ratio(errors: Sequence[float | None]) -> float:
    """How many times as large one error is as the other; of rounding the result alone, a hundredth is assumed."""
    low, high = sorted(max(x or 0.0, 0.01) for x in errors)
    return high / low


def _error(x: float | None) -> str:
    return "-" if x is None else f"{x:.2f}" if x < 100 else f"{x:.2g}"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 3] + "..."


def _further(pair: Pair) -> Iterator[str]:
    """What shows more of it."""
    wrong = {w["wrong"] for w in pair["wrong"]}
    for side in ("a", "b"):
        if side in wrong:
            own: Any = pair[side]
            yield f"attnspec check {own['target']}   has the failures in full"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _few(names: Sequence[str], most: int = FEW) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, and {parts[-1]}"


# Markdown


def markdown(found: Difference) -> Iterator[str]:
    """The same as Markdown."""
    found = safe_data(found)
    for pair in found["pairs"]:
        yield from (f"**{pair['sentence']}**", "", f"`{found['command']}`", "", _scope(found, pair), "")
        yield from (f"- {side}: {text}" for side, text in _sides(pair).items())
        for title, items in sections(pair):
            yield from ("", f"### {title}", "")
            for item in items:
                yield f"- {item.head}"
                yield from (f"  - {text}" for text in item.more)
        for precision in pair["precision"]:
            names = _names(pair)
            yield from (
                "",
                f"### Precision in {precision['dtype']}",
                "",
                f"| | {names['a']} | {names['b']} |",
                "|---|---|---|",
            )
            yield from (f"| {' | '.join(row)} |" for row in rows_of(pair, precision))
        yield ""
