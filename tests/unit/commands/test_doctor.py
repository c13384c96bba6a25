"""What is available, what is not and why, and what fixes it."""

import pytest
from click.testing import CliRunner

from attnspec.adapters import Adapter
from attnspec.cli import main
from attnspec.commands import packages as doctor
from attnspec.commands.packages import Package, importing, lines, packages
from attnspec.data.store import Store, digest


def presenting(package, **declared):
    return Adapter(f"{package}_one", "softmax", print, "torch", package=package, **declared)


@pytest.fixture
def shipped(monkeypatch):
    """The adapters that are looked at."""

    def shipped(*adapters):
        monkeypatch.setattr(doctor, "shipped", lambda: list(adapters))
        return {package.name: package for package in packages()}

    monkeypatch.setattr(doctor, "counted", lambda: ("2.13.0+cpu", ()))
    return shipped


@pytest.fixture(autouse=True)
def there(monkeypatch):
    """The devices that are there."""
    monkeypatch.setattr(doctor, "listed", lambda: {"torch": ("cpu", "xpu:0"), "cupy": ()})


def test_the_devices_of_every_framework_are_listed():
    assert "devices: torch: cpu, xpu:0; cupy: none" in list(lines([Package("one", "1.0", (presenting("one"),))]))


def test_a_package_that_can_be_imported_works(shipped):
    found = shipped(presenting("yaml"), presenting("numpy"), presenting("numpy.linalg"))
    assert {"yaml": ("", 1), "numpy": ("", 2)} == {n: (p.fault, len(p.adapters)) for n, p in found.items()}
    assert all(package.version for package in found.values())


def test_a_package_that_is_missing_comes_with_the_command_that_installs_it(shipped):
    found = shipped(presenting("no_such_package", extra="none"), presenting("no_such_other"))
    assert ("not installed", "pip install 'attnspec[none]'", False) == (
        found["no_such_package"].fault,
        found["no_such_package"].mends,
        found["no_such_package"].broken,
    )
    assert "pip install no_such_other" == found["no_such_other"].mends


def test_a_package_for_devices_that_are_not_there_is_not_broken(shipped, monkeypatch):
    found = shipped(presenting("yaml", devices=("cuda",)))
    assert ("needs a CUDA device, and there is none", "") == (found["yaml"].fault, found["yaml"].mends)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x = 1\n", ""),
        ("import no_such_part.of_it\n", "cannot be imported: ModuleNotFoundError: No module named 'no_such_part'"),
        ("import os\nos._exit(3)\n", "cannot be imported: ended with status 3"),
        (
            "raise OSError('libcudart.so.13: cannot open')\n",
            "cannot be imported: OSError: libcudart.so.13: cannot open",
        ),
    ],
)
def test_what_an_import_says_is_kept(tmp_path, monkeypatch, text, fault):
    (tmp_path / "broken_package.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert fault == importing("broken_package")


@pytest.mark.parametrize(
    ("fault", "mends"),
    [
        ("cannot be imported: ModuleNotFoundError: No module named 'no_such_part'", "pip install no_such_part"),
        ("cannot be imported: OSError: something else", ""),
        ("cannot be imported: RuntimeError: operator torchvision::nms does not exist", "pip uninstall torchvision"),
    ],
)
def test_a_fault_that_is_known_comes_with_what_mends_it(monkeypatch, fault, mends):
    monkeypatch.setattr(doctor, "find_spec", lambda name: name)
    assert mends == doctor._mends(fault)


@pytest.mark.parametrize(
    ("torch", "mends"),
    [
        ("2.13.0+cpu", "pip install torchvision --index-url https://download.pytorch.org/whl/cpu"),
        ("2.13.0+cu130", "pip install torchvision"),
    ],
)
def test_torchvision_comes_from_where_its_torch_came_from(monkeypatch, torch, mends):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor, "counted", lambda: (torch, ()))
    assert mends == doctor._mends("cannot be imported: ModuleNotFoundError: No module named 'torchvision'")


def test_what_works_comes_first_and_what_is_broken_last():
    found = [
        Package("broken", "1.0", (presenting("broken"),), "cannot be imported: why", "pip install why"),
        Package("missing", "", (presenting("missing"),), "not installed", "pip install missing"),
        Package("working", "2.0", (presenting("working"), presenting("working"))),
    ]
    assert [
        "working  2.0           2 adapters    works",
        "missing  -             1 adapter     not installed: pip install missing",
        "broken   1.0           1 adapter     cannot be imported: why: pip install why",
    ] == list(lines(found))[-3:]


@pytest.mark.parametrize(("fault", "mends", "code"), [("", "", 0), ("cannot be imported", "pip install x", 6)])
def test_the_command_fails_if_something_is_broken_that_can_be_mended(monkeypatch, fault, mends, code):
    found = [Package("package", "1.0", (presenting("package"),), fault, mends)]
    monkeypatch.setattr(doctor, "packages", lambda: found)
    result = CliRunner().invoke(main, ["doctor"])
    assert (code, True) == (result.exit_code, "package  1.0" in result.output)


def test_the_folder_of_caches_is_told_with_its_size_and_how_to_empty_it(tmp_path, monkeypatch):
    folder = tmp_path / "of caches"
    monkeypatch.setenv("ATTNSPEC_CACHE", str(folder))
    Store("things", 1 << 20).put(digest("key"), bytes(100_000))
    one = [Package("yaml", "1", ())]
    assert f"caches: {folder}   0.1 MB; rm -r '{folder}' empties it" in [*lines(one)]
    folder.chmod(0o777)
    assert f"caches: {folder}   not used: other users may write to it" in [*lines(one)]
    monkeypatch.setenv("ATTNSPEC_CACHE", "off")
    assert "caches: none, because of ATTNSPEC_CACHE" in [*lines(one)]
