"""The package as a command."""

import subprocess
import sys


def test_the_package_is_the_command():
    made = [
        subprocess.run([sys.executable, *how, "list", "laws"], capture_output=True, text=True, check=True)
        for how in (("-m", "attnspec"), ("-c", "from attnspec.cli import main; main()"))
    ]
    assert made[0].stdout == made[1].stdout
    assert "attention.key_shift" in made[0].stdout
