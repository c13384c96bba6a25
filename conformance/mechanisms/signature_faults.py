"""What is wrong with the files of known interfaces: what they name that there is not, and what does not go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import Place, SpecError, did_you_mean
from ..language.expressions import Expression
from .assembled import faults_in
from .layouts import faults as layout_faults
from .mechanism import Mechanism
from .schema import faults_beside, place_of
from .signatures import SCRATCH, Signature, read_signature, scope_of, scope_of_parameters, signatures


def faults(known: Mapping[str, Mechanism], folder: Path | None = None) -> Iterator[SpecError]:
    """What is wrong with the files of known interfaces, the shipped ones or those of a folder."""
    return faults_beside(
        "signatures", folder, lambda document, stem: _contradictions(document, read_signature(document), stem, known)
    )


def _contradictions(
    document: Mapping[Any, Any], one: Signature, stem: str, known: Mapping[str, Mechanism]
) -> Iterator[SpecError]:
    """What does not go together in a file, each with its place."""
    places = {str(key): place_of(key) for key in document}
    if one.name != stem:
        yield SpecError(f"signature: the file is called {stem!r}, and not {one.name!r}", places["signature"])
    if one.operator not in known or known[one.operator].operator != one.operator:
        hint = did_you_mean(one.operator, known)
        yield SpecError(f"operator: unknown operator {one.operator!r}{hint}", places["operator"])
        return
    m = known[one.operator]
    if one.beside and (one.beside not in signatures() or signatures()[one.beside].operator == one.operator):
        hint = did_you_mean(one.beside, signatures())
        yield SpecError(f"beside: no interface {one.beside!r} of another operator{hint}", places["beside"])
    if one.variant_of and one.variant_of not in signatures():
        hint = did_you_mean(one.variant_of, signatures())
        yield SpecError(f"variant_of: no interface {one.variant_of!r}{hint}", places["variant_of"])
    if one.layout and one.layout not in m.layouts:
        hint = did_you_mean(one.layout, m.layouts)
        yield SpecError(f"layout: {m.name} has no layout {one.layout!r}{hint}", places["layout"])
        return
    for layout, name, says in layout_faults({**m.layouts, "arrays": one.arrays}, {*m.inputs, *m.outputs}):
        if layout == "arrays":
            yield SpecError(f"arrays.{name}: {says}", places["arrays"])
    written = {text for passed in one.parameters.values() for text in passed.written} - {SCRATCH}
    for key, says in faults_in(one.outputs, m, one.returns, written):
        yield SpecError(says, places[key])
    if m.outputs[0] not in {*one.returns, *one.outputs}:
        yield SpecError(f"returns: {m.name} has the output {m.outputs[0]!r} first", places["returns"])
    for name, text in one.fixed.items():
        if name not in m.options:
            yield SpecError(f"fixed: {m.name} has no option {name!r}{did_you_mean(name, m.options)}", places["fixed"])
            continue
        try:
            Expression(text, scope_of(m, ()))
        except SpecError as error:
            yield SpecError(f"fixed.{name}: {error.message}", places["fixed"])
    yield from _unfollowed(one, m, places)
    yield from _misread(document["parameters"], one, m)  # type: ignore[index]


def _unfollowed(one: Signature, m: Mechanism, places: Mapping[str, Place | None]) -> Iterator[SpecError]:
    """Words of conventions that there are not."""
    known = [f"{name} = {word}" for name, words in m.conventions.items() for word in words]
    for own in (f"{name} = {word}" for name, word in one.follows.items()):
        if own not in known:
            hint = did_you_mean(own, known)
            yield SpecError(f"follows: {m.name} has no convention {own}{hint}", places["follows"])


def _misread(texts: Mapping[Any, Any], one: Signature, m: Mechanism) -> Iterator[SpecError]:
    """Parameters that are passed what there is not, and inputs that none is passed."""
    scope, stacks = scope_of_parameters(m), one.layout_in(m).stacks
    lacking = {*m.required}
    for name, text in texts.items():
        passed, place = one.parameters[str(name)], place_of(text) or place_of(name)
        if passed.how == "out" and passed.texts[0] not in (one.layout_in(m).own if m.layouts else m.outputs):
            yield SpecError(f"parameters.{name}: {passed.texts[0]!r} is no output of a layout", place)
        written = passed.texts[1:] if passed.how == "in_place" else ()
        for output in (each for each in written if each not in (*one.returns, SCRATCH)):
            yield SpecError(f"parameters.{name}: {output!r} is not returned", place)
        for part in passed.expressions:
            if part in stacks:
                lacking -= {*stacks[part]}
                continue
            try:
                lacking -= Expression(part, scope).uses
            except SpecError as error:
                yield SpecError(f"parameters.{name}: {error.message}", place)
    for part in one.requires:
        try:
            lacking -= Expression(part, scope).uses  # what is to equal what is passed
        except SpecError as error:
            yield SpecError(f"requires: {error.message}", place_of(part))
    for name in sorted(lacking):
        yield SpecError(f"parameters: none is passed {name!r}", place_of(next(iter(texts))))
