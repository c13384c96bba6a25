"""A function in its other calls, as a further subject of the same name.

One function may compute several operators: with `cu_seqlens` a kernel of linear attention takes packed items, and with
`block_table` a kernel of packed attention takes pages; a function that turns queries and keys is tested on one array by
itself first. Each such use is a known interface of its own, which says beside
which one it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..errors import TargetError
from ..mechanisms.library import Library
from ..mechanisms.signatures import Signature, beside
from .subject import AdapterSubject
from .taken import Taken


class BesideSubject(AdapterSubject):
    """A function of a known interface, by the interface of its other calls."""


def others(first: AdapterSubject, known: Library) -> Iterator[BesideSubject]:
    """The further subjects of a plain function that is taken for a known interface, one for each further operator.

    Of several interfaces of one operator it is the one that passes most arrays of those that the function can take.
    """
    taken = first.form.taken
    if taken is None or first.claims.declared or isinstance(first, BesideSubject):
        return
    possible = [one for one in beside(taken.signature.name) if one.operator in known.stating and _takes(taken, one)]
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


def _takes(taken: Taken, one: Signature) -> bool:
    """Whether other calls use what the first interface leaves alone: a parameter that makes them, or a result."""
    results = zip(taken.signature.returns, one.returns, strict=False)
    return any(name in taken.left for name in one.mapped) or any(own == "_" != other for own, other in results)
