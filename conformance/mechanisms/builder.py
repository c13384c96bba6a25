"""From one document to a mechanism: names first, then every expression, then the checks of the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..errors import SpecError, SpecErrors
from ..language.expressions import Expression
from ..language.scopes import Takes
from .inspection import NO_DEFAULT, default_of, fallback, shape_names
from .mechanism import ANSWERED, Mechanism, Setting
from .names import Names
from .parts import Parts
from .schema import Document, place_of
from .texts import Texts
from .validation import clashes, contradictions


def built(
    document: Document, text: str, shown: str, base: Mechanism | None, operators: Mapping[str, Takes]
) -> Mechanism:
    """The mechanism of a document; all that is wrong with it is one `SpecErrors`.

    `text` is that of the document, and `shown` what messages call its file. `base` is the operator's mechanism, for a
    further one of it; `operators` can be called by their names.
    """
    names, texts = Names(document, base, operators), Texts()
    for error in clashes(document, base):
        texts.found(error)
    made = _mechanism(names, texts, shown, _digest(text, base))
    for error in contradictions(made, document):
        texts.found(error)
    if texts.errors:
        raise SpecErrors(texts.errors)
    return made


def _mechanism(names: Names, texts: Texts, shown: str, digest: str) -> Mechanism:
    base, get, parts = names.base, names.get, Parts(names, texts)

    def inherited(key: str, own: Mapping[str, Any]) -> dict[str, Any]:
        return {**(getattr(base, key) if base else {}), **own}

    def words(key: str) -> dict[str, str]:
        return inherited(key, {str(name): str(word) for name, word in get(key, {}).items()})

    sizes, inputs, options = (
        inherited(key, texts.each(names.texts[key], names.drawing, key)) for key in ("sizes", "inputs", "options")
    )
    definition = inherited("definition", texts.each(names.lines, names.defining, "definition"))
    requires = inherited("requires", texts.each(names.section("requires"), names.conditions, "requires"))
    normal_form = inherited("normal_form", texts.each(names.section("normal_form"), names.defining, "normal_form"))
    laws, mistakes, rejects, examples = (
        _entries(names, texts, key, make)
        for key, make in (
            ("laws", parts.law),
            ("mistakes", parts.mistake),
            ("rejects", parts.reject),
            ("examples", parts.example),
        )
    )
    required = base.required if base else tuple(n for n, e in inputs.items() if fallback(e) is None)
    dtypes, by_reference = words("dtypes"), get("definition") == "reference"
    return Mechanism(
        name=str(get("mechanism")),
        operator=base.name if base else str(get("mechanism")),
        title=str(get("title")),
        summary=" ".join(str(get("summary")).split()),
        formula=str(get("formula", base.formula if base else "")),
        sources=tuple(get("sources")),
        version=int(get("version")),
        digest=digest,
        path=shown,
        sizes=sizes,
        inputs=inputs,
        options=options,
        conventions=names.conventions,
        vocabulary=names.vocabulary,
        follows=words("follows"),
        requires=requires,
        dtypes=dtypes,
        definition=definition,
        by_reference=by_reference or bool(base and base.by_reference),
        outputs=names.outputs,
        random=tuple(map(str, get("random", base.random if base else ()))),
        normal_form=normal_form,
        examples=examples,
        regimes=inherited("regimes", _settings(names, "regimes", parts.regime)),
        scenarios=_settings(names, "scenarios", parts.scenario),
        crossed=_settings(names, "crossed", parts.crossed),
        laws=laws,
        mistakes=mistakes,
        rejects=rejects,
        required=required,
        defaults={
            **_defaults(names, inputs, options, {*required, *dtypes.values()}),
            **(base.defaults if base else {}),
        },
        shapes=base.shapes if base else {n: shape_names(inputs[n], sizes) for n in required if n in inputs},
        layouts=_layouts(names),
        gradient_of=str(get("gradient_of", base.gradient_of if base else "")),
        answered=float(get("answered", base.answered if base else ANSWERED)),
        own=frozenset({*names.texts["sizes"], *names.texts["inputs"], *names.texts["options"]} if base else ()),
        reference_place=place_of(get("definition")) if by_reference else base and base.reference_place,
    )


def _entries(names: Names, texts: Texts, key: str, make: Callable[[str, Any, str], Any]) -> dict[str, Any]:
    """The entries of a section, without those that have faults."""
    made = {}
    for name, entry in names.get(key, {}).items():
        try:
            item = make(str(name), entry, f"{key}.{name}")
        except SpecError as error:
            texts.found(SpecError(f"{key}.{name}: {error.message}", error.place))
            continue
        if item is not None:
            made[str(name)] = item
    return made


def _settings(names: Names, key: str, make: Callable[[str, Any, str], Setting]) -> dict[str, Setting]:
    return {str(name): make(str(name), text, f"{key}.{name}") for name, text in names.get(key, {}).items()}


def _layouts(names: Names) -> dict[str, dict[str, str]]:
    """The layouts of its arrays, or of its operator's."""
    own = {
        str(name): {str(array): str(text) for array, text in given.items()}
        for name, given in names.get("layouts", {}).items()
    }
    return own or ({name: dict(given) for name, given in names.base.layouts.items()} if names.base else {})


def _digest(text: str, base: Mechanism | None) -> str:
    """What tells this text from every other one, that of its operator included."""
    return hashlib.sha256(text.encode() + (base.digest.encode() if base else b"")).hexdigest()[:12]


def _defaults(
    names: Names, inputs: Mapping[str, Expression], options: Mapping[str, Expression], always: Collection[str]
) -> dict[str, Any]:
    """What may be left out, each with what it is then; what is `always` there has no default."""
    base = {*names.base.inputs, *names.base.options} if names.base else set[str]()
    drawn = {n: e for n, e in {**options, **inputs}.items() if n not in always and n not in base}
    found = {n: default_of(e, names.drawing.words) for n, e in drawn.items()}
    return {n: default for n, default in found.items() if default is not NO_DEFAULT}
