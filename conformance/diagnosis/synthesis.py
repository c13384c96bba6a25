"""Mistakes without a name: the definition with one line changed, or with two of its steps swapped.

Where no known mistake fits, every small edit of the definition is a candidate: of each line, of each option and of each
pair of steps.
They are tried by their cost on the few smallest telling cases, where most of them are far from what the subject
returned; what is left is looked at as any other candidate is.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..judging.bench import Bench
from ..language.edits import FAR, PLAIN, RARE, all_renamed, edits, lean, renamed
from ..language.expressions import Expression
from ..mechanisms.mechanism import Mechanism
from .candidates import Candidate, Changed, described
from .clock import now
from .observations import Observation
from .places import Place
from .readings import LIMITED, Reading, readings, writings

SAYS = "the definition with one line changed"
READ = "the definition, of an input that is read otherwise"
WRITTEN = "the definition, with an output that is written otherwise"
ORDER = "the definition with two steps in the other order"
ROOM = 56
"""Characters of a changed line that are shown."""
FIRST = 3
"""Cases on which every edit is tried, the smallest ones first."""
WORK = 3_000
"""Edits that are tried at most."""
SMALL = 4_000
"""Entries beyond which a case is too large to be run for every edit."""
LONGEST = 240
"""Characters of a line in which several are written out."""
LEFT = 40
"""Edits that are looked at closely at most."""


def plausible(bench: Bench, wrong: Sequence[Observation], until: float = math.inf) -> Iterator[list[Candidate]]:
    """The edits that come near what the subject returned on the smallest cases, those of each cost together.

    Of a subject that is right on all small cases, they are those that end at a limit.
    """
    few = smallest(wrong)
    large = sorted(wrong, key=lambda o: o.entries)[: 0 if few else 1]
    for those in _edited(bench) if not bench.mechanism.by_reference else ():
        yield resembling(filter(_limited, those) if large else those, wrong, until=until, few=few or large)


def _limited(edit: Candidate) -> bool:
    """Whether an edit leaves out what is behind a limit."""
    return any(f" {LIMITED} " in changed.after for changed in edit.changed)


def resembling(
    candidates: Iterable[Candidate],
    wrong: Sequence[Observation],
    somewhere: Sequence[Place] = (),
    until: float = math.inf,
    few: Sequence[Observation] = (),
) -> list[Candidate]:
    """Those of many candidates that come near what the subject returned on the smallest cases, or on a `few` others.

    They do so in the outputs that are wrong on some case; what they give in others may be left out.
    Behind them are those that do where they are made `somewhere` along an axis of outputs.
    After `until`, of the clock of searches, no further one is looked at.
    """
    few, outputs = few or smallest(wrong), {name for o in wrong for name in o.wrong}
    found: list[Candidate] = []
    placed: list[Candidate] = []
    for candidate in itertools.islice(candidates, WORK) if few else ():
        if all(o.resembles(candidate, outputs) for o in few):
            found.append(candidate)
        placed += [candidate.placed(x) for x in somewhere if all(o.resembles(candidate, outputs, x) for o in few)]
        if len(found) >= LEFT or now() > until:
            break
    return [*found, *placed[:LEFT]]


def smallest(wrong: Sequence[Observation]) -> list[Observation]:
    """The few smallest cases, of those that are small."""
    return sorted((o for o in wrong if o.entries <= SMALL), key=lambda o: o.entries)[:FIRST]


def close_by(candidates: Iterable[Candidate], wrong: Sequence[Observation]) -> list[Candidate]:
    """Other words, and those of candidates that come near what the subject returned on one of the smallest cases."""
    few, outputs = smallest(wrong), {name for o in wrong for name in o.wrong}
    return [c for c in candidates if c.words or any(o.resembles(c, outputs) for o in few)]


def changed_along(
    bench: Bench, candidates: Sequence[Candidate], wrong: Sequence[Observation], later: Sequence[Place], until: float
) -> list[Candidate]:
    """Those of candidates that come near where their lines are changed from a position on, as long as there is time."""
    made = (c.along(bench.mechanism, place) for place in later for c in candidates if not (c.words or c.at))
    return resembling((c for c in made if c is not None), wrong, until=until)


class Edits(dict[tuple[str, str, frozenset[str]], list[list[Candidate]]]):
    """The edits of each definition of a library, by the options and inputs that are taken."""


def edited(bench: Bench) -> list[Candidate]:
    """Every edit of the definition, the cheapest first; made once."""
    return [*itertools.chain.from_iterable(_edited(bench))]


def shown_as(bench: Bench, names: Collection[str]) -> list[Candidate]:
    """The edits of the definition that are shown with one of these names."""
    lines = {name.partition(":")[0] for name in names}
    own = (c for c in edited(bench) if c.changed and (c.name in names or c.changed[0].line in lines))
    return [c for c in map(Candidate.told, own) if c.name in names]


def _edited(bench: Bench) -> list[list[Candidate]]:
    """The edits of each cost, the cheapest first."""
    m = bench.mechanism
    known, key = m.kept(Edits), (m.stating.name, m.stating.digest, frozenset(bench.subject.claims.names))
    if key not in known:
        found = [*_ignored(bench), *_read_otherwise(bench), *_lines(m), *_orders(m), *_for_one_reader(m)]
        known[key] = [[x for cost, x in found if cost == each] for each in sorted({cost for cost, _ in found})]
    return known[key]


def _lines(m: Mechanism) -> Iterator[tuple[int, Candidate]]:
    """One line changed, of those that outputs read."""
    sizes = [name for name in m.sizes if name in _read(m)]
    for line, expression in m.definition.items():
        others = {name: _others(m, name, sizes) for name in expression.uses & {*m.sizes, *m.inputs, *m.definition}}
        for edit in edits(expression.text, others, {name for name in others if _counts(m, name)}):
            made, short = Expression.unread(edit.text, expression.scope), partial(edit.within, expression.text, ROOM)
            yield edit.cost, _shortened({line: made}, Changed(line, expression.text, edit.text), short)
        for text in (f"({expression.text}) {sign} {size}" for sign in "*/" for size in sizes):
            yield (
                FAR,
                _shortened({line: Expression.unread(text, expression.scope)}, Changed(line, expression.text, text)),
            )


def _others(m: Mechanism, name: str, sizes: Sequence[str]) -> list[str]:
    """The names that one may be taken for: another size, another input, and of a line what it is made of."""
    if name in m.sizes:
        return [size for size in sizes if size != name]
    if name in m.required:
        return [other for other in m.required if other != name]
    if name in m.definition:
        made_of = [used for used in sorted(m.definition[name].uses) if used in m.definition or used in m.inputs]
        return [*made_of, *_alike(m, name)]
    return []


def _alike(m: Mechanism, name: str) -> Iterator[str]:
    """The lines that are to another input what a line is to its own, by their names: `k_right` of `q_right`."""
    parts = name.split("_")
    for at, own in enumerate(parts):
        for other in m.required if own in m.required and len(parts) > 1 else ():
            changed = "_".join([*parts[:at], other, *parts[at + 1 :]])
            if changed != name and changed in m.definition:
                yield changed


def _counts(m: Mechanism, name: str) -> bool:
    """Whether a name is a size, or counts along an axis, so that it may be one off."""
    return name in m.sizes or (name in m.definition and m.definition[name].text.startswith(("range(", "cumsum(")))


def _read(m: Mechanism) -> set[str]:
    return {name for line in m.definition.values() for name in line.uses}


def _ignored(bench: Bench) -> Iterator[tuple[int, Candidate]]:
    """An option, or an input that may be left out, that is ignored, or moved by one."""
    m = bench.mechanism
    scope = next(iter(m.definition.values())).scope
    for name in (*m.options, *m.optional):
        if name not in bench.subject.claims.names or name not in _read(m):
            continue
        changes = [(PLAIN, _literal(m.defaults.get(name)))]
        if name in m.options:
            start = f"{name} if {name} == none else " if m.defaults.get(name) is None else ""
            changes += [(RARE, f"{start}{name} + 1"), (RARE, f"{start}{name} - 1"), (RARE, f"{start}{name} * {name}")]
        for cost, text in changes:
            if text:
                yield cost, _candidate({name: Expression.unread(text, scope)}, Changed(name, name, text))


def _read_otherwise(bench: Bench) -> Iterator[tuple[int, Candidate]]:
    """An input that is taken for something else, or its memory for that of a contiguous array."""
    m, taken = bench.mechanism, {*bench.mechanism.required, *bench.subject.claims.names}
    scope = next(iter(m.definition.values())).scope
    found: dict[tuple[str, str], tuple[Reading, Expression]] = {}
    for one in readings(m):
        if one.name in taken and one.name in _read(m):
            made = Expression.unread(one.text, scope)
            found[one.name, one.says.removeprefix(one.name)] = one, made
            yield one.cost, _candidate({one.name: made}, Changed(one.name, one.name, one.says), says=READ)
    for (name, way), (one, made) in found.items():  # what is done with keys is done with values as well
        other = found.get((_of_values(name), way))
        if other is not None:
            changed = (Changed(x.name, x.name, x.says) for x in (one, other[0]))
            yield one.cost, _candidate({name: made, other[0].name: other[1]}, *changed, says=READ)
    for one in writings(m):
        made = Expression.unread(one.text, scope)
        yield one.cost, _candidate({one.name: made}, Changed(one.name, one.name, one.says), says=WRITTEN)
    for names in ((name,) for name in m.required):
        yield PLAIN, _dense(names)
    yield PLAIN, _dense(m.required)


def _of_values(name: str) -> str:
    """The name of the values that belong to some keys, or an empty one."""
    return {"k": "v", "key": "value"}.get(name) or next(
        (value + name.removeprefix(key) for key, value in (("k_", "v_"), ("key_", "value_")) if name.startswith(key)),
        "",
    )


def _dense(names: tuple[str, ...]) -> Candidate:
    changed = tuple(Changed(name, name, f"{name} read as if contiguous") for name in names)
    return Candidate(f"{', '.join(names)} read as if contiguous", READ, changed=changed, dense=names)


def _for_one_reader(m: Mechanism) -> Iterator[tuple[int, Candidate]]:
    """A line that one of its readers has in another version: made of what comes before a step, or with a slip."""
    readers = Counter(name for line in m.definition.values() for name in line.uses)
    for line, expression in m.definition.items():
        for name in sorted(expression.uses & m.definition.keys()):
            inner = m.definition[name]
            for text in dict.fromkeys((*_before_a_step(m, name), *(_slips(inner) if readers[name] > 1 else ()))):
                made = Expression.unread(renamed(expression.text, name, f"({text})"), expression.scope)
                yield FAR, _shortened({line: made}, Changed(line, name, f"({text})"))


def _before_a_step(m: Mechanism, name: str) -> Iterator[str]:
    """A text of a line that has what one of its steps was made of in the place of that, however far back it is."""
    for step in sorted(_steps(m, name)):
        for source in sorted(m.definition[step].uses & {*m.definition, *m.required}):
            text = _without(m, name, step, source)
            if len(text) <= LONGEST:
                yield text


class Steps(dict[tuple[str, str, str], frozenset[str]]):
    """The lines that each line of a library is made of."""


def _steps(m: Mechanism, name: str) -> frozenset[str]:
    """The lines that a line is made of."""
    known, key = m.kept(Steps), (m.name, m.digest, name)
    if key not in known:
        own = m.definition[name].uses & m.definition.keys()
        known[key] = frozenset(own.union(*(_steps(m, step) for step in own)))
    return known[key]


def _without(m: Mechanism, name: str, step: str, source: str) -> str:
    """A line with a source in the place of a step, and lines between them written out."""
    others = {}
    for used in m.definition[name].uses & m.definition.keys():
        if used == step:
            others[used] = source
        elif step in _steps(m, used):
            others[used] = f"({_without(m, used, step, source)})"
    return all_renamed(m.definition[name].text, others)


def _slips(expression: Expression) -> Iterator[str]:
    yield from (edit.text for edit in edits(expression.text, {}) if edit.cost == PLAIN)


def _literal(x: Any) -> str:
    """A default as the language writes it; nothing where it has no way to."""
    if x is None or isinstance(x, bool):
        return {None: "none", True: "true", False: "false"}[x]
    if isinstance(x, float) and math.isinf(x):
        return "infinity" if x > 0 else "-infinity"
    return repr(x) if isinstance(x, int | float) else ""


def _orders(m: Mechanism) -> Iterator[tuple[int, Candidate]]:
    """Two steps in the other order, the second of which reads the first, as nothing else does."""
    readers = Counter(name for line in m.definition.values() for name in line.uses)
    for second, expression in m.definition.items():
        for first in sorted(name for name in expression.uses & m.definition.keys() if readers[name] == 1):
            inner = m.definition[first]
            for start in sorted(inner.uses & {*m.definition, *m.required}):
                one = Expression.unread(renamed(expression.text, first, start), inner.scope)
                two = Expression.unread(renamed(inner.text, start, first), expression.scope)
                changed = Changed(first, inner.text, one.text), Changed(second, expression.text, two.text)
                yield FAR, _candidate({first: one, second: two}, *changed)


def _candidate(changes: Mapping[str, Expression], *changed: Changed, says: str = "") -> Candidate:
    return Candidate(described(changed), says or (SAYS if len(changed) == 1 else ORDER), changes, changed=changed)


def _shortened(
    changes: Mapping[str, Expression], whole: Changed, short: Callable[[], tuple[str, str]] | None = None
) -> Candidate:
    """A candidate that changes a line, of which a part is shown, or else all of it without needless parentheses."""

    def shown() -> tuple[Changed, ...]:
        before, after = short() if short is not None else (whole.before, lean(whole.after))
        return (Changed(whole.line, before, after),)

    return replace(_candidate(changes, whole), shown=shown)
