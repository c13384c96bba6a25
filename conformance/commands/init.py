"""`attnspec init`: the first files of a project, from the functions in a file.

Nothing is written before everything is known, and nothing over a file that is there.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Error, TargetError, UsageError
from ..reporting.progress import progress
from .shell import mended, options, say

if TYPE_CHECKING:
    from ..subjects.subject import AdapterSubject

WORKFLOW = Path(".github", "workflows", "attnspec.yml")
TABLE = re.compile(r"^\s*\[\s*tool\s*\.\s*attnspec\s*\]", re.MULTILINE)

STEPS = """\
name: conformance
on: [pull_request]
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install attnspec .
      - run: attnspec check --profile ci --workers 2
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: conformance
          path: attnspec-report
"""


@dataclass(slots=True)
class Start:
    """What is to be written, and what is to be said of it."""

    files: dict[Path, str] = field(default_factory=dict)
    further: dict[Path, str] = field(default_factory=dict)
    """What is added at the end of a file."""
    says: list[str] = field(default_factory=list)


@click.command(short_help="Write adapters, a CI workflow and a table for pyproject.toml.")
@click.argument("target", metavar="FILE[:NAME]")
@options("operator", "framework")
def init(target: str, operator: str | None, framework: str | None) -> None:
    """Write adapters for the functions of FILE, a CI workflow and a table for pyproject.toml.

    For a class, as in FILE:Attention, propose a mapping of its weights from names and shapes, and test it.

    It never overwrites a file.
    """
    with mended():
        path, _, named = target.partition(".py:")
        path = Path(f"{path}.py" if named else target)
        with progress(f"reading {path}"):
            start = started(path, named, operator, framework)
        write(start)
        for line in start.says:
            say(line, plain=True)


def started(path: Path, named: str, operator: str | None, framework: str | None) -> Start:
    """What a project of one file begins with; a `UsageError` where one of its files is there already."""
    functions, declares = functions_in(path, named)
    of_class = bool(named) and not functions
    adapters = path.with_name(f"{path.stem}_attnspec.py")
    for there in (*(() if declares else (adapters,)), WORKFLOW):
        if there.exists():
            raise UsageError(f"{there} already exists and is not overwritten: move it away, or edit it")
    start = Start()
    if declares:
        start.says.append(f"{path} declares adapters by itself")
    elif of_class:
        start.files[adapters] = _of_class(path, named, operator, start)
    else:
        start.files[adapters] = _adapters(path, functions, operator, framework, start)
    start.files[WORKFLOW] = STEPS
    _table(path if declares else adapters, start)
    return start


def functions_in(path: Path, named: str = "") -> tuple[list[str], bool]:
    """The public functions of a file or the one that is named, and whether it declares adapters; it is not run.

    There are none where the name is that of a class.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise TargetError(f"{path} is not a Python file: {error}") from None
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if named in classes:
        return [], False
    if named and named not in names:
        raise TargetError(f"{path} has no function or class {named!r}")
    decorated = any(
        _called(decorator) in ("adapter", "attnspec.adapter")
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
    ) or any(_called(node) in ("module", "attnspec.module") for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [named] if named else names, decorated and not named


def _called(node: Any) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


# Adapters


def _adapters(path: Path, functions: Sequence[str], operator: str | None, framework: str | None, start: Start) -> str:
    """The text of a file of adapters, one for each function that can be called as an operator."""
    blocks = []
    for name in functions:
        try:
            subject = _subject(f"{path}:{name}", operator, framework)
            blocks.append(adapter_text(path.stem, name, subject, _conventions(subject)))
            interface = subject.form.taken
            start.says.append(f"{name} is treated as {interface.signature.name if interface else subject.operator}")
        except Error as error:
            reason = str(error).splitlines()[0].partition(" ('attnspec list operators'")[0]
            start.says.append(f"{name} is skipped: {reason}")
    if not blocks:
        says = "\n".join(start.says) or f"{path} has no public function"
        raise UsageError(f"{says}\nno function of {path} can be called as an operator; name one with --operator")
    says = f"Adapters for {path.name}, as `attnspec init` has found them."
    head = f'"""{says}\n\n    attnspec check {path.stem}_attnspec.py\n"""'
    return (
        "\n\n".join([head, f"import {path.stem}\n\nfrom attnspec import adapter", *(f"\n{b}" for b in blocks)]) + "\n"
    )


def _of_class(path: Path, name: str, operator: str | None, start: Start) -> str:
    """The text of a file with the declaration of a class."""
    from ..runs.groups import library_of, supervisor_of
    from ..runs.mappings import head
    from ..runs.options import Options
    from ..runs.weights import likeliest, operators_of, snake

    supervised = supervisor_of(Options())
    if supervised is None:
        raise UsageError("a class is built in a worker process, which this system does not have")
    kind, found = likeliest(
        path, name, supervised, library_of(Options()), [operator] if operator else operators_of(name)
    )
    text = found.text(snake(name))
    start.says += [found.says, *(f"{name} is uncertain: {doubt}" for doubt in found.doubts)]
    start.says += [f"{name}: {one}" for one in found.left]
    about = f"{name} of {path.name} as a subject, its weights as `attnspec init` has mapped them."
    return (
        f'"""{about}\n\n    attnspec check {path.stem}_attnspec.py\n"""\n\n{head(kind.imported[1], [text])}\n\n{text}\n'
    )


def _subject(target: str, operator: str | None, framework: str | None) -> AdapterSubject:
    """The function as a subject, in the framework and the layout that calls show."""
    from ..judging.layouts import lay_out
    from ..runs.groups import groups
    from ..runs.options import Options
    from ..subjects.subject import AdapterSubject

    found = groups(Options(targets=(target,), operator=operator, framework=framework))
    subject = found[0].subject if found else None
    if not isinstance(subject, AdapterSubject):
        raise TargetError(f"{target} cannot be called")
    with subject.session():
        lay_out(subject, subject.mechanism.stating, subject.claims.dtypes[0], "cpu")
    return subject


def _conventions(subject: AdapterSubject) -> Iterator[tuple[str, str, str]]:
    """Each convention that outputs show, its word, and the cases that tell it."""
    from .identification import identified

    for findings in identified(subject, "cpu", subject.claims.dtypes[:1]).values():
        for name, finding in findings.items():
            if finding.how == "observed":
                yield name, finding.word, f"shown by {', '.join(finding.told_by[:3])}"


def adapter_text(module: str, name: str, subject: AdapterSubject, conventions: Iterator[tuple[str, str, str]]) -> str:
    """The declaration of one function, and a call of it with the parameters that mean something to its operator."""
    interface = subject.form.taken
    first = f'    like="{interface.signature.name}",' if interface else f'    "{subject.operator}",'
    lines = ["@adapter(", first, f'    framework="{subject.adapter.framework}",']
    lines += ['    dtypes=("float32",),  # and the others that it takes']
    if subject.observed_layout:
        lines.append(f'    layout="{subject.form.layout.name}",')
    words = [f'        "{convention}": "{word}",  # {told}' for convention, word, told in conventions]
    lines += ["    conventions={", *words, "    },"] if words else []
    kinds = inspect.Parameter
    parameters = inspect.signature(subject.adapter.function).parameters.values()
    known = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if interface:
        own = [
            p for p in known if p.default is p.empty or (p.name in interface.passed and p.name not in interface.left)
        ]
        inputs, optional = [p for p in own if p.default is p.empty], [p for p in own if p.default is not p.empty]
    else:
        optional = [p for p in known if p.name in subject.claims.names]
        inputs = [p for p in known if p.default is p.empty and p not in optional]
    named = [p for p in inputs if p.kind is kinds.KEYWORD_ONLY] + optional
    inputs = [p for p in inputs if p.kind is not kinds.KEYWORD_ONLY]
    taken = [p.name for p in inputs] + ["*"] * bool(named) + [_parameter(p) for p in named]
    passed = [p.name for p in inputs] + [f"{p.name}={p.name}" for p in named]
    lines += [")", f"def {name}({', '.join(taken)}):"]
    return "\n".join([*lines, f"    return {module}.{name}({', '.join(passed)})"])


def _parameter(p: inspect.Parameter) -> str:
    return p.name if p.default is p.empty else f"{p.name}={p.default!r}"


# The table, and files


def _table(target: Path, start: Start) -> None:
    """The table of a project, at the end of a pyproject.toml that has none; or said, where there is no such file."""
    text = f'[tool.attnspec]\ntargets = ["{target.as_posix()}"]\n'
    project = Path("pyproject.toml")
    if not project.is_file():
        start.says += ["there is no pyproject.toml here; add this table to it:", "", *text.splitlines()]
    elif TABLE.search(project.read_text("utf-8")):
        start.says.append(f"pyproject.toml has a table [tool.attnspec]; add {target.as_posix()!r} to its targets")
    else:
        start.further[project] = f"\n{text}"


def write(start: Start) -> None:
    """Write all files, or none: what was written is taken back where one cannot be."""
    written: list[Path] = []
    try:
        for path, text in start.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
        for path, text in start.further.items():
            _append(path, text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}; nothing was written") from None
    told: Mapping[str, Mapping[Path, str]] = {"wrote": start.files, "added [tool.attnspec] to": start.further}
    start.says += [f"{what} {path}" for what, files in told.items() for path in files]


def _append(path: Path, text: str) -> None:
    """Add to a file, which is never half of what it was and half of what it is to be."""
    from ..data.files import replace_text

    whole = path.read_text("utf-8")
    replace_text(path, f"{whole.rstrip()}\n{text}" if whole.strip() else text.lstrip())
