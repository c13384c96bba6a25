"""What a command costs from its start to its end: CPU seconds of all its processes, wall time, and peak memory.

    python benchmarks/start.py [COMMIT]

Each command is run three times as it is and, in turn, with the attnspec of another commit, in folders of their own;
the least of three is told, and beside it what `import torch` takes on the same machine.
The first run finds no cache, the second one those of the first; before every second run the kernel is edited.
"""

from __future__ import annotations

import compileall
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

BEFORE = "149180a"
"""The commit before all that was done for a quick start."""
TIMES = 3
HOME = Path(__file__).resolve().parents[1]
KERNEL = """import torch
def attention(q, k, v, *, causal=False, scale=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = (q @ k.transpose(-1, -2)) * scale
    if causal:
        n, m = s.shape[-2:]
        s = s.masked_fill(torch.ones(n, m, dtype=torch.bool).triu(1 + m - n), float("-inf"))
    return torch.softmax(s, -1) @ v
"""
CHECK = ("check", "kernel.py:attention", "--dtype", "float32")
COMMANDS: dict[str, Sequence[str]] = {
    "--help": ("--help",),
    "first list": ("list", "mechanisms"),
    "second list": ("list", "mechanisms"),
    "explain": ("explain", "causal_mask"),
    "usage error": ("check", "kernel.py:attention", "--dtype", "float31"),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of a command and of all that it has started, wall seconds, and MiB of its largest process."""

    cpu: float
    wall: float
    peak: float

    def __str__(self) -> str:
        return f"{self.cpu:6.2f} s CPU {self.wall:6.2f} s {self.peak:5.0f} MiB"


def cost_of(command: Sequence[str], folder: Path, package: Path) -> Cost:
    """What a command of Python costs; a process of its own waits for it, so that nothing else is counted."""
    reading, writing = os.pipe()
    environment = {name: x for name, x in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
    environment |= {"PYTHONPATH": str(package), "ATTNSPEC_CACHE": str(folder / "cache")}
    started, pid = time.perf_counter(), os.fork()
    if not pid:
        done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, check=False)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.write(writing, f"{spent.ru_utime + spent.ru_stime} {spent.ru_maxrss} {done.returncode}".encode())
        os._exit(0)
    os.waitpid(pid, 0)
    wall = time.perf_counter() - started
    cpu, peak, _ = os.read(reading, 1 << 10).split()
    os.close(reading)
    os.close(writing)
    return Cost(float(cpu), wall, float(peak) / 1024)


def unpacked(commit: str, folder: Path) -> Path:
    """The package of a commit, or of the files as they are, compiled as an installation would be."""
    source = folder / "source"
    if commit:
        source.mkdir(parents=True)
        archive = subprocess.run(["git", "-C", HOME, "archive", commit], capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
    root = source if commit else HOME
    shutil.copytree(root / "conformance", folder / "attnspec", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("adapters", "reference", "spec"):
        shutil.copytree(root / name, folder / "attnspec" / name, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder / "attnspec", quiet=2)
    return folder


def runs(folder: Path, package: Path) -> Iterator[tuple[str, Cost]]:
    """Every command once, with what it costs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    attnspec = ("-m", "attnspec.cli")
    for edit, name in enumerate(("first run", "second run")):
        (folder / "kernel.py").write_text(f"{KERNEL}# edit {edit}\n")
        yield name, cost_of([*attnspec, *CHECK], folder, package)
    for name, command in COMMANDS.items():
        yield name, cost_of([*attnspec, *command], folder, package)
    yield "import torch", cost_of(["-c", "import torch"], folder, package)


def least(costs: Sequence[Cost]) -> Cost:
    """The least of each, which the rest of the machine has disturbed the least."""
    parts: list[Callable[[Cost], float]] = [lambda c: c.cpu, lambda c: c.wall, lambda c: c.peak]
    return Cost(*(min(map(part, costs)) for part in parts))


def main(commit: str = BEFORE) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        packages = {name: unpacked(name, Path(temporary, name or "now")) for name in (commit, "")}
        found: dict[str, dict[str, list[Cost]]] = {name: {} for name in packages}
        for _ in range(TIMES):
            for version, package in packages.items():
                for name, cost in runs(Path(temporary, "work"), package):
                    found[version].setdefault(name, []).append(cost)
    print(f"{'':14}{commit:^32}{'now':^32}")
    for name, costs in found[""].items():
        before, now = least(found[commit][name]), least(costs)
        print(f"{name:14}{before!s:32}{now!s:32}{now.cpu / before.cpu:5.0%}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
