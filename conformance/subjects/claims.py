"""What an implementation claims: its declaration, read together with the signature of its function."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attnspec import adapters
from attnspec.adapters import Adapter

from ..errors import SpecError, TargetError, UsageError, did_you_mean, label_of
from ..execution.filling import CASE
from ..execution.limits import Multiples, settled
from ..frameworks.known import COMPILING
from ..language.expressions import Expression
from ..language.scopes import Scope
from ..mechanisms.mechanism import Mechanism
from ..numerics.formats import FORMATS, unknown_dtype
from ..numerics.grades import STANDARD, Grade, grade_named
from .aliases import meant, untested
from .forms import Form
from .passing import compiled
from .renaming import TABLES
from .taken import in_a_line
from .ties import equal, filled, single, tied, ties


@dataclass(frozen=True, slots=True)
class Claims:
    """What an implementation says of itself."""

    names: frozenset[str]
    """The optional inputs and the options that it takes."""
    dtypes: tuple[str, ...]
    conventions: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Collection[int]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    requires: tuple[Expression, ...] = ()
    """What holds of every call that it takes."""
    grades: Mapping[str, Grade] = field(default_factory=dict)
    deterministic: bool = False
    invariant: frozenset[str] = frozenset()
    """Of what the bits of a row are independent: a batch, chunks."""
    thread_safe: bool = False
    compiled: bool = False
    """Whether it compiles for every shape, so that few are tried."""
    sparing: bool = False
    """Whether that is not declared but taken to be so: nobody has said that every scenario is worth its compilation."""
    interpreted: bool = False
    """Whether an interpreter runs it in place of a device, undeclared: large cases take too long."""
    declared: bool = True
    """Whether it was declared as an adapter, and not merely pointed at."""
    always: frozenset[str] = frozenset()
    """Options that are passed even at their default, for the function has no default of its own."""
    usual: Mapping[str, float] = field(default_factory=dict)
    """Options that the function is never without, each with its own number where a case has none."""
    by_name: frozenset[str] = frozenset()
    """Required inputs that the function takes by name alone."""
    of_codes: str = ""
    """The dtype of what it returns for codes, if it has one only."""
    unknown: tuple[str, ...] = ()
    """Parameters that mean nothing to the operator, those that take anything with their stars."""
    untested: tuple[str, ...] = ()
    """What there is to say of them."""
    sizes: frozenset[str] = frozenset()
    """Sizes that the function is told, as the number of heads where they are folded."""
    allocated: Mapping[str, str] = field(default_factory=dict)
    """Parameters that an output is written to, each with the output."""
    ties: Mapping[str, str] = field(default_factory=dict)
    """Sizes and inputs that equal another one, wherever there is to be room for a call."""
    filled: Mapping[str, float] = field(default_factory=dict)
    """Inputs of which all entries are one number, for nobody can pass another."""
    tiles: tuple[int, ...] = ()
    """How many queries and how many keys it takes at a time, if it says so."""
    splits: int = 0
    """In how many parts it may take the keys."""

    def grade(self, dtype: str) -> Grade:
        return self.grades.get(dtype, STANDARD[dtype])

    @property
    def key(self) -> tuple[Any, ...]:
        """What the drawing of cases depends on."""
        numbers = (tuple(sorted(each.items())) for each in (self.fixed, self.usual))
        return self.names, self.bounds, *numbers, self.compiled, self.sparing, self.interpreted

    @property
    def bounds(self) -> tuple[Any, ...]:
        """The calls that are admitted of those that could be made."""
        limits = tuple((name, settled(values)) for name, values in sorted(self.limits.items()))
        return limits, tuple(condition.text for condition in self.requires)


def claims_of(adapter: Adapter, mechanism: Mechanism, declared: bool, form: Form | None = None) -> Claims:
    """The claims of an adapter: its declaration, read together with the signature of its function.

    `form` is the one in which it is called, if that is not the operator's own.
    """
    required = form.required if form and form.taken is None else mechanism.required
    label = f"{label_of(adapter.name, adapter.place)}: "
    built = _built_from(adapter, mechanism, label)
    parameters = [p for p in inspect.signature(adapter.function).parameters.values() if p.name not in built]
    takes_any = [p for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    inputs = [p for p in plain if p.kind is not p.KEYWORD_ONLY][: len(required)]
    by_name = [p for p in plain if p.kind is p.KEYWORD_ONLY and p.name in required[len(inputs) :]]
    inputs += by_name
    serving = takes_any and len(inputs) < len(required)
    if adapter.factory is not None:
        _check_filled(adapter, mechanism, plain, label)
    if len(inputs) < len(required) and not takes_any:
        wanted = ", ".join(required)
        raise TargetError(f"{label}{mechanism.operator} passes {len(required)} inputs by position ({wanted})")
    further = [p for p in plain if p not in inputs]
    optional = mechanism.takes
    told = {p.name for p in further if form and form.layout.folds and p.name in mechanism.sizes}
    written = {p.name: p.name for p in further if form and p.name in mechanism.outputs and p.name in form.layout.own}
    unknown = [p for p in further if p.name not in {*optional, *told, *written}]
    plain = not declared and not (form and form.taken)
    _check_parameters(adapter, mechanism, label, inputs, unknown, declared=declared, plain=plain)
    _check_words(adapter, mechanism, label)
    for dtype in adapter.dtypes:
        if dtype not in FORMATS:
            raise UsageError(f"{label}{unknown_dtype(dtype)}")
    kin = mechanism.kin
    sizes = {name for m in kin for name in m.sizes}
    names = sizes | {name for m in kin for name in m.options}
    own = _settled(adapter, unknown, label)
    for name in (*adapter.limits, *(name for name in adapter.fixed if name not in own)):
        if name not in names:
            raise UsageError(f"{label}limits and fixed take sizes and options, not {name!r}{did_you_mean(name, names)}")
    anything = [p for p in parameters if p.kind is p.VAR_KEYWORD or (p.kind is p.VAR_POSITIONAL and not serving)]
    beside = tuple(
        str(p.replace(default=p.empty, annotation=p.empty)) for p in (*unknown, *anything) if p.name not in own
    )
    compiled = compiles(adapter)
    fixed = {**(form.fixed if form else {}), **adapter.fixed}
    limits = {**adapter.limits, **{name: x for name, x in adapter.fixed.items() if name in sizes}}
    for name, values in limits.items():
        plain = isinstance(values, range | Multiples) or name not in sizes
        wrong = [] if plain else [x for x in _several(values) if not _whole(x)]
        if wrong:
            part = "limits" if name in adapter.limits else "fixed"
            raise UsageError(f"{label}{part} has {wrong[0]!r} for the size {name!r}; expected integers from 0 on")
    return Claims(
        names=frozenset(p.name for p in further if p.name in optional),
        dtypes=adapter.dtypes,
        conventions=adapter.conventions,
        limits={**single(form), **{name: _several(values) for name, values in limits.items()}},
        fixed={n: _word(n, x, kin, label) for n, x in fixed.items() if n not in sizes and n not in own},
        requires=_conditions(adapter, mechanism, label, form),
        grades=_grades(adapter, label),
        deterministic=adapter.deterministic,
        thread_safe=adapter.thread_safe,
        invariant=frozenset(filter(None, ["batch" * adapter.batch_invariant, "chunk" * adapter.chunk_invariant])),
        tiles=tuple(adapter.tiles),
        splits=adapter.splits,
        compiled=compiled,
        sparing=compiled and adapter.compiled is None,
        interpreted=bool(adapter.interpreted) and not declared,
        declared=declared,
        always=_always(further, optional, mechanism, form),
        by_name=frozenset(p.name for p in by_name),
        of_codes=form.taken.signature.of_codes if form and form.taken else "",
        unknown=beside,
        untested=tuple(untested(name, optional) for name in beside),
        sizes=frozenset(told),
        allocated=written,
        ties=tied(ties(mechanism, form), {} if declared else equal(adapter, form, sizes)),
        filled={} if declared else filled(form, mechanism),
    )


def compiles(adapter: Adapter) -> bool:
    """Whether an adapter compiles for every shape, as it declares, or as its framework does.

    What comes with attnspec says so where it does.
    """
    if adapter.compiled is not None or is_own(adapter):
        return bool(adapter.compiled)
    return adapter.compiles or adapter.framework in COMPILING


def is_own(adapter: Adapter) -> bool:
    """Whether an adapter comes with attnspec, and so has the layout of its operator."""
    return adapter.module.startswith(f"{adapters.__name__}.")


def _built_from(adapter: Adapter, mechanism: Mechanism, label: str) -> set[str]:
    """What the factory of a module takes that no call passes: sizes of a case, its dtype, and what is its own."""
    sizes = {axis for axes in mechanism.shapes.values() for axis in axes if axis is not None}
    parameters = inspect.signature(adapter.function).parameters
    found = set[str]()
    for name in adapter.factory or ():
        if name in mechanism.takes or name in mechanism.inputs:
            continue
        if name not in sizes and name not in CASE and parameters[name].default is inspect.Parameter.empty:
            known = (*sizes, *mechanism.options)
            drawn = ", because the shape of no input determines it" if name in mechanism.sizes else ""
            raise TargetError(
                f"{label}the factory takes {name!r}, which is not a size or option of a case of {adapter.operator} "
                f"has{drawn}{did_you_mean(name, known)} (it has {', '.join(sorted(known))}); "
                "write factory=lambda *, SIZES: MyClass(...)"
            )
        found.add(name)
    return found


def _check_filled(adapter: Adapter, mechanism: Mechanism, given: Sequence[inspect.Parameter], label: str) -> None:
    """Raise `TargetError` for a required input that a module is neither filled nor called with."""
    for name in itertools.chain(*adapter.same.items()):
        if name not in mechanism.required:
            hint = did_you_mean(name, mechanism.required)
            raise UsageError(f"{label}same takes inputs, not {name!r}{hint}")
    names = [p.name for p in given]
    missing = [name for name in mechanism.required if name not in names]
    if missing:
        strange = [name for name in names if name not in mechanism.inputs and name not in mechanism.takes]
        hint = (
            f"{mechanism.operator} has no {strange[0]!r}{did_you_mean(strange[0], missing)}"
            if strange
            else f"if the module takes the same array for another input, write same={{{missing[0]!r}: ...}}"
        )
        raise TargetError(f"{label}{missing[0]!r} of {mechanism.operator} is in neither weights= nor inputs=; {hint}")


def _check_parameters(
    adapter: Adapter,
    mechanism: Mechanism,
    label: str,
    inputs: Sequence[inspect.Parameter],
    unknown: Sequence[inspect.Parameter],
    *,
    declared: bool,
    plain: bool,
) -> None:
    """Raise `TargetError` for a parameter that is none of the operator's, as far as names say so.

    These are the `unknown` ones that every call has, and of who declares nothing tables among the `inputs`; of one that
    is `plain`, called as the operator is, also inputs with a number or a flag by default.
    """
    numbers = [p for p in inputs if plain and p.default is not p.empty and p.default is not None]
    strange = [p for p in inputs if p.name in TABLES and not declared]
    strange += [p for p in numbers if p.name not in mechanism.required]
    for own in (p for p in strange if p in numbers and p.name in mechanism.takes):
        says = f"is at the place of {mechanism.required[[*inputs].index(own)]}; {in_a_line(mechanism, own.name)}"
        raise TargetError(f"{label}the parameter {own.name!r}, {own.default!r} by default, {says}")
    if found := [p.name for p in (*strange, *(p for p in unknown if p.default is p.empty))]:
        hint = meant(found[0], mechanism.takes)
        says = f"{label}the parameter {found[0]!r} is not an input or option of {adapter.operator}{hint}"
        raise TargetError(says if declared else f"{says}; {in_a_line(mechanism, found[0])}")


def _check_words(adapter: Adapter, mechanism: Mechanism, label: str) -> None:
    """Raise `UsageError` for a convention that the operator has not, or a word that it has not."""
    for convention, word in adapter.conventions.items():
        if convention not in mechanism.conventions:
            raise UsageError(
                f"{label}unknown convention {convention!r}{did_you_mean(convention, mechanism.conventions)}"
            )
        words = mechanism.conventions[convention]
        if word not in words:
            raise UsageError(
                f"{label}{convention} is one of {', '.join(words)}, not {word!r}{did_you_mean(word, words)}"
            )


def _settled(adapter: Adapter, unknown: Collection[inspect.Parameter], label: str) -> set[str]:
    """Parameters of the function alone that the declaration says have one value only, which is their default."""
    found = {p.name: p.default for p in unknown if p.name in adapter.fixed}
    for name, default in found.items():
        if adapter.fixed[name] != default:
            said = f"fixed says {name} = {adapter.fixed[name]!r}, and the function's default is {default!r}"
            raise UsageError(f"{label}{said}")
    return {*found}


def _word(option: str, x: Any, kin: Collection[Mechanism], label: str) -> Any:
    """The value of an option as definitions have it, of a word or of the text that implementations are given for it."""
    texts = {text: word for m in kin for word, text in m.vocabulary.get(option, {}).items()}
    if not texts or not isinstance(x, str) or x in texts.values():
        return x
    if x not in texts:
        hint = did_you_mean(x, texts)
        raise UsageError(f"{label}fixed says {option} = {x!r}, which is one of {', '.join(texts)}{hint}")
    return texts[x]


def _conditions(adapter: Adapter, mechanism: Mechanism, label: str, form: Form | None) -> tuple[Expression, ...]:
    """The declared conditions on calls, over the sizes, inputs and options of an operator, and those of its layout."""
    kin = mechanism.kin
    words = {word: option for m in kin for option, own in m.vocabulary.items() for word in own}
    scope = Scope(frozenset(name for m in kin for name in (*m.sizes, *m.inputs, *m.options)), words)
    texts = (adapter.requires,) if isinstance(adapter.requires, str) else tuple(adapter.requires)
    texts = (*_alike(adapter, mechanism, label), *texts, *(form.conditions if form else ()))
    strange = [text for text in texts if not isinstance(text, str)]
    if strange:
        raise UsageError(f"{label}requires takes conditions as text, not {strange[0]!r}")
    try:
        return tuple(Expression(text, scope) for text in texts)
    except SpecError as error:
        raise UsageError(f"{label}requires: {error}") from None


def _alike(adapter: Adapter, mechanism: Mechanism, label: str) -> list[str]:
    """What makes two inputs one that a module takes once: equal sizes, and then equal entries."""
    found = []
    for one, other in adapter.same.items():
        axes = zip(mechanism.shapes[one], mechanism.shapes[other], strict=False)
        found += [f"{a} == {b}" for a, b in axes if a != b and a and b]
        found.append(f"identical({one}, {other})")
    return found


def narrowed(claims: Claims, form: Form) -> Claims:
    """Claims of a function whose layout was found, without the calls that it has no room for."""
    axes = (compiled(form.mechanism, text) for text in form.axes)
    return replace(claims, limits={**single(form), **claims.limits}, requires=(*claims.requires, *axes))


def asked_numbers(claims: Claims, mechanism: Mechanism) -> dict[str, float]:
    """Options that calls may lack and a function is never without, each with the greatest number drawn for it."""
    asked = {condition.text.removesuffix(" != none") for condition in claims.requires}
    drawn = {name: re.findall(r"\d+\.\d+", mechanism.options[name].text) for name in asked & {*mechanism.options}}
    return {name: max(map(float, numbers)) for name, numbers in drawn.items() if numbers}


def _always(
    further: Iterable[inspect.Parameter], optional: Collection[str], mechanism: Mechanism, form: Form | None
) -> frozenset[str]:
    """What calls may lack and a function is never called without, as its parameters or its known interface say."""
    requires = form.taken.signature.requires if form and form.taken else ()
    needed = {name for name in mechanism.absent if f"not single({name})" in requires}
    return frozenset(p.name for p in further if p.name in optional and _says_otherwise(p, mechanism)) | needed


def _says_otherwise(parameter: inspect.Parameter, mechanism: Mechanism) -> bool:
    """Whether leaving an option out means something else to the function than to the operator."""
    own, other = parameter.default, mechanism.defaults.get(parameter.name)
    if own is parameter.empty:
        return True
    if parameter.name not in mechanism.defaults:  # of a further mechanism, which has a default of its own
        return isinstance(own, int | float)
    if isinstance(own, bool) or isinstance(other, bool):  # where none is given, a function may decide for itself
        return (own is None or isinstance(own, bool)) and own is not other
    if own is None:  # which may be a number of its own, as an epsilon is that goes with the dtype
        return isinstance(other, float) and other not in (0.0, 1.0)
    return isinstance(own, int | float) and isinstance(other, int | float) and own != other


def _several(values: Any) -> Collection[Any]:
    """The values of a limit, which may be a single one."""
    return values if isinstance(values, Collection) and not isinstance(values, str) else (values,)


def _whole(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= 0


def _grades(adapter: Adapter, label: str) -> dict[str, Grade]:
    grades = dict.fromkeys(adapter.dtypes, adapter.grade) if isinstance(adapter.grade, str) else adapter.grade or {}
    for dtype in grades:
        if dtype not in FORMATS:
            raise UsageError(f"{label}grade: {unknown_dtype(dtype)}")
    try:
        return {dtype: grade_named(name) for dtype, name in grades.items()}
    except UsageError as error:
        raise UsageError(f"{label}{error}") from None
