"""What first calls show of a function that does not declare it.

In this order: its framework and dtype, what it fails without, how it reads the parameters of its known interface, the
sizes that it takes, what it returns beside outputs, and whether it can be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..errors import Error
from ..execution.backward import COTANGENT
from ..execution.calling import UNDIFFERENTIABLE, Reply
from ..frameworks.known import is_installed
from ..mechanisms.library import Library
from ..mechanisms.parameters import documented
from ..mechanisms.signatures import variants
from ..mechanisms.stated import is_stated
from ..subjects.gradients import GradientSubject, further_outputs, gradient_of, may_have_gradients, writes
from ..subjects.guesses import as_documented, as_made
from ..subjects.hints import source_of
from ..subjects.renaming import numbered
from ..subjects.subject import AdapterSubject, Subject
from .conventions import identified
from .layouts import is_read_right, lay_out
from .own_defaults import own_defaults
from .own_dtype import take_own_dtype, take_tables_in_dtype
from .possible_layouts import candidates, narrow
from .readings import find_readings, last_resorts
from .refused_sizes import (
    Limits,
    asked_for,
    fails,
    fails_with_all,
    in_chunks,
    learned,
    one_width,
    refuses,
    taken_alone,
    taken_as_copies,
    ungrouped,
)
from .returned import greatest_values, least_number, never_written, other_results
from .smallest import ends_processes, first_calls, is_deadly
from .unread import check_read

SEED = "seed"
"""The option by which random numbers are the same in another call."""


def noticed(subject: Subject, device: str, dtypes: Sequence[str] = ()) -> tuple[str, ...]:
    """What first calls find of a subject, in words; nothing where its declaration or its file says it.

    First calls are made in the first of the `dtypes` in which it is to be tried, float32 before all others. One that is
    not read at all is a `TargetError`.
    """
    if not isinstance(subject, AdapterSubject):
        return ()
    with subject.one_session():
        return _noticed(subject, device, dtypes)


def _noticed(subject: AdapterSubject, device: str, dtypes: Sequence[str]) -> tuple[str, ...]:
    """The same of a function that is called."""
    if dtypes and not subject.claims.declared:
        subject.take_in(sorted(dtypes, key=lambda dtype: dtype != "float32"))
    found = find_framework(subject, device)
    says = [f"takes arrays of {found}, as a first call shows; --framework selects another framework"] if found else []
    says += [*_as_made(subject), *_own_scale(subject)]
    if subject.isolated and not subject.claims.declared and ends_processes(subject, device):
        subject.laid_out = True  # as far as anything can be seen of it
        return tuple(says)
    says += [] if dtypes else take_own_dtype(subject, device)
    says += greatest_values(subject)
    asked = _asked_for(subject, device)
    _find_variant(subject, device)
    readings = find_readings(subject, device)
    chunks = _larger_chunks(subject, device)
    limits = asked + (chunks or _refused_sizes(subject, device))
    limits += _taken_alone(subject, device)
    limits += _taken_as_copies(subject, device) if subject.interface.refusing else []
    if chunks or (limits and not readings):  # which calls beyond them may have hidden
        readings = find_readings(subject, device)
    says += [*readings, *limits, *take_tables_in_dtype(subject, device)]
    says += [*_own_defaults(subject, device), *_without_seed(subject)]
    says += [*other_results(subject, device), *least_number(subject, device)]
    says = [*never_written(subject, device, says), *_documented(subject)]
    check_read(subject, device)
    if subject.claims.sparing:
        says.append("is compiled for every shape, so few shapes are tried; compiled=False or --profile ci tries all")
    return tuple(says)


def _as_made(subject: AdapterSubject) -> list[str]:
    """What the file of a plain function says of the arrays that it takes, in words; it is given no others."""
    requires = () if subject.claims.declared else as_made(subject.adapter, subject.mechanism)
    if requires:
        subject.require(*requires)
    return [f"`get_inputs` of its file makes arrays of which {text} holds: no others are tried" for text in requires]


def _documented(subject: AdapterSubject) -> list[str]:
    """Which words of conventions the documentation of a plain function says, in words; it is held to them."""
    source = None if subject.claims.declared else source_of(subject.adapter)
    found = documented(subject.mechanism, source.whole_documentation) if source is not None else {}
    own = {name: word for name, word in found.items() if name not in subject.claims.conventions}
    if own:
        subject.hold_to(own)
    return [f"its documentation says {name} = {word}" for name, word in own.items()]


def _own_scale(subject: AdapterSubject) -> list[str]:
    """Which number the scale of a plain function is by default, in words; it is passed one in every call."""
    numbers = numbered(subject.adapter.function) if subject.adapter.guessed and is_stated(subject.adapter.like) else {}
    return [_always_given(name, x) for name, x in numbers.items()]


def _own_defaults(subject: AdapterSubject, device: str) -> list[str]:
    """Which options of a plain function are numbers of its own where calls lack them, in words; no call does."""
    found = [*own_defaults(subject, device)] if subject.interface.refusing else []
    for _, option, number in found:
        subject.have_always(option, number)
    return [_always_given(name, number) for name, _, number in found]


def _always_given(name: str, number: float) -> str:
    return f"`{name}` is {number:g} where a call leaves it out, which no call does"


def _without_seed(subject: AdapterSubject) -> list[str]:
    """Which options of a plain function are not tested, for what they are about asks for a seed, in words."""
    m, names = subject.mechanism, subject.claims.names
    if subject.claims.declared or SEED in names or SEED not in m.takes:
        return []
    seeded = {name for each in m.kin if each.random for name in each.own & {*m.options}} - {SEED}
    why = "not tested, as no parameter is a seed by which calls are alike"
    return [f"`{name}` is {m.defaults[name]:g} in every call: {why}" for name in sorted(seeded & names)]


def _find_variant(subject: AdapterSubject, device: str) -> None:
    """Take a function for the variant of its known interface of which its first results are right, if one is.

    Where none is, it is the first by which it gives a result.
    """
    own, dtype, answered = subject.adapter.like, subject.claims.dtypes[0], ""
    others = variants(own) if own and not subject.claims.declared else []
    for like in (own, *(one.name for one in others)) if others else ():
        if like != own:
            subject.take_as(like)
        if is_read_right(subject, subject.mechanism, dtype, device):
            return
        answered = answered or (like if not fails(subject, device) else "")
    if others:
        subject.take_as(answered or own)


def _refused_sizes(subject: AdapterSubject, device: str) -> list[str]:
    """What sizes a plain function refuses or fails on, in words; no case is drawn with them from now on."""
    if not subject.interface.refusing:
        return []
    lay_out(subject, subject.mechanism, subject.claims.dtypes[0], device)
    says = _limited(subject, device, learned, "refuses") if refuses(subject, device) else _one_width(subject, device)
    return [*says, *_failing_sizes(subject, device)]


def _failing_sizes(subject: AdapterSubject, device: str) -> list[str]:
    """What sizes a plain function fails for, in words; where one has its limits, others may show theirs."""
    says, before = list[str](), None
    while (known := subject.claims.limits.keys()) != before:
        before = {*known}
        says += _limited(subject, device, in_chunks, "fails for")
    return says


def _asked_for(subject: AdapterSubject, device: str) -> list[str]:
    """That every call has what a plain function fails without, in words; no other case is drawn from now on."""
    if not subject.interface.refusing:
        return []
    own, found = subject.form.layout.name, [*asked_for(subject, device)]
    if not found and subject.undeclared_layout and not subject.observed_layout and fails_with_all(subject, device):
        m, form = subject.mechanism, subject.form
        others = (name for name in (*candidates(m, form), *narrow(m, form)) if name != own)
        found = next(filter(None, (_asked_for_in(name, subject, device) for name in others)), [])
        subject.read_as(own)
    return _required(subject, found)


def _asked_for_in(layout: str, subject: AdapterSubject, device: str) -> list[tuple[str, str]]:
    """The same conditions, of a function that is called in another layout, as far as they are about arrays.

    Options may be read in other ways.
    """
    subject.read_as(layout)
    arrays = {f"not single({name})" for name in subject.mechanism.optional}
    return [each for each in asked_for(subject, device) if {*each[0].split(" and ")} <= arrays]


def _required(subject: AdapterSubject, found: Sequence[tuple[str, str]]) -> list[str]:
    """That conditions hold of every call from now on, in words, with what a function says where one does not."""
    if found:
        subject.require(*(condition for condition, _ in found))
    return [f"fails unless {condition}, with {says}: not tried" for condition, says in found]


def _larger_chunks(subject: AdapterSubject, device: str) -> list[str]:
    """The sizes that a plain function takes if its chunks are as large as kernels have them, in words.

    Where it gives no result for the first case, and none with larger chunks of which that is no multiple.
    """
    own, found = subject.adapter.like, list[str]()
    others = [*last_resorts(subject)] if subject.adapter.guessed else []
    if not others or not fails(subject, device):
        return []
    for like in others:
        subject.take_as(like)
        if found := _limited(subject, device, in_chunks, "fails for"):
            break
    subject.take_as(own)  # how it is read is seen by first calls, which have these sizes now
    return found


def _limited(
    subject: AdapterSubject, device: str, find: Callable[[AdapterSubject, str], Limits | None], does: str
) -> list[str]:
    """The limits of a plain function in the first layout in which some are found, in words; it is limited to them.

    Other layouts than its own are tried where it gives no result for the first case.
    """
    own, others = subject.form.layout.name, candidates(subject.mechanism, subject.form)
    further = subject.undeclared_layout and not subject.observed_layout and own in others and fails(subject, device)
    for layout in (own, *(name for name in others if further and name != own)):
        if further:
            subject.read_as(layout)
        limits = find(subject, device)
        if further:
            subject.read_as(own)
        if limits is not None:
            subject.limit_to(limits.values, limits.ties)
            subject.laid_out = not further  # cases of sizes that it takes may tell its layout
            return [f"{does} {limits.words}, with {limits.says}: not tried"]
    return []


def _one_width(subject: AdapterSubject, device: str) -> list[str]:
    """That a plain function fails where widths differ, in words; no case is drawn with them from now on."""
    limits = one_width(subject, device)
    if limits is None:
        return []
    subject.limit_to({}, limits.ties)
    return [f"fails for {limits.words}, with {limits.says}: not tried"]


def _taken_alone(subject: AdapterSubject, device: str) -> list[str]:
    """What holds of all calls that a plain function takes, in words; no other case is drawn from now on."""
    if not subject.interface.refusing:
        return []
    lay_out(subject, subject.mechanism, subject.claims.dtypes[0], device)  # at the sizes that it takes
    says = _required(subject, [*taken_alone(subject, device, as_documented(subject.adapter, subject.mechanism))])
    if says:
        subject.laid_out = subject.observed_layout  # which calls beyond them may have hidden
        says += _one_width(subject, device)  # and so may a width
    return says


def _taken_as_copies(subject: AdapterSubject, device: str) -> list[str]:
    """That a plain function fails on arrays that are not contiguous, in words; where it does, it is passed copies."""
    says = taken_as_copies(subject, device)
    subject.copies = bool(says)
    return [f"fails where arrays are not contiguous, with {says}: tried on contiguous copies"] if says else []


def taken_beside(subject: AdapterSubject, device: str) -> tuple[str, ...]:
    """What other calls of a function take alone as to grouped heads, in words; no other case is drawn from now on."""
    found = [*ungrouped(subject, device)] if subject.interface.refusing else []
    return tuple(f"as {subject.operator} it {text}" for text in _required(subject, found))


def differentiated(subject: Subject, device: str, known: Library) -> tuple[GradientSubject | None, tuple[str, ...]]:
    """The gradients of a subject as a further one, or what is to be said where it has none, or has some alone."""
    found, says = _differentiated(subject, device, known)
    if found is None or not found.forward.interface.refusing:
        return found, says
    own = _required(found, [*ungrouped(found, device)]) + ([] if found.copies else _taken_as_copies(found, device))
    return found, (*says, *(f"its backward pass {text}" for text in own))


def _differentiated(subject: Subject, device: str, known: Library) -> tuple[GradientSubject | None, tuple[str, ...]]:
    """The same, with whatever sizes a backward pass takes."""
    if not isinstance(subject, AdapterSubject) or not may_have_gradients(subject):
        return None, ()
    mechanism = gradient_of(subject, known)
    if mechanism is None:
        written = writes(subject) and f"{subject.operator}_gradient" in known.stating
        return None, ("its gradients are not checked: it writes to its inputs",) if written else ()
    try:
        found = GradientSubject(subject, mechanism)
    except Error as error:
        return None, (f"its gradients are not checked: {error}",)
    if subject.adapter.differentiable:
        return _by_further_outputs(found, device)
    for call in first_calls(found, device):
        with found.session():
            reply = found.call(call)
        if is_deadly(reply) and ends_processes(subject, device):
            return None, ("its gradients are not checked: its first calls end their process",)
        fault = reply.fault
        if fault is not None and fault.says.startswith(UNDIFFERENTIABLE):
            return None, (f"its gradients are not checked: {fault.says}",)
        if fault is None or fault.kind != "unsupported":
            return _by_further_outputs(found, device)
    return None, ()


def _by_further_outputs(found: GradientSubject, device: str) -> tuple[GradientSubject, tuple[str, ...]]:
    """The gradients of a function, by all of its outputs that can have one, and what there is to say of the others."""
    kept, notes = list[str](), list[str]()
    for name in further_outputs(found.forward, found.mechanism):
        if name in _outputs(found.forward, device):
            says = _unfit(GradientSubject(found.forward, found.mechanism, [name]), name, device)
            kept += [name] * (not says)
            notes += [f"its gradients by its {name} are not checked: {says}"] * bool(says)
    return GradientSubject(found.forward, found.mechanism, kept) if kept else found, tuple(notes)


def _outputs(subject: AdapterSubject, device: str) -> set[str]:
    """The outputs of a first call, in the layout that a function reads."""
    lay_out(subject, subject.mechanism, subject.claims.dtypes[0], device)
    for call in first_calls(subject, device):
        with subject.session():
            reply = subject.call(call)
        if reply.fault is None:
            return {*reply.outputs}
    return set()


def _unfit(gradients: GradientSubject, output: str, device: str) -> str:
    """Why gradients by an output after the first cannot be judged; nothing where they can.

    A function may mean to have none by it. Torch says so; in JAX and MLX, they are zero then.
    """
    subject, cotangent = gradients.forward, f"d_{output}"
    found = identified(subject, subject.mechanism, subject.claims.dtypes[0], device)
    if (base := found.get(f"{output}_base")) is not None and base.word != "natural":
        return "it is a logarithm to another base"
    stating = next(m for m in gradients.mechanism.kin if cotangent in m.inputs)
    for call in first_calls(gradients, device, stating):
        alone = replace(call, inputs={**call.inputs, COTANGENT: 0 * call.inputs[COTANGENT]})
        with gradients.session():
            reply = gradients.call(alone)
        if reply.fault is not None and reply.fault.says.startswith(UNDIFFERENTIABLE):
            return reply.fault.says
        none = reply.outputs and not any(x.any() for x in reply.outputs.values())
        if none and subject.adapter.framework != "torch":
            return "no gradient passes through it"
    return ""


def find_framework(subject: AdapterSubject, device: str) -> str:
    """The framework of a function that does not show it, where calls have found one; the subject is called with it."""
    perhaps = [name for name in subject.adapter.perhaps if subject.own or is_installed(name)]
    if not perhaps:
        return ""
    calls, first, deadly = [*first_calls(subject, device)], subject.adapter.framework, True
    for name in perhaps:
        subject.hand(name)
        for call in calls:
            with subject.session():
                reply = subject.call(call)
            if _is_answer(reply):
                return name
            deadly = deadly and is_deadly(reply)
            if reply.fault is not None and reply.fault.kind == "hung":  # as it would again, after the same time
                break
    if not deadly:  # what ends its process with all of them is left with the last, whose processes begin fastest
        subject.hand(first)
    return ""


def _is_answer(reply: Reply) -> bool:
    """Whether a call gave arrays of the framework, in the dtype that was asked for."""
    return reply.fault is None and not any(breach.contract == "dtype" for breach in reply.breaches)
