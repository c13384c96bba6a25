"""A function in its other calls, as a further subject of the same name.

One function may compute several operators: with `cu_seqlens` a kernel of linear attention takes packed items, and with
`block_table` a kernel of packed attention takes pages; a function that turns queries and keys is tested on one array by
itself first. Each such use is a known interface of its own, which says beside
which one it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ..errors import TargetError
from ..mechanisms.mechanism import Known
from ..mechanisms.parameters import words
from ..mechanisms.signatures import Signature, beside, signature_named
from ..mechanisms.stated import is_stated, stated
from .hints import source_of
from .subject import AdapterSubject
from .taken import Taken


class BesideSubject(AdapterSubject):
    """A function of a known interface, by the interface of its other calls."""


def others(first: AdapterSubject, known: Known) -> Iterator[BesideSubject]:
    """The further subjects of a plain function that is taken for a known interface, one for each further operator.

    Of several interfaces of one operator it is the one that passes most arrays of those that the function can take.
    """
    taken = first.form.taken
    if taken is None or first.claims.declared or isinstance(first, BesideSubject):
        return
    operators = {*known}
    possible = [one for one in beside(taken.signature.name) if one.operator in operators and _takes(taken, one)]
    possible += [signature_named(line, "") for line in _as_read(first) if stated(line).operator in operators]
    found = set[str]()
    for one in sorted(possible, key=lambda one: -len(one.arrays_in(known[one.operator]))):
        if one.operator in found:
            continue
        adapter = replace(first.adapter, operator=one.operator, like=one.name, layout="", limits={}, requires=())
        try:
            further = BesideSubject(
                adapter, known[one.operator], declared=False, supervise=first.supervise, own=first.own
            )
        except TargetError:  # it lacks what these calls pass
            continue
        further.copies = first.copies
        if first.in_dtype:
            further.pass_in_dtype(first.in_dtype)
        if first.observed_layout and (layout := first.form.layout.name) in further.mechanism.layouts:
            further.read_as(layout, observed=True)  # arrays lie as in its first calls
            further.laid_out = True
        yield further
        found.add(one.operator)


def _as_read(first: AdapterSubject) -> Iterator[str]:
    """What a function of a stated interface computes beside it, by its further arrays and results, in a line."""
    if not is_stated(first.adapter.like):
        return
    line, source = stated(first.adapter.like), source_of(first.adapter)
    own = words(line.operator).beside
    if own is None or source is None or source.results != len(own.returns):
        return
    found = {name: text for names, text in own.parameters.items() for name in names if name in line.parameters}
    if len(found) != len(own.parameters):
        return

    def moved(text: str) -> str:
        return re.sub(r"\w+", lambda word: own.instead.get(word[0], word[0]), text)

    parameters = {name: found.get(name, moved(text)) for name, text in line.parameters.items()}
    requires = (*map(moved, line.requires), *own.requires)
    yield str(
        replace(
            line,
            operator=own.operator,
            parameters=parameters,
            requires=requires,
            fixed={**line.fixed, **own.fixed},
            returns=own.returns,
        )
    )


def _takes(taken: Taken, one: Signature) -> bool:
    """Whether other calls use what the first interface leaves alone: a parameter that makes them, or a result."""
    results = zip(taken.signature.returns, one.returns, strict=False)
    return any(name in taken.left for name in one.mapped) or any(own == "_" != other for own, other in results)
