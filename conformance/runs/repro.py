"""A stored failure as a one-file program: the calls of its law, and the expected results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.samples import Case, Sample
from ..data.texts import safe
from ..diagnosis.history import prepared
from ..diagnosis.stored import runnable
from ..errors import Error, UsageError
from ..execution.addresses import EXEC
from ..execution.backward import cotangents_in
from ..execution.calling import Call, Interface
from ..execution.inputs import has_arrays
from ..judging.bench import Bench
from ..judging.cells import Failure, law_of, sentence_of
from ..judging.judge import judged
from ..judging.settling import Settled
from ..judging.trial import Faulted, Tracing, Trial
from ..judging.verdicts import wrong_call
from ..mechanisms.assembled import in_numpy
from ..numerics.codes import CODES
from ..numerics.formats import KINDS, half_unit
from ..numerics.grades import result_format
from ..reporting.dialects import DIALECTS
from ..reporting.findings import marks, named, prose
from ..reporting.literals import Input
from ..reporting.repro import Asked, Differentiated, Output, Program
from ..reporting.results import environment
from ..subjects.registered import FAULT
from ..subjects.subject import AdapterSubject
from .opening import Kept, Opened, again
from .under_test import code_of

MANY = 6
"""Calls of a law up to which all of them are written."""
WRITTEN = ("shape", "dtype", "inputs_unchanged", "repeatable", "precision")
"""The contracts that a program can ask for by itself."""
DTYPES = ("float64", "float32", "float16", "bfloat16")
"""Those whose arrays can be written down."""


def program_of(kept: Kept, *, beside: Path) -> Program:
    """The program of a kept failure, for a file that lies `beside` others in a folder.

    The call is made once more for it. What cannot be written down without attnspec is a `UsageError` with its reason.
    """
    opened = Opened(kept, _admit_kind)
    witness, mechanism, bench, law = opened.witness, opened.mechanism, opened.bench, opened.law
    subject = bench.subject
    assert isinstance(subject, AdapterSubject)
    if witness["target"].startswith(EXEC):
        raise UsageError(
            f"a call of a program cannot be written as a Python file; 'attnspec replay {witness['key']}' makes it"
        )
    if subject.adapter.framework not in DIALECTS:
        raise UsageError(
            f"arrays of {subject.adapter.framework} cannot be written as a program; those of {', '.join(DIALECTS)} can"
        )
    if bench.dtype not in DTYPES:
        raise UsageError(
            f"calls in {bench.dtype} cannot be written as a program; 'attnspec replay {witness['key']}' makes them"
        )
    earlier = opened.earlier if witness.get("retraced") else ()
    with subject.session(), runnable(kept.name):
        failure, verdict, _ = again(bench, opened.sample(), law, earlier)
        if failure is None:
            raise UsageError(
                f"{mechanism.address(law)} does not fail on this case now ({verdict}): nothing to reproduce"
            )
        if earlier:
            prepared(bench, earlier)
        calls = [*_before(bench, earlier), *_asked(bench, failure)]
    function, imports, code = code_of(subject, witness["target"], bench.device, beside)
    packages = [subject.adapter.package] if subject.adapter.package else []
    header = environment("", {}, packages)
    versions = {
        "Python": header["python"],
        **header["packages"],
        "attnspec": header["attnspec"],
        "system": header["platform"],
    }
    found = next(
        (
            named(m.finding)
            for m in marks(subject.name, mechanism, bench.dtype, device=bench.device)
            if m.finding == failure.finding
        ),
        None,
    )
    stated = law_of(mechanism, law)
    return Program(
        key=witness["key"],
        subject=subject.name,
        function=function,
        code=code,
        imports=imports,
        framework=subject.adapter.framework,
        device=bench.device,
        law=mechanism.address(law),
        sentence=sentence_of(mechanism, law),
        formula=stated.holds.text if stated and law != "definition" else "",
        place=witness["place"],
        words={word: bench.words[word] for word in mechanism.declared(subject.claims.conventions)},
        precision=subject.claims.grade(bench.dtype).name,
        happens=_happens(witness, failure),
        versions=versions,
        calls=calls,
        output=subject.interface.outputs[0],
        documented=[*prose(found)] if found is not None else (),
    )


def _admit_kind(witness: Mapping[str, Any]) -> None:
    """Refuse what is no implementation, and what no program can ask for by itself."""
    law, target = witness["law"], witness["target"]
    if target == "reference" or target.startswith(("mistake:", FAULT, "control")):
        raise UsageError(f"{safe(target)} is not an implementation: it is part of attnspec")
    if witness.get("alone"):
        raise UsageError("the function is in no file, so a program cannot import it; put it into a file")
    if witness.get("large"):
        says = "its arrays are too large for a program"
        raise UsageError(f"{says}; 'attnspec replay {witness['key']}' makes the call")
    count = len(witness["before"])
    if witness["dependent"] and not (witness.get("retraced") and count <= MANY):
        raise UsageError(f"it fails only after {count} earlier calls; 'attnspec replay {witness['key']}' makes them")
    kind, _, contract = law.partition(".")
    if kind == "convention" or (kind == "contract" and contract not in WRITTEN):
        raise UsageError(f"{law} concerns many calls, or a process; 'attnspec replay {witness['key']}' asks it again")


# Calls


def _before(bench: Bench, cases: Iterable[Case]) -> Iterator[Asked]:
    """The calls that have to be made first, of which nothing is expected."""
    for case in cases:
        trial = Trial(bench, Sample(bench.mechanism, case, bench.dtype, claims=bench.subject.claims))
        yield _call(bench, trial.call(trial.base))


def _asked(bench: Bench, failure: Failure) -> Iterator[Asked]:
    """The calls of a law, those that are off at least, each with what is expected of it."""
    m, name = bench.mechanism, failure.law
    trial = Tracing(bench, failure.sample)
    if name in m.rejects:
        call = wrong_call(trial, m.rejects[name])
        assert isinstance(call, Call)
        yield replace(_call(bench, call), refused=True)
        return
    contract = name.removeprefix("contract.") if name.startswith("contract.") else ""
    if contract in ("dtype", "inputs_unchanged", "repeatable"):
        yield _of_contract(bench, trial, contract, failure.outcome.says)
        return
    law = law_of(m, name)
    if law is not None:
        judged(trial, law, [bench.subject.claims.grade(bench.dtype)])
    settled = {trial.base.key: trial.base, **trial.asked}
    found = {key: _expecting(bench, trial, each) for key, each in settled.items()}
    off = [key for key, (_, wrong) in found.items() if wrong]
    if not off:
        says = "every single call is right, and only their relation is wrong"
        raise UsageError(f"{m.address(name)}: {says}; 'attnspec replay' asks it again")
    for key, (call, _) in found.items():
        if len(found) <= MANY or key in off:
            yield call


def _of_contract(bench: Bench, trial: Tracing, contract: str, says: str) -> Asked:
    """The call that breaks a contract."""
    asked = trial.call(trial.base)
    call = _call(bench, asked)
    if contract == "inputs_unchanged":
        return replace(call, unchanged=True)
    if contract == "repeatable":
        return replace(call, repeated=True)
    interface = _interface(bench)
    output = next(iter(re.findall(r"output '(\w+)'", says)), interface.outputs[0])
    expected = asked.dtypes.get(output) or interface.dtype_of(output, bench.dtype)
    empty = np.zeros(0)
    return replace(call, outputs=[Output(output, interface.outputs.index(output), empty, empty, expected)])


def _expecting(bench: Bench, trial: Tracing, settled: Settled) -> tuple[Asked, bool]:
    """A call with what the definition says of its outputs, and whether it is off."""
    asked = trial.call(settled)
    call = _call(bench, asked)
    try:
        returned = trial.reply(settled).outputs
    except (Faulted, Error):
        returned, wrong = {}, True
    else:
        wrong = False
    m = bench.mechanism
    judged = dict[str, tuple[NDArray[Any], NDArray[np.float64]]]()
    for place, name in enumerate(m.outputs):
        if (name not in returned and (returned or place)) or name in m.random or name in m.normal_form:
            continue
        judged[name] = expected, bound = _bounded(bench, trial, name, settled)
        wrong = wrong or (name in returned and _is_off(returned[name], expected, bound))
    form, known = _subject(bench).form, _interface(bench).outputs
    expected, bounds = (form.returned({name: pair[at] for name, pair in judged.items()}) for at in (0, 1))
    lines = {name: in_numpy(made.text) for name, made in form.assembling.items()}
    outputs = [
        Output(name, known.index(name) if name in known else -1, x, bounds[name], assembled=lines.get(name, ""))
        for name, x in expected.items()
    ]
    return replace(call, outputs=outputs, known=form.known_of(asked) if lines else {}), wrong


def _bounded(bench: Bench, trial: Tracing, name: str, settled: Settled) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """An output as the definition has it, and the bound of each entry; NaN where one may be anything."""
    grade, dtype = bench.subject.claims.grade(bench.dtype), bench.mechanism.dtype_of(name, bench.dtype)
    expected = np.asarray(trial.frames.exact(name, settled))
    value, likely, _ = trial.frames.bound(name, settled, grade)
    radius = np.broadcast_to(np.asarray(likely, np.float64), expected.shape)
    if dtype in CODES:
        return expected, np.where(np.isfinite(radius), radius, np.nan)
    if expected.dtype.kind == "f" and dtype not in KINDS:
        reach = np.abs(np.where(np.isfinite(value), value, 0.0)) + np.where(np.isfinite(radius), radius, 0.0)
        radius = radius + 1.01 * half_unit(reach, result_format(dtype, grade))
        return expected, np.where(np.isfinite(radius), radius, np.nan)
    return expected, np.where(radius > 0, np.nan, 0.0)


def _is_off(got: NDArray[Any], expected: NDArray[Any], bound: NDArray[np.float64]) -> bool:
    if got.shape != expected.shape:
        return True
    x, y = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        right = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound) | np.isnan(bound)
    return not bool(right.all())


def _call(bench: Bench, call: Call) -> Asked:
    """A call as it is written: as the function itself takes it, and arrays in the order in which they are passed."""
    subject, interface = _subject(bench), _interface(bench)
    made = subject.form.arranged(call)
    if strange := _unwritten(made):
        raise UsageError(f"{strange} cannot be written in a program; 'attnspec replay' makes the call")
    first = [name for name in interface.required if name not in interface.by_name]
    inputs = {
        name: Input(
            name,
            x,
            _dtype(x, made.dtypes.get(name) or interface.dtype_of(name, made.dtype)),
            "contiguous" if name in interface.into and made.layout == "expanded" else _layout(made.layout, at),
            name not in first,
        )
        for at, (name, x) in enumerate(made.inputs.items())
    }
    named = [x for x in inputs.values() if x.by_name]
    into = {name: output for name, output in interface.into.items() if output and name in inputs}
    backward = _differentiated(subject.interface, inputs)
    arrays = [*(inputs[name] for name in first), *named]
    return Asked(arrays, made.options, interface.objects, interface.typed, into, interface.outputs, backward)


def _unwritten(call: Call) -> str:
    """What of a call no literal stands for, in words; nothing where all of it can be written."""
    if any(x.dtype.kind == "c" for x in call.inputs.values()):
        return "complex arrays"
    return "arrays in an object or a tuple" if any(map(has_arrays, call.options.values())) else ""


def _differentiated(interface: Interface, inputs: Iterable[str]) -> Differentiated | None:
    """How the gradients of a call are asked for, if it is one of a gradient operator that the function is not of."""
    if interface.backward is None:
        return None
    known = interface.backward.leaves or {name: f"d_{name}" for name in inputs}
    leaves = {name: known[name] for name in inputs if known.get(name) in interface.outputs}
    passed = [name for name in interface.backward.required if name not in interface.backward.by_name]
    asked = cotangents_in([*inputs], interface.backward.results)
    results = {name: (interface.backward.results[at] if at else "out", at) for name, at in asked.items()}
    return Differentiated(results, passed, leaves, interface.backward.zeros)


def _subject(bench: Bench) -> AdapterSubject:
    assert isinstance(bench.subject, AdapterSubject)
    return bench.subject


def _interface(bench: Bench) -> Interface:
    """What is known of the function that is called."""
    return _subject(bench).interface


def _dtype(x: NDArray[Any], dtype: str) -> str:
    """The dtype in which an array is passed."""
    return dtype if x.dtype.kind == "f" else str(x.dtype)


def _layout(layout: str, at: int) -> str:
    """The layout of the input at a place, where they differ."""
    turns = {
        "mixed": ("contiguous", "transposed", "strided", "transposed"),
        "lone": ("contiguous",) * 2 + ("transposed",),
    }
    return turns[layout][at % len(turns[layout])] if layout in turns else layout


def _happens(witness: Mapping[str, Any], failure: Failure) -> str:
    """What is seen, in a sentence."""
    outcome, says = witness["outcome"], failure.outcome.says
    if outcome is None or failure.outcome.fault is not None:
        return f"{says or witness['reason']}."
    where = f" at {outcome['where']}" if outcome["where"] else ""
    share = f"; {outcome['spoiled']} of {outcome['entries']} entries are off" if outcome["entries"] > 1 else ""
    got = f"Got {_shown(outcome['found'])}{where} where {_shown(outcome['expected'])} is expected{share}."
    return f"{says[0].upper()}{says[1:]}. {got}" if says else got


def _shown(x: Any) -> str:
    return f"{x:.6g}" if isinstance(x, int | float) else str(x)
