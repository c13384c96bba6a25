"""The operator of a plain function, found from its name, or the known interface that it fits."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from attnspec.adapters import Adapter

from ..errors import TargetError, UsageError, label_of
from ..mechanisms.layouts import stacks_of
from ..mechanisms.library import Library
from ..mechanisms.loader import library
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.parameters import called_so, described, namesakes, readings
from ..mechanisms.signatures import Signature, fitting, signature_named, signatures
from .aliases import known_as
from .function_names import ACTIVATIONS, check_name, filter_of, said_by, words_of
from .hints import hints, source_of, without_doubt
from .passing import used_by
from .places import misplaced
from .readings import begun, is_spelt, line_of
from .renaming import is_told, own_names, stack_called
from .renaming import like as alike
from .taken import in_a_line, layout_parts


@dataclass(frozen=True, slots=True)
class Asked:
    """What is said of functions that do not say it by themselves."""

    operator: str | None = None
    framework: str | None = None
    layout: str = ""
    like: str = ""


def completed(adapter: Adapter, asked: Asked, known: Library | None) -> Adapter:
    """A plain function with the operator, the framework and the known interface that are asked for, or guessed."""
    known = known or library()
    like = asked.like or adapter.like
    one = signature_named(like) if like else _interface(adapter, asked.operator, known)
    named = asked.operator or (one.operator if one else _operator_of(adapter, known))
    if not (asked.operator or like or (one and one.is_called(adapter.name))):
        check_name(adapter.name, known[named], _needed(adapter))
    like, plain = one.name if one else "", named in known.stating and _by_name(adapter)
    guessed = plain and not (asked.like or adapter.like)
    if plain and not like:
        like = line_of(adapter, known[named], begun(adapter, known[named]))
    if guessed and one is None:
        _check_places(adapter, known[named], like)
    given = {"framework": asked.framework, "perhaps": ()} if asked.framework else {}
    return replace(adapter, operator=named, like=like, guessed=guessed, **given)


def _check_places(adapter: Adapter, operator: Mechanism, like: str) -> None:
    """Raise `TargetError` for a parameter at the place of an input that is none, as its name or annotation says."""
    if otherwise := misplaced(adapter.function, operator, like):
        name, place, says = otherwise
        text = f"the parameter {name!r} is at the place of {place}, and {says}; {in_a_line(operator, name)}"
        raise TargetError(f"{label_of(adapter.name, adapter.place)}: {text}")


def as_made(adapter: Adapter, mechanism: Mechanism) -> tuple[str, ...]:
    """How many axes arrays of rows have, where `get_inputs` of the file makes as many as the definition has."""
    first = next(iter(mechanism.required), "")
    source = source_of(adapter) if len(mechanism.shapes.get(first, ())) == ROWS else None
    return (f"ndim({first}) == {ROWS}",) if source is not None and source.axes[:1] == [ROWS] else ()


def as_documented(adapter: Adapter, mechanism: Mechanism) -> tuple[str, ...]:
    """That there are as many queries as keys, where a function gives both one shape in words; and one item alone."""
    source = source_of(adapter)
    first = source.parameters[:2] if source is not None else []
    if source is None or len(first) < 2:
        return ()
    found = ("batch == 1",) if "batch" in mechanism.sizes and source.shapes.get(first[0], [])[:1] == ["1"] else ()
    both = {"q_len", "k_len"} <= {*mechanism.sizes} and "q" in mechanism.required and source.alike(*first)
    return (*found, "k_len == q_len") if both else found


def _operator_of(adapter: Adapter, known: Library) -> str:
    """The operator that the name of a plain function says, or the one whose inputs its parameters are called like."""
    with suppress(UsageError):
        named = _as_spelt(adapter, guess_operator(adapter.name, known, _needed(adapter)), known)
        if named == "sample" and _by_name(adapter) and not _takes(adapter, "seed"):
            named = filter_of(adapter.name) or named
        if named not in SPELT or is_spelt(adapter, known[named]):
            return named
    ours = [name for name in described() if name in known.stating] if len(_needed(adapter)) >= TELLING else []
    found = [name for name in ours if is_spelt(adapter, known[name])]
    if len(found) > 1:  # of a layer with a gate and one without, that which has all of its parameters
        found = [name for name in found if len(known[name].required) == len(_needed(adapter))]
    return found[0] if len(found) == 1 else _by_its_file(adapter, known)


def _by_its_file(adapter: Adapter, known: Library) -> str:
    """The operator of a function that only calls another one; a `UsageError` that tells what its file speaks of."""
    source = source_of(adapter)

    def says(text: str) -> str:
        return said_by(text, known)

    operator, arrays = without_doubt(source, says) if source is not None else ("", 0)
    if operator and arrays == len(known[operator].required) and len(_needed(adapter)) == arrays:
        return operator
    told = "add --operator NAME ('attnspec list operators')"
    asking = any(alike(name, ["q"]) for name in source.parameters) if source is not None else False
    spoken = hints(source, says) if source is not None else ()
    parts = {"softmax"} if asking else {"attention"} if words_of(adapter.name).endswith(MASKS) else set[str]()
    found = [each for each in spoken if each.operator not in parts][:HINTS]  # a step of attention, or what a step is of
    if found:
        told = " and ".join(f"{each.where} says {each.operator}" for each in found)
        told += f": add {' or '.join(f'--operator {each.operator}' for each in found)}"
    raise UsageError(f"the name {adapter.name!r} does not say which operator it is; {told}")


def _as_spelt(adapter: Adapter, named: str, known: Library) -> str:
    """The operator that the name of a function says, or another one of that name whose parameters it has."""
    others = [other for other in namesakes(named) if other in known.stating] if _by_name(adapter) else []
    source = source_of(adapter) if others else None
    counted = source.results if source is not None else 0
    returning = [other for other in others if counted and _returns(adapter, counted, known[other], known[named])]
    if returning:
        return returning[0]
    if not others or is_spelt(adapter, known[named]):
        return named
    spelt = [other for other in others if is_spelt(adapter, known[other])]
    needed, own = _needed(adapter), known[named].required
    spelt += [other for other in others if _adds(needed, known[other], known[named])]
    fewer = [other for other in others if _begins(known[other].required, own)]
    spelt += [other for other in fewer if _arrays_of(needed, known[other]) == len(known[other].required)]
    return (spelt or [named])[0]


def _begins(some: Sequence[str], own: Sequence[str]) -> bool:
    """Whether an operator has fewer inputs than another one, and the same first."""
    return len(some) < len(own) and some[:1] == own[:1]


def _arrays_of(needed: Collection[str], operator: Mechanism) -> int:
    """How many of the parameters that a function asks for are no options of an operator."""
    return sum(name not in operator.options for name in needed)


def _returns(adapter: Adapter, count: int, other: Mechanism, named: Mechanism) -> bool:
    """Whether as many results as a function returns are those of another operator of the same inputs alone.

    Of one that lacks some of these, its parameters have to be called so, too.
    """
    if count != len(other.outputs) or count == len(named.outputs):
        return False
    return {*other.required} == {*named.required} or (
        {*other.required} < {*named.required} and is_spelt(adapter, other)
    )


def _adds(needed: Collection[str], other: Mechanism, named: Mechanism) -> bool:
    """Whether a function asks for all inputs that another operator has beside those of the one that a name says."""
    further = {*other.required} - {*named.required, *named.takes}
    asked = {alike(each, other.required) or each for each in needed} | {*needed}
    return bool(further) and all({each, *called_so(other, [each])} & asked for each in further)


def _by_name(adapter: Adapter) -> bool:
    """Whether the parameters of a function show what they are."""
    try:
        parameters = inspect.signature(adapter.function).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(p.kind not in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY) for p in parameters)


def _needed(adapter: Adapter) -> list[str]:
    """The parameters of a function that have no default."""
    if not _by_name(adapter):
        return []
    parameters = inspect.signature(adapter.function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]


def _takes(adapter: Adapter, option: str) -> bool:
    """Whether a function has a parameter for an option, under any of its names."""
    return any(name == option or known_as(name, [option]) for name in inspect.signature(adapter.function).parameters)


def _interface(adapter: Adapter, operator: str | None, known: Library) -> Signature | None:
    """The known interface of a plain function; None for one that is called like its operator."""
    if not _by_name(adapter):
        return None
    parameters = inspect.signature(adapter.function).parameters.values()
    plain = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    names = {p.name: p.name for p in plain}
    alike = [one for one in signatures().values() if one.is_called(adapter.name) and one.serves(operator)]
    exact = [one for one in alike if adapter.name in one.names] or alike
    called = max(exact, key=lambda one: sum(p.name in one.parameters for p in plain), default=None)
    if called is not None:
        names = own_names(plain, called, called.arrays_in(known[called.operator]))
    needed, taken = [names[p.name] for p in plain if p.default is p.empty], {*names.values()}

    def whole(one: Signature) -> bool:
        activations = {name for name, text in one.fixed.items() if name in ACTIVATIONS and text == "true"}
        said = activations <= {*words_of(adapter.name).split("_")}  # as no parameter says them
        operator = known[one.operator]
        complete = one.is_called(adapter.name) or _gives(one, taken, operator)
        return said and complete and {*layout_parts(one, operator)} <= taken

    def beyond(one: Signature) -> set[str]:
        return one.beyond(known[one.operator])

    found = fitting(adapter.name, [*names.values()], needed, operator, whole, beyond)
    if found is not None and found is called and (found.writes or found.fixed):  # nothing but its name says that
        return found
    try:
        guessed = known[operator or guess_operator(adapter.name, known)]
    except (UsageError, KeyError):
        guessed = None
    said = operator or (guessed is not None and found is not None and guessed.operator == found.operator)
    if found is not None and not (said or _is_said(found, adapter.name) or _understood_by(found, names) >= FITTING):
        return None
    if found is not None and guessed is not None:
        if found is called and not {*names} & {*guessed.required}:
            return found  # which has their names
        own = adapter.name in found.names
        if found.operator != guessed.operator and not own and is_spelt(adapter, guessed):
            return None  # for its name and its parameters say another operator
    if guessed is None or found is None:
        return found
    better = found.operator == guessed.operator and _understood(guessed, names) > _understood_by(found, names) + 1
    return None if better or _like_its_operator([*names], guessed) else found


def _gives(interface: Signature, taken: Collection[str], operator: Mechanism) -> bool:
    """Whether some of the parameters of an interface give all inputs that are given by all of them."""
    every = {name: used_by(passed, operator) for name, passed in interface.parameters.items()}
    given = set[str]().union(*(names for name, names in every.items() if name in taken))
    return {*operator.required} & set[str]().union(*every.values()) <= given


def _is_said(interface: Signature, function: str) -> bool:
    """Whether the name of a function shares a word with those of a known interface."""
    words = {*words_of(function).split("_")} - {""}
    return any(words & {*words_of(name).split("_")} for name in interface.names)


def _understood(operator: Mechanism, names: Collection[str]) -> int:
    """How many of some parameters are inputs or options of an operator by their names, or of its readings."""
    known = {*operator.required, *operator.takes}
    read = {name for one in readings(operator) for several in one.parameters for name in several}
    return sum(name in known or name in read or bool(alike(name, known)) for name in names)


def _understood_by(interface: Signature, names: Mapping[str, str]) -> int:
    """How many of some parameters a known interface has, by what it calls them."""
    return sum(own in interface.parameters for own in names.values())


def _like_its_operator(names: Sequence[str], operator: Mechanism) -> bool:
    """Whether a function with these parameters is called as its operator is."""
    first, others = names[: len(operator.required)], {*names[len(operator.required) :]}
    stacks = stacks_of(operator.layouts)
    options = {name for name in first if name not in operator.required and (name in operator.takes or name in stacks)}
    return others <= operator.takes and not options


def guess_operator(name: str, known: Library | None = None, needed: Sequence[str] = ()) -> str:
    """The operator that the name of a function says, the longest if it says several; one that needs bounds is packed.

    Where it says none, it is attention for a function that needs queries, keys and values, and options of that.
    """
    known = known or library()
    words, operator = words_of(name), said_by(name, known)
    if operator == "attention" and words.endswith(MASKS) and needed and not _needs_attention(known, needed):
        operator = ""  # it makes a part of what attention is passed
    if operator == "attention_mask" and needed and _needs_attention(known, needed):
        operator = "attention"
    if operator:
        if operator == "multi_head" and needed and (_needs_attention(known, needed) or _has_no_weights(known, needed)):
            operator = "attention"
        passes = {*words.split("_")} & (BACKWARD | FORWARD)
        if passes and passes <= BACKWARD and not _is_forward(needed, operator, known):
            operator = f"{operator}_gradient" if f"{operator}_gradient" in known.stating else operator
        packed = any(each.lower() == "cu" or each.lower().startswith(BOUNDS) for each in needed)
        return f"packed_{operator}" if packed and f"packed_{operator}" in known.stating else operator
    if needed and "attention_gradient" in known.stating:
        gradient = known["attention_gradient"]
        own = [alike(each, gradient.required) or each for each in needed]
        if {*gradient.required} <= {*own}:
            return gradient.name
    if needed and _needs_attention(known, needed):
        return "attention"
    raise UsageError(
        f"the name {name!r} does not say which operator it is; add --operator NAME ('attnspec list operators')"
    )


def _is_forward(needed: Sequence[str], operator: str, known: Library) -> bool:
    """Whether a function asks for the inputs of an operator alone, and so for no gradient of an output."""
    own = known[operator].required
    return [alike(each, own) or each for each in needed] == [*own]


def _has_no_weights(known: Library, needed: Sequence[str]) -> bool:
    """Whether a function needs queries, keys and values first, and none of the weights that `multi_head` has."""
    if not {"attention", "multi_head"} <= {*known.stating}:
        return False
    arrays, layer = known["attention"].required, known["multi_head"]
    caches = known["paged_attention"].required[1:3] if "paged_attention" in known.stating else ()
    first = [alike(each, arrays) or alike(each, caches) or each for each in needed[:3]]
    return first in ([*arrays], [arrays[0], *caches]) and {*needed[3:]}.isdisjoint(called_so(layer, layer.required[2:]))


def _needs_attention(known: Library, needed: Sequence[str]) -> bool:
    """Whether the parameters of a function that have no default are those of attention."""
    if "attention" not in known.stating:
        return False
    attention = known["attention"]
    words = (*attention.required, *attention.takes)
    stacks = stacks_of(attention.layouts)
    whole = [stacks.get(stack_called(each, attention, needed), (each,)) for each in needed]
    own = [alike(each, words) or each for parts in whole for each in parts]
    further = {each for each in own[3:] if not is_told(each, attention, needed)}
    return (*own[:3],) == attention.required and further <= {*words}


NUMBERED = ("segment_ids", "q_segment_ids", "kv_segment_ids", "seg_ids", "q_seg_ids", "document_id", "doc_id")
"""How names begin that say which item a token is of."""
FITTING = 3
"""Parameters by which a known interface is found of which the name has no word; fewer may be those of anything."""
TELLING = 4
"""Parameters without a default whose names say an operator; fewer may be those of anything."""
BOUNDS = ("cu_seq", "cu_len", "cum_seq", "cu_q", "cu_k", "qo_indptr", "q_indptr", *NUMBERED)
"""How names begin that say where items begin and end."""
SPELT = ("attention_mask",)
"""Operators by whose names functions of all kinds of arrays go: it is told by the names of their parameters as well."""
MASKS = ("_attention_mask_", "_attention_bias_", *(f"_attention_mask_{axes}d_" for axes in (2, 3, 4)))
"""How the names of functions end that make a mask or a bias."""
ROWS = 2
"""Axes of an array of rows, of which a function may take more."""
HINTS = 2
"""Operators that are named of those that a file speaks of."""
BACKWARD, FORWARD = {"bwd", "backward", "backwards", "vjp"}, {"fwd", "forward"}
"""What functions of gradients are called, and those of both passes."""
