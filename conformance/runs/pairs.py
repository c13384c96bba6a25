"""Which two subjects of two targets are compared."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..execution.interpreters import imported
from ..judging.first_call import noticed
from ..mechanisms.library import Library
from ..numerics.formats import FORMATS, unknown_dtype
from ..reporting.difference import Side
from ..reporting.results import distribution_of, version_of
from ..subjects.subject import AdapterSubject, Subject
from ..subjects.targets import file_of, resolve
from .classes import declared
from .groups import supervisor_of
from .options import Options


@dataclass(frozen=True, slots=True)
class Two:
    """Two subjects of one operator, and under which names the page has them."""

    subjects: tuple[Subject, Subject]
    targets: tuple[str, str]
    names: tuple[str, str]

    @property
    def operator(self) -> str:
        return self.subjects[0].operator

    def sides(self) -> tuple[Side, Side]:
        """Who they are."""
        first, second = map(_side, self.subjects, self.targets, self.names)
        return first, second


def pairs(options: Options, library: Library) -> list[Two]:
    """The pairs of subjects of the two targets that have an operator in common, or of the one that is asked for.

    Several of one operator are paired by their names. Raises `UsageError` where nothing can be paired.
    """
    supervised = supervisor_of(options)
    found = [
        resolve(
            declared(target, options, supervised, library)[0],
            operator=options.operator,
            framework=options.framework,
            layout=options.layout,
            device=options.device,
            supervisor=supervised,
            known=library,
        )
        for target in options.targets
    ]
    operators = [list(dict.fromkeys(one.operator for one in side)) for side in found]
    common = [name for name in operators[0] if name in operators[1] and options.operator in (None, name)]
    if not common:
        first, second = (f"{target} is {_named(own)}" for target, own in zip(options.targets, operators, strict=True))
        asked = f" of {options.operator}" if options.operator else ""
        raise UsageError(f"nothing{asked} to compare: {first}, and {second}")
    made = [two for name in common for two in _paired(name, found, options.targets)]
    for subject in (subject for two in made for subject in two.subjects):
        noticed(subject, options.device, options.dtypes)  # whose arrays it takes
    return made


def _paired(operator: str, found: Sequence[Sequence[Subject]], targets: Sequence[str]) -> list[Two]:
    sides = [[one for one in side if one.operator == operator] for side in found]
    if len(sides[0]) == len(sides[1]) == 1:
        pairs = [(sides[0][0], sides[1][0])]
    else:
        known = {_own(one): one for one in sides[1]}
        pairs = [(one, known[_own(one)]) for one in sides[0] if _own(one) in known]
    if not pairs:
        several, target = next((side, t) for side, t in zip(sides, targets, strict=True) if len(side) > 1)
        raise UsageError(f"{target} has several of {operator}: {_named([s.name for s in several])}; name one of them")
    return [Two(pair, (targets[0], targets[1]), _names(*pair)) for pair in pairs]


def _own(subject: Subject) -> str:
    """The name of a subject, whatever calls it."""
    return subject.adapter.name if isinstance(subject, AdapterSubject) else subject.name


def _names(first: Subject, second: Subject) -> tuple[str, str]:
    """Two names that differ."""
    if first.name != second.name:
        return first.name, second.name
    return f"{first.name} (a)", f"{second.name} (b)"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (" ..." if names[6:] else "")


def dtypes_of(two: Two, asked: Sequence[str]) -> list[str]:
    """The dtypes in which both are compared: those that both claim, or that are asked for."""
    for dtype in asked:
        if dtype not in FORMATS:
            raise UsageError(unknown_dtype(dtype))
    claims = [subject.claims for subject in two.subjects]
    known = list(dict.fromkeys(dtype for own in claims if own.declared for dtype in own.dtypes))
    wanted = asked or known or claims[0].dtypes
    plain = [own.dtypes for own in claims if not own.declared]
    return [
        dtype
        for dtype in wanted
        if all(dtype in own.dtypes or not own.declared for own in claims)
        and (bool(asked) or all(dtype in own for own in plain))
    ]


def _side(subject: Subject, target: str, name: str) -> Side:
    python, packages = "", dict[str, str]()
    if isinstance(subject, AdapterSubject):
        python = subject.own.version if subject.own else platform.python_version()
        path = file_of(target)
        modules = dict.fromkeys(["numpy", subject.adapter.framework, *filter(None, [subject.adapter.package])])
        modules |= dict.fromkeys(imported(path) if path is not None and path.is_file() else ())
        tops = [module.partition(".")[0] for module in modules]
        if subject.own is not None:
            packages = {own[0]: own[1] for top, own in subject.own.packages.items() if top in tops and own[1]}
        else:
            packages = {own: version_of(own) for own in map(distribution_of, tops) if version_of(own)}
    return {
        "name": name,
        "target": target,
        "subject": subject.name,
        "python": python,
        "layout": subject.form.in_words() if isinstance(subject, AdapterSubject) and subject.mechanism.layouts else "",
        "packages": packages,
    }
