"""What a file imports from beside it belongs to it: it is watched, and a change of it loads the file anew."""

import os

import pytest

from attnspec.execution.beside import imported, stamp_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import helpers, numpy", ["helpers.py"]),
        ("def f():\n    from helpers import scores", ["helpers.py", "scores.py"]),
        ("from parts import tiles", ["parts/__init__.py", "parts/tiles.py", "parts/sizes.py"]),
        ("import parts.tiles", ["parts/__init__.py", "parts/tiles.py", "parts/sizes.py"]),
        ("import kernel", []),
        ("import this is no Python", []),
    ],
)
def test_what_a_file_imports_from_beside_it_is_found(text, expected, tmp_path):
    (tmp_path / "parts").mkdir()
    written = {
        "kernel.py": text,
        "helpers.py": "from scores import weights" if "scores" in text else "",
        "scores.py": "",
        "parts/__init__.py": "",
        "parts/tiles.py": "from .sizes import SIZES\nfrom . import nothing",
        "parts/sizes.py": "",
    }
    for name, content in written.items():
        (tmp_path / name).write_text(content)
    assert sorted(expected) == sorted(str(path.relative_to(tmp_path)) for path in imported([tmp_path / "kernel.py"]))


def test_a_change_of_what_is_imported_changes_the_stamp(tmp_path):
    kernel, helpers = tmp_path / "kernel.py", tmp_path / "helpers.py"
    kernel.write_text("import helpers")
    helpers.write_text("first")
    before = stamp_of(kernel)
    assert before == stamp_of(kernel)
    helpers.write_text("other")
    os.utime(helpers, ns=(before[0] + 1, before[0] + 1))
    assert before != stamp_of(kernel)


def test_a_file_that_is_not_there_has_no_stamp(tmp_path):
    with pytest.raises(OSError, match="kernel"):
        stamp_of(tmp_path / "kernel.py")
