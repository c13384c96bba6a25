"""What a plain function returns beside the outputs of its operator, or in the place of one, by its first calls."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ..cases.samples import Unfit
from ..data.texts import told
from ..errors import SpecError
from ..execution.calling import OTHER, Call
from ..mechanisms.definition import Frame
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.signatures import signature_named
from ..mechanisms.stated import is_stated, kind_and_texts, stated
from ..numerics import budget
from ..numerics.codes import stored_as
from ..numerics.formats import FORMATS
from ..subjects.beside import others
from ..subjects.hints import source_of
from ..subjects.subject import AdapterSubject
from .first_case import FirstCase
from .layouts import lay_out, telling
from .possible_layouts import differing_later
from .settling import Declined
from .smallest import calls_of, first_calls
from .trial import Faulted, Trial

LOOKED_AT = 4
"""First cases in which a number in the place of minus infinity is looked for."""
BELOW = -1e9
"""A number that no logit comes near."""
Shape = tuple[int, ...]
Shapes = list[tuple[Shape, dict[str, Shape]]]
"""For each call the shape of a result, and those that outputs are to have, as far as that can be said."""
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
    the place of a logsumexp. A backward pass may return some of the gradients alone, and none by what it does not take.
    """
    if not subject.interface.others:
        subject.last_axes = {}
        return []
    lay_out(subject, subject.mechanism, subject.claims.dtypes[0], device)
    m, found = subject.mechanism, _results(subject, device)
    untaken, outputs = m.without_input(subject.claims.names), subject.interface.outputs
    taken = [name for name in outputs if name not in untaken]
    if taken != [*outputs[: len(taken)]] and not untaken & found.keys():  # some stand behind one by what it lacks
        subject.returned_as(taken)
    further = m.outputs[1:]
    whole = all(all(_fits(m, name, found[name])) for name in further if name in found)
    if m.gradient_of and not whole and (some := _some_gradients(subject, [*found.values()])):
        subject.returned_as(some)
        return [f"it returns {', '.join(some)} alone, as the shapes of first results show"]
    if not whole:
        found = _laid_out_later(subject, device) or found
    last = {name: _last_axes(name, found[name]) for name in further if name in found}
    subject.last_axes = {name: count for name, count in last.items() if count}
    says = list[str]()
    for name in further:
        if name in found and not any(_fits(m, name, found[name])):
            shape, own = found[name][0]
            seen, stated = (told([*(each or ())]) for each in (shape, own.get(name)))
            says.append(f"it returns {seen} in the place of {name}, which is {stated}: not tested")
            subject.set_aside(name)
    apart = {f"{OTHER}{place}" for place in range(len(m.outputs))}  # of which something was said
    more = [name for name in found if name.startswith(OTHER) and name not in apart]
    if more and {*more} - {f"{OTHER}{place}" for place in _read_beside(subject)}:
        count = len(m.outputs) + len(more)
        says.append(f"it returns {count} results, and {m.operator} has {len(m.outputs)}: the others are not tested")
    return says


def _read_beside(subject: AdapterSubject) -> Iterator[int]:
    """The places of the results that other calls of a function are tested on."""
    known = subject.mechanism.library
    for one in others(subject, known) if known is not None else ():
        yield from (place for place, name in enumerate(signature_named(one.adapter.like).returns) if name != "_")


def least_number(subject: AdapterSubject, device: str) -> list[str]:
    """Which finite number a plain function returns in the place of minus infinity, in words; it is read so from now on.

    It is the least one of its dtype, or below all logits, and one number wherever the first output has minus infinity.
    """
    if not subject.interface.refusing:
        return []
    asked, first, found = FirstCase(subject, device), subject.mechanism.outputs[0], set[float]()
    with subject.session():
        for sample in itertools.islice(asked.plain, LOOKED_AT):
            trial = Trial(asked.bench, sample)
            with suppress(Faulted, Unfit, SpecError, Declined):
                if np.isneginf(trial.frames.exact(first, trial.base)).any():
                    found.add(float(np.min(trial.observed(first, trial.base))))
    least = tuple(-one.largest for one in FORMATS.values())
    number = found.pop() if len(found) == 1 else 0.0
    if not (number in least or -np.inf < number <= BELOW):
        return []
    subject.least = least if number in least else tuple(float(stored_as(np.array(number), name)) for name in FORMATS)
    return [f"it returns {number:g} where {first} is minus infinity, and is read so"]


def never_written(subject: AdapterSubject, device: str, said: Sequence[str]) -> list[str]:
    """What was said of a plain function, and instead of what it was taken to write to that it leaves that as it is.

    One that returns one output and writes no other is called from now on as what returns that one.
    """
    m, like, written = subject.mechanism, subject.adapter.like or "", subject.interface.into
    if not is_stated(like) or len(written) < 2 or {*written.values()} != {*m.outputs}:
        return [*said]
    source, line, first = source_of(subject.adapter), stated(like), m.outputs[0]
    if source is None or not source.gives_one:
        return [*said]
    own = {name: kind_and_texts(line.parameters[name])[1][0] for name in written}
    read = {name: x if written[name] == first else f"{{in_place: {x}, as: {written[name]}}}" for name, x in own.items()}
    subject.take_as(str(replace(line, parameters={**line.parameters, **read}, returns=(first,))))
    with subject.session():
        calls = [(call, subject.call(call)) for call in first_calls(subject, device)]
    still = [
        (name, output)
        for name, output in written.items()
        if output != first
        and all(np.array_equal(call.inputs.get(own[name], ()), reply.outputs.get(output, ())) for call, reply in calls)
    ]
    if not still or any(reply.fault is not None or reply.breaches for _, reply in calls):
        subject.take_as(like)
        return [*said]
    subject.take_as(str(replace(line, parameters={**line.parameters, **own}, returns=(first,))))
    taken = " and ".join(f"`{name}`" for name in written)
    left, lacking = (
        " and ".join(some) for some in zip(*((f"`{name}`", output) for name, output in still), strict=True)
    )
    says = f"it returns {first} alone, and leaves {left} as it was passed: {lacking} is not tested"
    return [*(one for one in said if not one.startswith(taken)), says]


def _results(subject: AdapterSubject, device: str) -> dict[str, Shapes]:
    """What each result of the first calls is like, and, where there are several, of plain ones that tell axes apart."""
    m, found = subject.mechanism, dict[str, Shapes]()
    with subject.session():
        _add_results(found, subject, first_calls(subject, device))
        if len(found) > 1 and m.layouts:
            samples = telling(subject, m, subject.claims.dtypes[0])
            _add_results(found, subject, calls_of(subject, samples, device))
    return found


def _add_results(found: dict[str, Shapes], subject: AdapterSubject, calls: Iterable[Call]) -> None:
    for call in calls:
        results = subject.results(call)
        own = _own_shapes(subject, call) if len(results) > 1 else {}
        for name, x in results.items():
            found.setdefault(name, []).append((x.shape, own))


def _fits(mechanism: Mechanism, output: str, found: Shapes) -> list[bool]:
    """For each call whether what was returned has the shape of an output, or that cannot be said."""
    if output != mechanism.outputs[0] and _last_axes(output, found):
        return [True] * len(found)
    return [own.get(output, shape) == shape for shape, own in found]


def _last_axes(output: str, found: Shapes) -> int:
    """How many axes of one entry every call has returned behind those of an output, or, as a negative number, has not.

    One may be kept where it was reduced.
    """
    known = [(own[output], seen) for seen, own in found if output in own]
    if known and all((*own, 1) == seen for own, seen in known):
        return 1
    lacking = {len(own) - len(seen) if own == _filled(seen, len(own)) else 0 for own, seen in known}
    return -lacking.pop() if len(lacking) == 1 else 0


def _filled(shape: Shape, count: int) -> Shape:
    """A shape with as many further axes of one entry as make a count."""
    return (*shape, *[1] * (count - len(shape)))


def _some_gradients(subject: AdapterSubject, found: Sequence[Shapes]) -> list[str]:
    """The gradients that results are, in their order, by the shapes of all first calls; nothing where some are none."""
    names, left = list[str](), iter(subject.mechanism.outputs)
    for result in found:
        name = next((name for name in left if all(_fits(subject.mechanism, name, result))), "")
        if not name:
            return []
        names.append(name)
    return names


def _laid_out_later(subject: AdapterSubject, device: str) -> dict[str, Shapes]:
    """The same results in the layout of the same arrays in which further outputs have theirs; nothing if in none.

    An output may have its shape on some calls by accident, as where there are as many heads as queries.
    """
    m, own, observed = subject.mechanism, subject.form.layout.name, subject.observed_layout
    if not subject.undeclared_layout or subject.is_known:
        return {}
    for name in differing_later(m, own):
        subject.read_as(name, observed=observed)
        found = _results(subject, device)
        if all(all(_fits(m, output, found[output])) for output in m.outputs if output in found):
            subject.read_as(name, observed=True)
            return found
    subject.read_as(own, observed=observed)
    return {}


def _own_shapes(subject: AdapterSubject, call: Call) -> dict[str, Shape]:
    """The shapes of the outputs of a call as the function is to return them, but for those that cannot be said."""
    m, found = subject.mechanism, dict[str, Shape]()
    given = {name: m.meant(name, x) for name, x in {**subject.claims.fixed, **call.options}.items()}
    frame = Frame(m, {**m.defaults, **given, **call.inputs})
    for output in m.outputs:
        try:
            with np.errstate(all="ignore"), budget.metered():
                shape = np.shape(frame[output])
        except (SpecError, ValueError, IndexError):
            continue
        found[output] = np.shape(subject.form.returned({output: np.zeros(shape)})[output])
    return found
