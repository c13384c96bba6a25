"""Classes with weights as targets: each is declared in a file of its own, with a mapping of its weights that was tried.

That file is what is run, replayed, and imported by other processes; it can be copied and edited.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from ..data.files import replace_text
from ..data.store import Store, code_of, digest
from ..errors import TargetError, UsageError
from ..execution.beside import stamp_of
from ..execution.interpreters import parted
from ..execution.supervisor import Supervisor
from ..mechanisms.library import Library
from ..subjects.candidate import DTYPES
from ..subjects.kinds import KINDS
from ..subjects.targets import file_of, function_of
from .mappings import Class, head
from .options import Options
from .weights import Mapped, likeliest, operator_of, operators_of, snake

ROOMS = ("attnspec.execution", "attnspec.subjects", "attnspec.runs")
"""The packages whose code says how a class is mapped."""
FOLDER = "classes"
"""The folder of declarations, in that of the results."""
KEPT = Store(FOLDER, 1 << 20)
"""Mappings that were right, by what the class looks like: an edit of its call leaves them as they are."""


def declared(
    target: str, options: Options, supervised: Supervisor | None, known: Library
) -> tuple[str, tuple[str, ...]]:
    """The target that stands for it, and what is to be said of that: for a class with weights, its declaration.

    Raises `UsageError` where no mapping of its weights can be proposed, and `TargetError` where none agrees with its
    operator so far that it can be told from another one.
    """
    kind = _class(target, options, supervised, known)
    if kind is None:
        return target, ()
    asked = [options.operator] if options.operator else operators_of(kind.name)
    state = [*(known[each].digest for each in asked), *map(code_of, ROOMS)]
    looks = replace(kind, operator=asked[-1]).survey()
    key = digest(*state, str(kind.path.resolve()), kind.name, repr(looks))
    if (kept := KEPT.get(key)) is not None:
        text, says = json.loads(kept)
        return _written(kind, text, options), tuple(says)
    kind, found = likeliest(kind.path, kind.name, kind.supervised, known, asked, {asked[-1]: looks})
    if not (options.operator or found.recognised):
        raise TargetError(_unread(kind, found))
    text, says = found.text(snake(kind.name)), _said(found)
    if found.score.holds:
        KEPT.put(key, json.dumps([text, says]).encode())
    return _written(kind, text, options), tuple(says)


def _class(target: str, options: Options, supervised: Supervisor | None, known: Library) -> Class | None:
    """The class that a target names, if it has weights: functions, and classes without them, are called as they are."""
    path, name = file_of(target), function_of(target)
    if supervised is None or path is None or parted(target)[1] or not _is_class(path, name):
        return None
    try:
        supervised.declared(path, name)
    except TargetError as error:
        if options.operator and options.operator not in KINDS:
            return None
        try:
            return Class(path, name, options.operator or operator_of(name), supervised, known)
        except UsageError as untold:
            raise TargetError(f"{error}; {untold}") from None
    return None


def _is_class(path: Path, name: str) -> bool:
    """Whether a file has a class of that name that is made of another one, as modules are; it is not run."""
    try:
        return (
            name.isidentifier() and re.search(rf"^class {name}\(".encode(), path.read_bytes(), re.MULTILINE) is not None
        )
    except OSError:
        return False


def _unread(kind: Class, found: Mapped) -> str:
    """Why a class is not judged, and what can be done about it."""
    none = f"{found.doubts[0].partition(';')[0]}, and it is wrong as no known mistake is: it may compute something else"
    return (
        f"{kind.path}: {found.says}; {f'calls end in {found.score.says}' if found.score.says else none} "
        f"(--operator {kind.operator} checks it all the same, "
        f"'attnspec init {kind.path}:{kind.name}' writes the mapping, to be edited)"
    )


def _said(found: Mapped) -> list[str]:
    """What the report says of a mapping."""
    score = found.score
    if score.holds:
        doubts = [f"uncertain: {doubt}" for doubt in found.doubts]
        return [
            f"its weights were mapped by names and shapes: right in {score.held} of {score.tried} cases",
            *doubts,
            *found.left,
        ]
    return [
        "its weights were mapped by names and shapes: no mapping agrees with the definition, so this one may be wrong"
    ]


def _written(kind: Class, text: str, options: Options) -> str:
    """The file of a declaration. It changes where that of the class has changed, so that both are loaded anew."""
    folder = Path(options.report_dir) / FOLDER if options.report_dir else _temporary()
    path = folder / f"{kind.path.stem}_{snake(kind.name)}.py"
    text = text.replace(DTYPES, f"dtypes={options.dtypes},") if options.dtypes else text
    place, importing = kind.imported
    beside = os.path.relpath(place, folder.resolve())
    state = digest(repr(stamp_of(kind.path)))[:12]
    about = f"{kind.name} of {kind.path.name}, its weights as they were mapped by names and shapes."
    found = f"sys.path.insert(0, str(Path(__file__).resolve().parent / {beside!r}))"
    parts = [
        f'"""{about}\n\n    attnspec check {path}\n"""',
        f"# {state} is the state of {kind.path.name}\nimport sys\nfrom pathlib import Path",
        f"{found}\n\n{head(importing, [text])}",
        f"{text}\n",
    ]
    whole = "\n\n".join(parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != whole:
            replace_text(path, whole)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    return str(path)


@functools.cache
def _temporary() -> Path:
    """Where declarations are of runs that keep no results, until this process ends."""
    folder = tempfile.mkdtemp(prefix="attnspec-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
