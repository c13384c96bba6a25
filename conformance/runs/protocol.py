"""Whether a program follows the protocol of docs/protocol.md, whatever its kernels compute."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import Error
from ..execution.addresses import parted
from ..execution.calling import Call
from ..execution.exchange import Exchange, MisfitError, folder
from ..execution.offers import Offered, adapters_of, wrong
from ..execution.programs import VERSION, AnswerError, EndedError, Program, Served
from ..execution.supervisor import Supervisor
from ..frameworks.numpy import NumpyFramework
from ..judging.smallest import first_calls
from ..subjects.subject import AdapterSubject
from ..subjects.targets import subject

LEAVING = 2.0
"""Seconds in which a program is to end once nobody asks any more."""
QUIET = 0.1
"""Seconds after its last answer in which nothing may come."""
OTHER = "int16"
"""A dtype under test that no function has."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found of one clause of the protocol; `wrong` is empty where it is kept."""

    clause: str
    says: str
    wrong: str = ""


class _BrokenError(Exception):
    """A clause is broken; the text says how."""


class _Asking:
    """The program that is asked, which is begun anew where it has ended."""

    def __init__(self, served: Served, seconds: float) -> None:
        self.served, self.seconds = served, seconds
        self.exchange = Exchange(served.arrays, strides=True)
        self._program: Program | None = None

    def begin(self) -> Program:
        """The program, which is begun if it is not there; a `TargetError` where it cannot be run."""
        self._program = self._program or Program(self.served.command, self.served.folder)
        return self._program

    def ask(self, what: str, **parts: Any) -> dict[str, Any]:
        """The answer to a question; what keeps one from coming breaks the clause."""
        try:
            return self.begin().ask(what, self.seconds, **parts)
        except (AnswerError, EndedError, TimeoutError) as error:
            self.end()
            raise _BrokenError(str(error)) from None

    def said(self, line: str) -> dict[str, Any]:
        """What is answered to a line that is no question."""
        try:
            self.begin().write(line)
            return self.begin().answer(self.seconds)
        except (AnswerError, EndedError, TimeoutError) as error:
            self.end()
            raise _BrokenError(str(error)) from None

    def call(self, name: str, one: Case, **others: Any) -> dict[str, Any]:
        """The answer to a call on arrays."""
        parts = {
            "function": name,
            "dtype": one.dtype,
            "device": "cpu",
            "inputs": self.exchange.write(one.inputs),
            "options": dict(one.options),
            "arrays": str(self.exchange.given),
            "results": str(self.exchange.results),
        }
        return self.ask("call", **{**parts, **others})

    def end(self) -> None:
        if self._program is not None:
            self._program.end()
        self._program = None


@dataclass(frozen=True, slots=True)
class Case:
    """A call as it is put to a program: arrays of their dtypes, and options."""

    inputs: Mapping[str, NDArray[Any]]
    options: Mapping[str, Any]
    dtype: str


def kept(target: str, device: str, seconds: float, supervisor: Supervisor) -> Iterator[Outcome]:
    """Each clause of the protocol, and whether the program of a target keeps it.

    Raises `TargetError` where there is no program, and ends early where it does not say what it has.
    """
    command, name = parted(target)
    served = Served(command, str(Path.cwd()), folder())
    asking = _Asking(served, seconds)
    try:
        asking.begin()
        answered = _outcome("capabilities", "It says what it has, in the form of the protocol.", lambda: _has(asking))
        yield answered
        if answered.wrong:
            return
        found: list[AdapterSubject] = []
        yield _outcome(
            "functions",
            "What it has is known here: operators, dtypes, options, conventions.",
            lambda: found.extend(_known(asking, name, supervisor)),
        )
        for one in found:
            yield from _of_function(asking, one, device)
        yield from _of_questions(asking)
        yield _outcome("leaving", "It ends with status 0 at the end of its input.", lambda: _leaves(asking))
    finally:
        asking.end()
        shutil.rmtree(served.arrays, ignore_errors=True)


def _outcome(clause: str, says: str, look: Callable[[], Any]) -> Outcome:
    try:
        look()
    except (_BrokenError, MisfitError, Error) as error:
        return Outcome(clause, says, str(error))
    return Outcome(clause, says)


def _has(asking: _Asking) -> None:
    answer = asking.ask("capabilities", protocol=VERSION)
    if says := wrong(answer, "Capabilities"):
        raise _BrokenError(says)


def _known(asking: _Asking, name: str, supervisor: Supervisor) -> list[AdapterSubject]:
    answer = asking.ask("capabilities", protocol=VERSION)
    return [subject(found, supervisor=supervisor) for found in adapters_of(answer, asking.served, name)]


def _of_function(asking: _Asking, one: AdapterSubject, device: str) -> Iterator[Outcome]:
    name = one.adapter.name
    case = next((_case(one, call) for call in first_calls(one, device)), None)
    if case is None:
        yield Outcome(f"{name}: call", "It answers a small call.", "no call is within what it takes")
        return
    shapes: dict[str, tuple[int, ...]] = {}

    def answered(asked: Case, **others: Any) -> None:
        answer = asking.call(name, asked, **others)
        if says := wrong(answer, "Outputs"):
            told = answer["error"].get("says") if isinstance(answer.get("error"), dict) else ""
            raise _BrokenError(f"answered an error: {told}" if told else says)
        found = {each: x.shape for each, x in asking.exchange.read(answer["outputs"]).items()}
        if shapes and found != shapes:
            raise _BrokenError(f"answered {found}, and {shapes} before")
        shapes.update(found)

    def unchanged() -> None:
        written = {each: x.tobytes() for each, x in case.inputs.items()}
        answered(case)
        asking.exchange.take_back()
        for each, x in case.inputs.items():
            if x.tobytes() != written[each]:
                raise _BrokenError(f"wrote to the input {each!r} in the file of arrays")

    yield _outcome(f"{name}: call", "It answers a small call, with outputs in their file.", lambda: answered(case))
    if not shapes:
        return
    yield _outcome(f"{name}: again", "It answers the same call again.", lambda: answered(case))
    yield _outcome(f"{name}: later", "It passes over keys that it does not know.", lambda: answered(case, later=1))
    yield _outcome(f"{name}: inputs", "It leaves the file of inputs as it is.", unchanged)
    if isinstance(one.adapter.function, Offered) and one.adapter.function.served.strides:
        strided = replace(case, inputs={each: _strided(x) for each, x in case.inputs.items()})
        yield _outcome(f"{name}: strides", "It reads inputs of other strides.", lambda: answered(strided))
    other = replace(case, inputs={each: x.astype(OTHER) for each, x in case.inputs.items()}, dtype=OTHER)
    yield _outcome(
        f"{name}: dtype",
        "It answers an error of the kind unsupported to a dtype that it does not take.",
        lambda: _error(asking.call(name, other), "unsupported", "failed"),
    )


def _of_questions(asking: _Asking) -> Iterator[Outcome]:
    says = "It answers an error of the kind question to"
    yield _outcome("question", f"{says} a question that it does not know.", lambda: _error(asking.ask("unknown")))
    yield _outcome(
        "function",
        f"{says} a call of a function that it does not have.",
        lambda: _error(asking.call("no such function", Case({}, {}, "float32"))),
    )
    yield _outcome("line", f"{says} a line that is no question.", lambda: _error(asking.said("this is no question")))
    yield _outcome("after", "It goes on after that.", lambda: _has(asking))
    yield _outcome("quiet", "It writes nothing but answers to its standard output.", lambda: _quiet(asking))


def _error(answer: Mapping[str, Any], *kinds: str) -> None:
    if says := wrong(answer, "Error"):
        raise _BrokenError("answered outputs" if "outputs" in answer else says)
    kind = answer["error"]["kind"]
    if kind not in (kinds or ("question",)):
        raise _BrokenError(f"answered an error of the kind {kind}")


def _quiet(asking: _Asking) -> None:
    if asking.begin().waiting(QUIET):
        _has(asking)


def _leaves(asking: _Asking) -> None:
    status = asking.begin().leave(LEAVING)
    if status is None:
        raise _BrokenError(f"goes on for {LEAVING:g} s after that")
    if status:
        raise _BrokenError(f"ended with status {status}")


def _case(one: AdapterSubject, call: Call) -> Case:
    """A call of an operator as its function takes it."""
    made, framework = one.form.arranged(call), NumpyFramework()
    inputs = {
        name: framework.make(
            x, made.dtypes.get(name) or one.interface.dtype_of(name, made.dtype), "cpu", "contiguous", 0
        )
        for name, x in made.inputs.items()
    }
    return Case(inputs, made.options, made.dtype)


def _strided(x: NDArray[Any]) -> NDArray[Any]:
    """The same entries with gaps between them."""
    return x.repeat(2, -1)[..., ::2] if x.ndim else x
