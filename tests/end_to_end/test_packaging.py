"""What is installed, and who imports whom."""

import ast
import configparser
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from attnspec import reference
from attnspec.mechanisms.loader import library

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"conformance": "attnspec", **{name: f"attnspec/{name}" for name in ("spec", "reference", "adapters")}}
CONFORMANCE = ROOT / "conformance"


# The wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel that was built from a copy of what git has, without a network."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    done = subprocess.run([sys.executable, "-c", build], cwd=tree, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr[-2000:]
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_the_only_name_that_is_installed_is_attnspec(files):
    assert {"attnspec", "attnspec-0.1.0.dist-info"} == {name.partition("/")[0] for name in files}


def test_everything_in_the_folders_is_in_the_wheel(files):
    kept = (".py", ".yaml", ".json", ".md", ".typed", ".html", ".css", ".js", ".svg")
    own = {
        f"{package}/{path.relative_to(ROOT / folder)}"
        for folder, package in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.name.endswith(kept)
    }
    assert own == {name for name in files if name.startswith("attnspec/")}


def test_every_mechanism_has_one_file(files):
    stems = [Path(name).stem for name in files if re.fullmatch(r"attnspec/spec/\w+\.yaml", name)]
    assert sorted(library()) == sorted(stems)
    assert {
        "attnspec/spec/schema.json",
        "attnspec/spec/README.md",
        "attnspec/py.typed",
        "attnspec/runs/waivers.json",
    } <= set(files)


def test_every_folder_is_a_package_that_is_listed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = [
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts]).replace("/", ".")
        for folder, package in FOLDERS.items()
        for path in (ROOT / folder).rglob("__init__.py")
    ]
    assert sorted(found) == sorted(listed)


def test_the_metadata_say_what_is_needed(files):
    metadata = Parser().parsestr(files["attnspec-0.1.0.dist-info/METADATA"])
    assert ("attnspec", "0.1.0", "Apache-2.0") == tuple(
        metadata[key] for key in ("Name", "Version", "License-Expression")
    )
    assert ">=3.11" == metadata["Requires-Python"]
    assert (ROOT / "README.md").read_text() == metadata.get_payload()
    assert {"transformers", "onnx", "all"} <= set(metadata.get_all("Provides-Extra"))
    needed = {line.partition(">")[0] for line in metadata.get_all("Requires-Dist") if "extra" not in line}
    assert {
        "click",
        "hypothesis",
        "jinja2",
        "jsonschema",
        "latex2mathml",
        "numpy",
        "pytest",
        "pyyaml",
        "torch",
    } <= needed
    assert (ROOT / "LICENSE").read_text() == files["attnspec-0.1.0.dist-info/licenses/LICENSE"]


def test_the_command_and_the_plugin_are_registered(files):
    entries = configparser.ConfigParser()
    entries.read_string(files["attnspec-0.1.0.dist-info/entry_points.txt"])
    assert {"attnspec": "attnspec.cli:main"} == dict(entries["console_scripts"])
    assert {"attnspec": "attnspec.plugin"} == dict(entries["pytest11"])


def test_the_wheel_works_where_it_is_unpacked(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    script = "import attnspec; from attnspec.mechanisms.loader import library; print(attnspec.__file__, *library())"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ("", [str(tmp_path / "site/attnspec/__init__.py"), *library()]) == (done.stderr, done.stdout.split())


# Who imports whom


def imports(path, *, when_loaded=False):
    """Absolute imports by their first name, and relative ones as they are written."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body if when_loaded else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "") if node.level else str(node.module).partition(".")[0]


def modules(folder):
    return [pytest.param(path, id=path.stem) for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", modules("reference"))
def test_the_reference_imports_numpy_alone(path):
    foreign = {name for name in imports(path) if not name.startswith(".")} - sys.stdlib_module_names
    assert foreign <= {"numpy"}
    assert not any(name.startswith("..") for name in imports(path))


@pytest.mark.parametrize("path", modules("adapters"))
def test_adapters_import_nothing_of_the_suite(path):
    assert "attnspec" not in imports(path)
    assert not any(name.startswith("...") for name in imports(path))


@pytest.mark.parametrize("path", modules("conformance"))
def test_the_suite_imports_frameworks_only_where_they_are_used(path):
    heavy = {"torch", "transformers", "onnx", "hypothesis", "jinja2", "jsonschema", "latex2mathml", "ml_dtypes"}
    heavy -= {"hypothesis"} if path.stem == "strategies" else set()
    assert set() == heavy & set(imports(path, when_loaded=True))


LIGHT = (
    "",
    "data.texts",
    "errors",
    "execution.threads",
    "reporting.progress",
    "reporting.typesetting",
    "runs.interruptions",
    "runs.options",
    *(f"commands.{name}" for name in ("shell", "check", "replay", "repro", "identify", "doctor", "report", "waive")),
    *(
        f"commands.{name}"
        for name in (
            "compare",
            "diff",
            "init",
            "list",
            "explain",
            "lint",
            "audit",
            "vectors",
            "site",
            "check_protocol",
            "plan",
            "mutate",
            "freeze",
            "record",
        )
    ),
)
"""What is imported before anybody knows what will be done."""


@pytest.mark.parametrize("name", [*LIGHT, "cli", "plugin"])
def test_what_is_loaded_everywhere_imports_next_to_nothing(name):
    path = CONFORMANCE.joinpath(*filter(None, name.split(".")))
    path = path.with_suffix(".py") if name else path / "__init__.py"
    light = sys.stdlib_module_names | {"pytest", "click"}
    room = name.rpartition(".")[0]
    own = {f"{room}.{one[1:]}" if room and not one.startswith("..") else one.lstrip(".") for one in relative(path)}
    assert set() == own - set(LIGHT)
    assert set() == {one for one in imports(path, when_loaded=True) if not one.startswith(".")} - light


def relative(path):
    return {one for one in imports(path, when_loaded=True) if one.startswith(".")}


def arrows(path):
    """The modules of the suite that a module imports, at once or later."""
    parts = path.relative_to(CONFORMANCE).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            within = parts[: -node.level] if node.level else ()
            named = (node.module or "").removeprefix("attnspec").strip(".")
            base = CONFORMANCE.joinpath(*within, *filter(None, named.split(".")))
            if node.level or str(node.module).startswith("attnspec"):
                found = [base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)]
                yield from (other for other in found if other.is_file())


def test_the_arrows_between_modules_have_no_circle():
    open_ = {path: set(arrows(path)) for path in CONFORMANCE.rglob("*.py")}
    assert sum(map(len, open_.values())) > 100
    while ready := [path for path, others in open_.items() if not others & set(open_)]:
        for path in ready:
            del open_[path]
    assert [] == sorted(path.stem for path in open_)


# One idea, one name


def test_every_operator_has_a_reference_of_its_name():
    operators = {mechanism.operator for mechanism in library().values()}
    assert operators == set(reference.__all__)
    assert [] == [name for name in operators if not callable(getattr(reference, name))]
