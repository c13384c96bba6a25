"""A set of vectors: what is requested, and the files that are written."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import islice

import numpy as np

from ..cases.applicability import undeclared
from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..errors import UsageError, did_you_mean
from ..judging.bench import Bench
from ..mechanisms.library import Library
from ..mechanisms.loader import mechanism_named
from ..mechanisms.mechanism import Mechanism
from ..numerics.formats import FORMATS, unknown_dtype
from ..numerics.grades import STANDARD, Grade, grade_named
from ..subjects.stand_ins import DefinitionSubject
from .index import as_json, as_text, entry, related, schema
from .records import FORMAT, Index, Mistake, Stated
from .relation import Relation, relations_of
from .telling import Telling, Told, candidates, fewest, owned, slim
from .tensors import encoded
from .vector import unvectored, vector_of

PROFILE = PROFILES["quick"]
"""The cases of a full set, of which a small one is a part."""
LARGEST = 1 << 16
"""Bytes of the largest vectors whose cases laws between several calls are stated on."""
TRIED, CASES = 8, 2
"""How many cases a law is tried on, and on how many of those that it speaks of it is stated."""
INDEX, TEXT, SCHEMA = "index.json", "index.txt", "index.schema.json"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a set is to hold."""

    names: tuple[str, ...] = ()
    """Operators, which stand for all of their mechanisms, and mechanisms; every mechanism where there are none."""
    dtypes: tuple[str, ...] = ("float32",)
    words: Mapping[str, str] = field(default_factory=dict)
    """Words of conventions; others are followed at their first word."""
    grade: str | None = None
    """The precision that bounds are derived for; that which a dtype is taken for by saying nothing."""
    takes: tuple[str, ...] | None = None
    """The options and optional inputs that are passed; all of them where nothing is said."""
    small: bool = True
    seed: int = 0

    @property
    def command(self) -> str:
        """The command that asks for it, without the folder."""
        words = ["attnspec", "vectors", *(self.names or ["--all"])]
        words += [part for dtype in self.dtypes for part in ("--dtype", dtype)]
        words += [part for name, word in sorted(self.words.items()) for part in ("--convention", f"{name}={word}")]
        words += ["--grade", self.grade] if self.grade else []
        words += ["--takes", ",".join(self.takes)] if self.takes is not None else []
        return shlex.join([*words, "--small" if self.small else "--full", "--seed", str(self.seed)])


@dataclass(frozen=True, slots=True)
class Part:
    """The vectors of a mechanism in a dtype."""

    stated: Stated
    vectors: Sequence[Told]
    relations: Sequence[Told]
    """Those of several calls."""
    drawn: int
    """How many vectors there were to choose from."""
    own: frozenset[str]
    """The names of its own mistakes, which a small set refutes as far as any vector does."""


def files(asked: Asked, library: Library, say: Say = lambda text: None) -> Iterator[tuple[str, bytes, Part | None]]:
    """The files of a set by name, each with its bytes, and with the part that it holds; the index comes last.

    Raises `UsageError` for what is not known, and where nothing of what was asked for has vectors.
    """
    _check(asked, library)
    index: Index = {
        "format": FORMAT,
        "provenance": {
            "attnspec": version("attnspec"),
            "numpy": np.__version__,
            "hypothesis": version("hypothesis"),
            "seed": asked.seed,
            "command": " ".join([asked.command, *(f"--spec {shlex.quote(folder)}" for folder in library.folders)]),
        },
        "small": asked.small,
        "mechanisms": [],
        "left_out": {},
        "vectors": [],
        "relations": [],
    }
    for mechanism in chosen(asked, library):
        for dtype in asked.dtypes:
            say(f"{mechanism.name} in {dtype}")
            part = part_of(mechanism, dtype, asked)
            if isinstance(part, str):
                index["left_out"][mechanism.name] = part
                break
            index["mechanisms"].append(part.stated)
            index["vectors"] += map(entry, part.vectors)
            index["relations"] += map(related, part.relations)
            every = (*part.vectors, *part.relations)
            tensors = {name: x for told in every for name, x in told.vector.tensors().items()}
            yield part.stated["file"], encoded(tensors), part
    if not index["vectors"]:
        raise UsageError("nothing of this has vectors: " + "; ".join(f"{n}: {x}" for n, x in index["left_out"].items()))
    yield TEXT, as_text(index).encode(), None
    yield SCHEMA, schema().encode(), None
    yield INDEX, as_json(index).encode(), None


def chosen(asked: Asked, library: Library) -> list[Mechanism]:
    """The mechanisms that were asked for, each once; an operator stands for all of its own."""
    if not asked.names:
        return [*library.values()]
    named = [mechanism_named(name, library) for name in asked.names]
    return [*{m.name: m for one in named for m in (one.kin if one.name == one.operator else [one])}.values()]


def part_of(mechanism: Mechanism, dtype: str, asked: Asked) -> Part | str:
    """The vectors of a mechanism in a dtype, or why there are none."""
    if reason := unvectored(mechanism):
        return reason
    words = {**mechanism.words, **mechanism.declared(_own(mechanism, asked.words))}
    subject = DefinitionSubject(mechanism, "definition", conventions=words, dtypes=(dtype,))
    if asked.takes is not None:
        subject.claims = replace(subject.claims, names=frozenset(asked.takes) & subject.claims.names)
        if reason := undeclared(mechanism, subject.claims):
            return f"whoever takes these options {reason}"
    bench, grade = Bench(subject, mechanism, dtype, "cpu", words), grade_of(asked, dtype)
    drawn = [
        sample for block in plan(mechanism, subject.claims, PROFILE, asked.seed, dtype).blocks() for sample in block
    ]
    vectors = {vector.name: vector for sample in drawn if (vector := vector_of(bench, sample, grade))}
    known = candidates(bench)
    telling, named = Telling(bench, known), owned(bench, known)
    every = [telling.told(vector, named if asked.small else None) for vector in vectors.values()]
    few = fewest(every, named)
    kept = slim([telling.told(one.vector) for one in few], named) if asked.small else every
    relations = _relations(bench, grade, [*few, *(one for one in every if one not in few)], named, telling, asked.small)
    refuted = {name for told in (*kept, *relations) for name in told.shows}
    mistakes: dict[str, Mistake] = {
        c.name: {"says": c.says, "convention": bool(c.words), "refuted": c.name in refuted} for c in known
    }
    own = frozenset(name for name in named if not mistakes[name]["convention"])
    return Part(_stated(mechanism, dtype, grade, words, asked, mistakes), kept, relations, len(every), own)


def _relations(
    bench: Bench,
    grade: Grade,
    vectors: Sequence[Told],
    named: frozenset[str],
    telling: Telling,
    small: bool,
) -> list[Told]:
    """What laws say of several calls, each on the first small cases on which it says something."""
    samples = [one.vector.sample for one in vectors if one.vector.nbytes <= LARGEST][:TRIED]
    found = list[Relation]()
    for law in bench.mechanism.laws.values():
        made = (relations_of(bench, sample, grade, law) for sample in samples)
        first = islice(filter(None, made), CASES)
        found += [relation for relations in first for relation in relations if relation.nbytes <= LARGEST]
    if small:
        few = fewest([telling.told(relation, named) for relation in found], named)
        found = [one.vector for one in few if isinstance(one.vector, Relation)]
    return [telling.told(relation) for relation in found]


def grade_of(asked: Asked, dtype: str) -> Grade:
    """The precision that bounds in a dtype are derived for."""
    return STANDARD[dtype] if asked.grade is None else grade_named(asked.grade)


def _stated(
    m: Mechanism, dtype: str, grade: Grade, words: Mapping[str, str], asked: Asked, mistakes: dict[str, Mistake]
) -> Stated:
    declared = m.declared(_own(m, asked.words))
    return {
        "mechanism": m.name,
        "operator": m.operator,
        "title": m.title,
        "version": m.version,
        "digest": m.digest,
        "dtype": dtype,
        "grade": grade.name,
        "says": grade.says,
        "file": f"{m.name}.{dtype}.safetensors",
        "conventions": {name: words[name] for name in m.conventions},
        "undeclared": [name for name in m.conventions if name not in declared],
        "mistakes": mistakes,
    }


def _own(mechanism: Mechanism, words: Mapping[str, str]) -> dict[str, str]:
    return {name: word for name, word in words.items() if name in mechanism.conventions}


def _check(asked: Asked, library: Library) -> None:
    """Raise `UsageError` for a dtype, grade, convention, word or option that there is not."""
    for dtype in asked.dtypes:
        if dtype not in FORMATS:
            raise UsageError(unknown_dtype(dtype))
        grade_of(asked, dtype)
    mechanisms = chosen(asked, library)
    words = {name: [*words] for m in mechanisms for name, words in m.conventions.items()}
    for name, word in asked.words.items():
        if name not in words:
            raise UsageError(f"no mechanism here has a convention {name!r}{did_you_mean(name, words)}")
        if word not in words[name]:
            raise UsageError(f"{name} has no word {word!r}{did_you_mean(word, words[name])} ({', '.join(words[name])})")
    known = {name for m in mechanisms for name in m.takes}
    for name in asked.takes or ():
        if name not in known:
            raise UsageError(f"no mechanism here has an option or optional input {name!r}{did_you_mean(name, known)}")
