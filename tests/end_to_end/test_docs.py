"""The documents say what the code does."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from attnspec.cli import main
from attnspec.frameworks.known import FRAMEWORKS
from attnspec.language.draws import DRAWS
from attnspec.language.functions import FUNCTIONS
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import LAYOUTS
from attnspec.mechanisms.signatures import signatures
from attnspec.subjects.registered import shipped

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "conformance"
DOCS = ROOT / "docs"


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def rooms() -> dict[str, set[str]]:
    """The rows of the table of rooms: the modules of each, in the order of the layers."""
    table = text("ARCHITECTURE.md").partition("| room | question | modules |")[2].partition("\n\n")[0]
    rows = [line.split("|") for line in table.splitlines()[2:]]
    return {re.findall(r"`(\w*)/?`", row[1])[0]: set(re.findall(r"`(\w+)`", row[3])) for row in rows}


def modules() -> list[Path]:
    return [p for p in sorted(CONFORMANCE.rglob("*.py")) if p.stem != "__init__"]


def room(path: Path) -> str:
    return path.parent.name if path.parent != CONFORMANCE else path.stem


def imported(path: Path) -> Iterator[str]:
    """Rooms that a file imports from, by relative or absolute imports, when it is imported or later."""
    parents = path.relative_to(CONFORMANCE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[1] for name in node.names if name.name.startswith("attnspec."))
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if not node.level and module.partition(".")[0] != "attnspec":
                continue
            within = parents[: len(parents) + 1 - node.level] if node.level else ()
            named = [*within, *filter(None, module.removeprefix("attnspec").split("."))]
            yield from named[:1] or [alias.name for alias in node.names]


def test_the_architecture_places_every_module_once():
    found = {path.relative_to(CONFORMANCE).with_suffix("").as_posix() for path in modules()}
    placed = {(name, one) for name, inside in rooms().items() for one in inside}
    assert found == {f"{name}/{one}" if (CONFORMANCE / name).is_dir() else one for name, one in placed}


@pytest.mark.parametrize("path", modules(), ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_module_imports_from_its_room_and_those_above(path):
    above = list(rooms())
    at = {name: row for row, name in enumerate(above)}
    assert [] == [name for name in imported(path) if at.get(name, -1) > at[room(path)]]


def test_absolute_imports_are_seen_too(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "CONFORMANCE", tmp_path)
    (tmp_path / "room").mkdir()
    path = tmp_path / "room" / "module.py"
    path.write_text(
        "import numpy, attnspec.runs.runner\nfrom attnspec.judging import cells\nfrom attnspec import api\n"
        "from ..cases import plans\nfrom .other import x\nfrom .. import errors\n"
    )
    assert ["runs", "judging", "api", "cases", "room", "errors"] == list(imported(path))


@pytest.mark.parametrize("function", [*FUNCTIONS.values(), *DRAWS.values()], ids=lambda f: f.name)
def test_the_language_document_has_every_function(function):
    assert f"| `{function.usage}` | {function.says} |" in text("spec/README.md")


@pytest.mark.parametrize("operator", [m for m in library().values() if m.name == m.operator], ids=lambda m: m.name)
def test_the_language_document_has_the_signature_of_every_operator(operator):
    row = next(line for line in text("spec/README.md").splitlines() if line.startswith(f"| `{operator.name}` |"))
    options = [name for name in operator.options if name not in {*operator.conventions, *operator.typing}]
    named = [*operator.inputs, *options, *operator.outputs]
    assert named == [name for cell in row.split("|")[2:5] for name in re.findall(r"`(\w+)", cell)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_language_document_has_every_layout(layout):
    assert f"`{layout}`" in text("spec/README.md")


@pytest.mark.parametrize("key", re.findall(r'^    "(\w+)": \{', text("spec/schema.json"), re.MULTILINE)[:24])
def test_the_language_document_has_every_key(key):
    assert f"`{key}`" in text("spec/README.md")


@pytest.mark.parametrize("one", signatures().values(), ids=signatures())
def test_the_page_of_interfaces_has_every_one_with_its_operator(one):
    rows = text("docs/interfaces.md").splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `{one.name}` |")]
    _, _, also, operator, _, _ = (cell.strip() for cell in row.split("|"))
    assert (", ".join(f"`{name}`" for name in one.also), f"`{one.operator}`") == (also, operator)


def test_the_page_of_interfaces_has_every_framework():
    page = text("docs/interfaces.md")
    assert [] == [name for name in FRAMEWORKS if f"| `{name}` |" not in page]


def test_the_readme_names_both_commands_that_set_up():
    assert {"make check", "make test"} <= {line.partition("#")[0].strip() for line in text("README.md").splitlines()}


def commands(page: str) -> list[list[str]]:
    """The lines of `attnspec` in the blocks of code of a page, as their words."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text(page), re.DOTALL | re.MULTILINE)
    lines = [re.sub(r"^\s*(- run: )?|\s+#.*| >> .*", "", line) for block in blocks for line in block.splitlines()]
    return [shlex.split(line.replace("${{ matrix.part }}", "1")) for line in lines if line.startswith("attnspec ")]


@pytest.mark.parametrize("page", ["README.md", "docs/ci.md", "docs/private.md", "docs/vectors.md", "docs/workloads.md"])
def test_the_commands_of_the_documents_are_understood(page):
    found = commands(page)
    for _, name, *words in found:
        command = main.commands[name]
        command.make_parser(click.Context(command)).parse_args(words)  # an unknown option is an error
    assert found


@pytest.mark.parametrize("name", sorted({"check", "list", "explain", "replay", "report", "waive"}))
def test_the_readme_names_the_commands_of_a_user(name):
    assert f"attnspec {name}" in text("README.md")


def test_the_changelog_has_every_mechanism():
    assert [] == [name for name in library() if f"`{name}`" not in text("CHANGELOG.md")]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in DOCS.glob("*.md"))])
def test_links_of_the_documents_lead_somewhere(page):
    links = re.findall(r"\]\(([\w/.]+)\)", text(page))
    assert [] == [link for link in links if not (ROOT / page).parent.joinpath(link).exists()]


def test_the_readme_leads_to_every_page():
    assert [] == [p.name for p in DOCS.glob("*.md") if f"(docs/{p.name})" not in text("README.md")]


def test_every_adapter_that_needs_a_package_names_an_extra_of_the_project():
    extras = text("pyproject.toml").partition("[project.optional-dependencies]")[2].partition("\n\n")[0]
    assert [] == [a.name for a in shipped() if a.extra and f"\n{a.extra} = " not in extras]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "spec/README.md",
        "docs/ci.md",
        "docs/comparing.md",
        "docs/failures.md",
        "docs/findings.md",
        "docs/interfaces.md",
        "docs/matrix.md",
        "docs/modules.md",
        "docs/private.md",
        "docs/running.md",
        "docs/testing.md",
        "docs/vectors.md",
    ],
)
def test_documents_have_one_sentence_a_line(page):
    prose = re.sub(r"```.*?```", "", text(page), flags=re.DOTALL)
    lines = [x for x in prose.splitlines() if x and not x.startswith("|")]
    assert [] == [x for x in lines if re.search(r"[a-z`)]\. [A-Z]", x)]


@pytest.mark.parametrize("page", sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")))
def test_rows_of_a_table_have_as_many_cells_as_its_head(page):
    wanted, off = None, []
    for number, line in enumerate(text(page).splitlines(), 1):
        found = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        wanted = None if found is None else wanted or found
        off += [number] if found != wanted else []
    assert [] == off
