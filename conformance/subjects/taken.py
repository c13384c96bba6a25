"""A known interface as one function has it, and that function in the words of its operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import TargetError, did_you_mean
from ..execution.messages import Elsewhere
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.signatures import Passed, Signature
from .passing import compiled, used_by
from .renaming import own_names


@dataclass(frozen=True, slots=True)
class Taken:
    """A known interface as one function has it."""

    signature: Signature
    passed: Mapping[str, Passed]
    """The parameters of the function that are passed something, in their order."""
    leading: tuple[str, ...]
    """Those that are passed by position: arrays that every call has."""
    arrays: Mapping[str, str]
    """Those that are an array of the layout, each with that array."""
    unknown: tuple[str, ...]
    """Those that the interface has not."""
    wanting: frozenset[str]
    """Those that have no default."""

    @property
    def left(self) -> tuple[str, ...]:
        """Those that stay at their default, as the interface says."""
        return tuple(name for name, passed in self.passed.items() if passed.how == "left")


def taking(function: Callable[..., Any], signature: Signature, mechanism: Mechanism, label: str) -> Taken:
    """A function as one of a known interface; a `TargetError` where it lacks what every call passes.

    Where it calls the first arrays otherwise, they are told by their places, and others by names that mean the same.
    """
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind not in _ANY]
    arrays = signature.arrays_in(mechanism)
    own = own_names(parameters, signature, arrays)
    passed = {name: signature.parameters[other] for name, other in own.items() if other in signature.parameters}
    needed = layout_parts(signature, mechanism)
    lacking = [name for name in needed if name not in own.values()]
    wanting = {p.name for p in parameters if p.default is p.empty}
    if lacking:
        raise TargetError(
            f"{label}{signature.words} has the parameter {lacking[0]!r}, which the function does not have"
        )
    unknown = [p.name for p in parameters if p.name not in passed]
    strange = [name for name in unknown if name in wanting]
    if strange:
        hint = did_you_mean(strange[0], signature.parameters)
        says = f"{label}the parameter {strange[0]!r} is none of {signature.words}{hint}"
        raise TargetError(f"{says}; {in_a_line(mechanism, strange[0])}")
    leading = []
    for p in parameters:
        if own[p.name] not in needed or p.kind is p.KEYWORD_ONLY:
            break
        leading.append(p.name)
    mapped = {name: arrays[other] for name, other in own.items() if other in arrays}
    return Taken(signature, passed, tuple(leading), mapped, tuple(unknown), frozenset(wanting))


_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def in_a_line(mechanism: Mechanism, parameter: str) -> str:
    """How one says what a parameter is passed."""
    return f"say what to pass, as in --like '{mechanism.operator}({parameter}=EXPRESSION)', or wrap the function"


def layout_parts(signature: Signature, mechanism: Mechanism) -> list[str]:
    """The parameters of an interface that are arrays of every call."""
    always = {*mechanism.required, *signature.layout_in(mechanism).stacks}
    return [name for name, array in signature.arrays_in(mechanism).items() if array in always]


def as_operator(taken: Taken, mechanism: Mechanism, name: str, module: str) -> Elsewhere:
    """In place of a function: what it takes in the words of its operator.

    A dtype of codes is seen, and not passed: it is taken where the interface says which ones there may be. So is an
    option without a default that follows from others.
    """
    typing = {each for m in mechanism.kin for each in m.typing}
    uses = {"none"}
    seen = typing | ({*mechanism.options} - {*mechanism.defaults})
    for text in taken.signature.requires:
        uses |= compiled(mechanism, text).uses & seen
    for parameter, passed in taken.passed.items():
        if parameter in taken.arrays:
            uses.add(taken.arrays[parameter])
        else:
            own = used_by(passed, mechanism)
            uses |= own - mechanism.absent | ({passed.asks} & mechanism.absent)
    uses |= _everywhere(taken, mechanism)
    kinds = inspect.Parameter
    by_position = [kinds(each, kinds.POSITIONAL_OR_KEYWORD) for each in mechanism.required]
    further = [each for each in (*mechanism.optional, *mechanism.options) if each in uses]
    defaults = {each: mechanism.defaults.get(each, kinds.empty) for each in further}
    defaults |= dict.fromkeys(sorted(mechanism.absent & uses))
    by_name = [kinds(each, kinds.KEYWORD_ONLY, default=x) for each, x in defaults.items()]
    return Elsewhere(name, module, inspect.Signature([*by_position, *by_name]))


def _everywhere(taken: Taken, mechanism: Mechanism) -> set[str]:
    """What further mechanisms add of which a function has all parameters by which its interface is passed it."""
    one = taken.signature
    arrays, had = one.arrays_in(mechanism), [*taken.passed.values()]
    computed = [(passed in had, used_by(passed, mechanism)) for n, passed in one.parameters.items() if n not in arrays]
    used, lacking = ({x for has, own in computed if has is had for x in own} for had in (True, False))
    return (used - lacking) & mechanism.absent
