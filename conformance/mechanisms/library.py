"""Mechanisms by name, each read on first use, together with those that it needs.

What is read is kept on disk by the digest of its text and of all that makes a mechanism of it, so that the next
process neither parses nor checks it.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgpack

from ..data.store import Store, digest
from ..errors import SpecError, did_you_mean
from ..language.scopes import Takes
from .builder import built
from .compiled import called, machinery, packed, unpacked
from .mechanism import Mechanism, Owned
from .references import unfit
from .schema import place_of
from .specfiles import SpecFile

STORE = Store("mechanisms", 64 << 20)
"""What was read of specifications."""


class Library(Mapping[str, Mechanism]):
    """The mechanisms of files that may build on one another, and on those `beside` them.

    A file with faults is `SpecError` or `SpecErrors` when its mechanism is asked for.
    """

    def __init__(
        self, files: Mapping[str, SpecFile], beside: Mapping[str, Mechanism] | None = None, store: Store | None = None
    ) -> None:
        self.files, self.beside, self.store = dict(files), beside or {}, store
        own = beside.references if isinstance(beside, Library) else {}
        self.references: dict[str, Callable[..., Any]] = dict(own)
        """The float64 references of operators that are none of the shipped ones."""
        self.folders: tuple[str, ...] = ()
        """The folders of its own files, where they are neither shipped nor registered."""
        self._read: dict[str, Mechanism] = {}
        self._owned: dict[Any, Any] = {}

    @functools.cached_property
    def _names(self) -> tuple[str, ...]:
        """In alphabetical order, but an operator before what builds on it."""
        found = dict.fromkeys(self.beside)
        for name in sorted(self.files):
            found |= {each: None for each in (self.files[name].operator, name) if each in self.files}
        return tuple(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self.files or name in self.beside

    def __getitem__(self, name: str) -> Mechanism:
        if name not in self._read:
            if name in self.files:
                with uncollected(lasting=not others_froze()):
                    self._read[name] = self._restored(name) or self._built(name)
            else:
                self._read[name] = replace(self.beside[name], library=self)
        return self._read[name]

    def kept(self, kind: Callable[[], Owned]) -> Owned:
        """What is kept of one kind about these mechanisms, for as long as the library is in use; made at first."""
        if kind not in self._owned:
            self._owned[kind] = kind()
        return self._owned[kind]

    def operator_of(self, name: str) -> str:
        """The operator of a mechanism, which is not read for that."""
        if name in self.files:
            return self.files[name].operator
        return self.beside.operator_of(name) if isinstance(self.beside, Library) else self.beside[name].operator

    def file_of(self, name: str) -> SpecFile | None:
        """The file that states a mechanism."""
        if name in self.files:
            return self.files[name]
        return self.beside.file_of(name) if isinstance(self.beside, Library) else None

    def naming(self, *texts: str) -> Iterator[Mechanism]:
        """The mechanisms whose files have one of some texts anywhere; the others are not read."""
        for name in self:
            file = self.file_of(name)
            if file is None or any(text in file.text for text in texts):
                yield self[name]

    def is_outside(self, name: str) -> bool:
        """Whether a mechanism is of a folder that is neither shipped nor registered."""
        return bool(self.folders) and name in self.files

    def of(self, operator: str) -> list[Mechanism]:
        """The mechanisms of an operator."""
        return [self[name] for name in self._by_operator.get(operator, ())]

    @functools.cached_property
    def _by_operator(self) -> dict[str, list[str]]:
        """The names of the mechanisms of each operator."""
        found: dict[str, list[str]] = {}
        for name in self:
            found.setdefault(self.operator_of(name), []).append(name)
        return found

    @functools.cached_property
    def stating(self) -> tuple[str, ...]:
        """The mechanisms that state operators."""
        return tuple(name for name in self if self.operator_of(name) == name)

    def takes(self, operator: str) -> Takes:
        """What can be passed to an operator."""
        if operator in self.files:
            return self.files[operator].takes
        if isinstance(self.beside, Library):
            return self.beside.takes(operator)
        m = self.beside[operator]
        return Takes(m.required, frozenset({*m.signature, *m.conventions}))

    def _base(self, name: str) -> Mechanism | None:
        """The mechanism of the operator that another builds on; None for one that states its own."""
        operator = self.files[name].get("operator", name)
        if operator == name:
            return None
        known = {*self} - {name}
        if operator not in known:
            raise SpecError(f"unknown operator {str(operator)!r}{did_you_mean(operator, known)}", place_of(operator))
        if (own := self.operator_of(operator)) != operator:
            text = f"{str(operator)!r} is not an operator: it is a mechanism of {own!r}"
            raise SpecError(text, place_of(operator))
        return self[str(operator)]

    def _built(self, name: str) -> Mechanism:
        file = self.files[name]
        file.check()
        base = self._base(name)
        made = built(file.document, file.text, file.shown, base, _Operators(self))
        made = replace(made, library=self)
        if file.get("definition") == "reference" and (fault := unfit(made, place_of(file.get("definition")))):
            raise fault
        if self.store is not None:
            takes = {operator: self.takes(operator) for operator in called(made)}
            head = [made.operator, self._needs({*takes, made.operator} - {name})]
            self.store.put(self._key(name), bytes(msgpack.packb([head, packed(made, base, takes)]) or b""))
        return made

    def _restored(self, name: str) -> Mechanism | None:
        """A mechanism as it was kept, if neither its text nor those that it needs have changed."""
        raw = self.store.get(self._key(name)) if self.store is not None else None
        if self.store is None or raw is None:
            return None
        try:
            (operator, needs), content = msgpack.unpackb(raw)
            if needs != self._needs(needs):
                return None
            base = self[operator] if operator != name else None
            return unpacked(content, self.files[name].shown, base, self)
        except (ValueError, TypeError, LookupError, AttributeError):
            self.store.drop(self._key(name))
            return None

    def _needs(self, names: Iterable[str]) -> dict[str, str]:
        """Digests of the texts that state mechanisms."""
        return {name: self._text(name) for name in sorted(names)}

    def _text(self, name: str) -> str:
        if name in self.files:
            return self.files[name].digest
        return self.beside._text(name) if isinstance(self.beside, Library) else self.beside[name].digest

    def _key(self, name: str) -> str:
        return digest(machinery(), name, self.files[name].text, *self.stating)


class _Operators(Mapping[str, Takes]):
    """Every operator of a library, with what can be passed to it."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def __getitem__(self, name: str) -> Takes:
        if name not in self:
            raise KeyError(name)
        return self.library.takes(name)

    def __contains__(self, name: object) -> bool:
        return name in self.library.stating

    def __iter__(self) -> Iterator[str]:
        return iter(self.library.stating)

    def __len__(self) -> int:
        return len(self.library.stating)


_others_froze = False
"""Whether somebody has frozen objects: that is found once in a process, for all of these are counted."""


def others_froze() -> bool:
    """Whether somebody else has taken objects from the garbage collector, which is to stay so."""
    global _others_froze
    _others_froze = _others_froze or gc.get_freeze_count() > 0
    return _others_froze


@contextmanager
def uncollected(*, lasting: bool = False) -> Iterator[None]:
    """Without the garbage collector: hardly anything of what is made is garbage, and to look for it takes long.

    What is `lasting` counts as old afterwards: the next search, which is among new objects, leaves it out. So does what
    somebody has frozen before.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if lasting:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
