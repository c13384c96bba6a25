"""What a plain function returns beside the outputs of its operator, or in the place of one, by its first calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from ..data.texts import told
from ..errors import SpecError
from ..execution.calling import OTHER, Call
from ..mechanisms.definition import Frame
from ..numerics import budget
from ..subjects.hints import source_of
from ..subjects.subject import AdapterSubject
from .bench import Bench
from .layouts import lay_out, telling
from .possible_layouts import differing_later
from .settling import Declined, Settled, claimed
from .smallest import first_calls

Shape = tuple[int, ...]
Results = list[tuple[Shape, Call]]
GREATEST = re.compile(r"(^|_)(row)?(max|amax|maxima|maximum)(_|$)")
"""What a variable is called that holds the greatest values along an axis."""


def greatest_values(subject: AdapterSubject) -> list[str]:
    """That a plain function returns greatest values in the place of an output, in words, as its variable says it."""
    source = source_of(subject.adapter) if subject.interface.others else None
    places = [*zip(subject.interface.outputs, source.variables, strict=False)][1:] if source else []
    found = [(name, variable) for name, variable in places if GREATEST.search(variable)]
    for name, _ in found:
        subject.set_aside(name)
    return [f"it returns `{variable}` in the place of {name}: not tested" for name, variable in found]


def other_results(subject: AdapterSubject, device: str) -> list[str]:
    """What a plain function returns beside the operator's outputs, in words; it is left alone from now on.

    A further result is none of these where its shape is another one on every first call, as that of the weights is in
    the place of a logsumexp. A backward pass may return some of the gradients alone.
    """
    if not subject.interface.others:
        subject.last_axes = {}
        return []
    lay_out(subject, subject.mechanism, subject.claims.dtypes[0], device)
    m, found = subject.mechanism, _results(subject, device)
    whole = all(all(_fits(subject, name, found[name])) for name in [*m.outputs][1:] if name in found)
    if m.gradient_of and not whole and (some := _some_gradients(subject, [*found.values()])):
        subject.returned_as(some)
        return [f"it returns {', '.join(some)} alone, as the shapes of first results show"]
    if not whole:
        found = _laid_out_later(subject, device, found) or found
    last = {name: _last_axes(subject, name, found[name]) for name in found if name in m.outputs}
    subject.last_axes = {name: count for name, count in last.items() if count}
    says = list[str]()
    for name in _others(subject, found, [*m.outputs][1:]):
        shape, call = found[name][0]
        seen, own = (told([*(each or ())]) for each in (shape, _shape(subject, name, call)))
        says.append(f"it returns {seen} in the place of {name}, which is {own}: not tested")
        subject.set_aside(name)
    apart = {f"{OTHER}{place}" for place in range(len(m.outputs))}  # of which something was said
    further = [name for name in found if name.startswith(OTHER) and name not in apart]
    if further:
        whole = len(m.outputs) + len(further)
        says.append(f"it returns {whole} results, and {m.operator} has {len(m.outputs)}: the others are not tested")
    return says


def _results(subject: AdapterSubject, device: str) -> dict[str, Results]:
    """What each result of the first calls is like, and of plain ones that tell the axes apart."""
    m, found, calls = subject.mechanism, dict[str, Results](), [*first_calls(subject, device)]
    bench = Bench(subject, m, subject.claims.dtypes[0], device, m.words)
    for sample in telling(subject, m, bench.dtype) if m.layouts else ():
        with suppress(Declined):
            calls.append(claimed(bench, sample, Settled(sample.values)))
    with subject.session():
        for call in calls:
            for name, x in subject.results(call).items():
                found.setdefault(name, []).append((x.shape, call))
    return found


def _fits(subject: AdapterSubject, output: str, found: Results) -> list[bool]:
    """For each call whether what was returned has the shape of an output, or that cannot be said."""
    if _last_axes(subject, output, found):
        return [True] * len(found)
    return [_shape(subject, output, call) in (shape, None) for shape, call in found]


def _last_axes(subject: AdapterSubject, output: str, found: Results) -> int:
    """How many axes of one entry every call has returned behind those of an output, or has not; the first one's are 0.

    One may be kept where it was reduced. Where several are lacking, that is a negative number.
    """
    known = [(own, seen) for seen, call in found if (own := _shape(subject, output, call)) is not None]
    if output == subject.mechanism.outputs[0] or not known:
        return 0
    if all((*own, 1) == seen for own, seen in known):
        return 1
    lacking = {len(own) - len(seen) if own == _filled(seen, len(own)) else 0 for own, seen in known}
    return -lacking.pop() if len(lacking) == 1 else 0


def _filled(shape: Shape, count: int) -> Shape:
    """A shape with as many further axes of one entry as make a count."""
    return (*shape, *[1] * (count - len(shape)))


def _others(subject: AdapterSubject, found: Mapping[str, Results], outputs: Iterable[str]) -> list[str]:
    """The outputs in the place of which something of another shape is returned on every call."""
    return [name for name in outputs if name in found and not any(_fits(subject, name, found[name]))]


def _some_gradients(subject: AdapterSubject, found: Sequence[Results]) -> list[str]:
    """The gradients that results are, in their order, by the shapes of all first calls; nothing where some are none."""
    names, left = list[str](), iter(subject.mechanism.outputs)
    for result in found:
        name = next((name for name in left if all(_fits(subject, name, result))), "")
        if not name:
            return []
        names.append(name)
    return names


def _laid_out_later(subject: AdapterSubject, device: str, before: Mapping[str, Results]) -> dict[str, Results]:
    """The same results in the layout of the same arrays in which further outputs have theirs; nothing if in none.

    An output may have its shape on some calls by accident, as where there are as many heads as queries. Where it has it
    on none, any layout will do in which it has it on some.
    """
    own, observed = subject.form.layout.name, subject.observed_layout
    if not subject.undeclared_layout or subject.is_known:
        return {}
    for name in differing_later(subject.mechanism, own):
        subject.read_as(name, observed=observed)
        found = _results(subject, device)
        outputs = [*subject.mechanism.outputs]
        some = _others(subject, before, outputs[1:]) and not _others(subject, found, outputs)
        if some or all(all(_fits(subject, output, found[output])) for output in outputs if output in found):
            subject.read_as(name, observed=True)
            return found
    subject.read_as(own, observed=observed)
    return {}


def _shape(subject: AdapterSubject, output: str, call: Call) -> Shape | None:
    """The shape of an output of a call as the function is to return it; None where that cannot be said."""
    m = subject.mechanism
    given = {name: m.meant(name, x) for name, x in {**subject.claims.fixed, **call.options}.items()}
    try:
        with np.errstate(all="ignore"), budget.metered():
            x = Frame(m, {**m.defaults, **given, **call.inputs})[output]
    except (SpecError, ValueError, IndexError):
        return None
    return np.shape(subject.form.returned({output: np.zeros(np.shape(x))})[output])
