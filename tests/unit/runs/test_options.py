"""An option is stated once, and is the same wherever it can be given."""

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

import attnspec
from attnspec import plugin
from attnspec.commands.check import check
from attnspec.execution.supervisor import SECONDS
from attnspec.runs.options import CALL, FILE, LINE, OPTIONS, PYTEST, REPORT_DIR, SURFACES, Options, given_at
from attnspec.runs.project import declared

KEYWORDS = inspect.signature(attnspec.check).parameters
ANOTHER = {str: "another", int: 7, float: 7.5, bool: True}


def test_every_field_is_an_option_with_a_sentence():
    assert [field.name for field in fields(Options)] == [*OPTIONS]
    assert [] == [option.name for option in OPTIONS.values() if not option.says.endswith((".", ".'"))]
    assert {name: x.default for name, x in OPTIONS.items()} == {f: getattr(Options(), f) for f in OPTIONS}
    assert SECONDS == OPTIONS["time_limit"].default


def test_the_command_line_has_every_option():
    stated = {
        name: x for name, x in ((p.name, p) for p in check.params) if name not in ("every", "watch", "verbose", "help")
    }
    assert {option.name for option in given_at(LINE)} == {*stated}
    for option in given_at(LINE):
        own = stated[option.name]
        flags = {*own.opts, *own.secondary_opts}
        assert option.name == "targets" or {f"--{option.flag}"} <= flags
        assert (option.several, option.kind is bool) == (
            own.multiple or own.nargs == -1,
            getattr(own, "is_flag", False),
        )
        assert option.name == "targets" or option.says.removesuffix(".") in own.help
        default = REPORT_DIR if option.name == "report_dir" else option.default
        assert option.several or default == own.default


def test_pytest_has_every_option():
    stated = {}

    class Parser:
        def getgroup(self, *_):
            return self

        def addoption(self, name, **more):
            stated[more["dest"].removeprefix("attnspec_")] = (name, more)

    plugin.pytest_addoption(Parser())
    assert {option.name for option in given_at(PYTEST)} == {*stated}
    for option in given_at(PYTEST):
        name, more = stated[option.name]
        assert (option.says, None) == (more["help"], more["default"])
        assert option.several == (more.get("action") == "append")
        assert option.kind is bool or option.kind is more["type"]
        assert name in ("--attnspec", f"--attnspec-{option.flag}", f"--attnspec-no-{option.flag}")


def test_the_function_has_every_option():
    names = [option.name for option in given_at(CALL) if option.name != "targets"]
    assert sorted(names) == sorted(set(KEYWORDS) - {"target", "declaration"})
    assert {name: OPTIONS[name].default for name in names} == {name: KEYWORDS[name].default for name in names}


@pytest.mark.parametrize("option", given_at(FILE), ids=lambda option: option.name)
def test_a_project_can_declare_every_option_and_nothing_of_another_type(option):
    x = option.choices[-1] if option.choices else ANOTHER[option.kind]
    written = repr(x).lower() if isinstance(x, bool) else repr(x).replace("'", '"')
    Path("pyproject.toml").write_text(
        f"[tool.attnspec]\n{option.name} = {f'[{written}]' if option.several else written}\n"
    )
    assert {option.name: (x,) if option.several else x} == declared(Path.cwd())
    for wrong in ("{}", "[1]", "1979-05-27", '"a"' if option.kind is not str or option.several else "1"):
        Path("pyproject.toml").write_text(f"[tool.attnspec]\n{option.name} = {wrong}\n")
        with pytest.raises(
            attnspec.UsageError, match=rf"pyproject.toml: \[tool.attnspec\] {option.name} is .*; expected"
        ):
            declared(Path.cwd())


def test_every_option_can_be_given_somewhere():
    assert set(SURFACES) == {where for option in OPTIONS.values() for where in option.where}
    assert all(option.where for option in OPTIONS.values())
