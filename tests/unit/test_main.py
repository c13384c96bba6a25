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


def test_a_command_ends_its_process_without_taking_it_apart():
    script = """
import atexit
from attnspec.cli import main

class Kept:
    def __del__(self):
        print("taken apart")

kept = Kept()
atexit.register(print, "at the end")
main()
"""
    made = subprocess.run(
        [sys.executable, "-c", script, "list", "functions"], capture_output=True, text=True, check=True
    )
    assert ("at the end", False) == (made.stdout.splitlines()[-1], "taken apart" in made.stdout)
    made = subprocess.run(
        [sys.executable, "-c", script, "list", "nothing"], capture_output=True, text=True, check=False
    )
    assert (4, "at the end\n") == (made.returncode, made.stdout)
