"""What a command costs from its start to its end: CPU seconds of all its processes, wall time, and peak memory.

    python benchmarks/start.py [COMMIT]

Each command is run three times as it is and, in turn, with the attnspec of another commit, in folders of their own;
the least of three is told, and beside it what `import torch` takes on the same machine.
The first list and the first run find no cache, and the second run finds that of the first; before it the kernel is
edited.
A round of `--watch` begins when the kernel is saved, right or with a fault, and ends when it is watched again.
Linux alone says what a process costs while it goes on.
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
FAULT = ("triu(1 + m - n)", "triu(m - n)")
"""A text of the kernel, and what makes it wrong."""
PATIENCE = 120
"""Seconds that a round of `--watch` may take."""
COMMANDS: dict[str, Sequence[str]] = {
    "--help": ("--help",),
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


def watch_rounds(folder: Path, package: Path) -> Iterator[tuple[str, Cost]]:
    """Rounds of `--watch` after an edit and after a fault, and what the failure took; none without `--watch`."""
    kernel, told = folder / "kernel.py", folder / "watch.txt"
    kernel.write_text(KERNEL)
    environment = os.environ | {"PYTHONPATH": str(package), "ATTNSPEC_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "attnspec.cli", *CHECK, "--watch"]
    edits = {"warm": KERNEL.replace(*FAULT), "watch: edit": KERNEL, "watch: fault": KERNEL.replace(*FAULT)}
    with told.open("wb") as out, subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out) as one:
        try:
            if not until(told, b"watching", one):
                return
            for name, text in edits.items():
                spent, started, past = cpu_of(one.pid), time.perf_counter(), told.stat().st_size
                kernel.write_text(text)
                if name == "watch: fault":
                    until(told, b"Smallest", one, past)
                    yield "  its failure", Cost(cpu_of(one.pid) - spent, time.perf_counter() - started, 0.0)
                until(told, b"watching", one, past)
                if name != "warm":
                    yield name, Cost(cpu_of(one.pid) - spent, time.perf_counter() - started, peak_of(one.pid))
        finally:
            one.terminate()


def until(told: Path, text: bytes, process: subprocess.Popen[bytes], past: int = 0) -> bool:
    """Wait for a text in a file beyond a place; False where the process ends without it."""
    deadline = time.monotonic() + PATIENCE
    while text not in told.read_bytes()[past:]:
        if process.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {text.decode()!r} in {PATIENCE} s:\n{told.read_text()}")
        time.sleep(0.01)
    return True


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, of all that descend from it, and of those of them that have ended."""
    parents, seconds = dict[int, int](), dict[int, float]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(path.parent.name)] = int(parts[1])
        seconds[int(path.parent.name)] = sum(map(int, parts[11:15])) / os.sysconf("SC_CLK_TCK")
    own = {pid}
    while further := {child for child, parent in parents.items() if parent in own} - own:
        own |= further
    return sum(seconds.get(one, 0.0) for one in own)


def peak_of(pid: int) -> float:
    """MiB that a process has held at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


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
    (folder / "cache").mkdir(parents=True)  # in advance, for a list is made anew where the working directory changes
    attnspec = ("-m", "attnspec.cli")
    for name in ("first list", "second list"):
        yield name, cost_of([*attnspec, "list", "mechanisms"], folder, package)
    shutil.rmtree(folder / "cache")
    for edit, name in enumerate(("first run", "second run")):
        (folder / "kernel.py").write_text(f"{KERNEL}# edit {edit}\n")
        yield name, cost_of([*attnspec, *CHECK], folder, package)
    for name, command in COMMANDS.items():
        yield name, cost_of([*attnspec, *command], folder, package)
    yield from watch_rounds(folder, package)
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
        before, now = found[commit].get(name), least(costs)
        told = f"{least(before)!s:32}" if before else " " * 32
        share = f"{now.cpu / least(before).cpu:5.0%}" if before else ""
        print(f"{name:14}{told}{now!s:32}{share}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
