"""Which packages are available on this machine, why others are not, and the command that fixes it."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from attnspec.adapters import Adapter

from ..data.store import VARIABLE, cache_folder, fault_of, size_of
from ..execution.devices import counted, listed
from ..execution.supervisor import available
from ..reporting.results import distribution_of
from ..subjects.registered import install_command, installed, shipped

SECONDS = 120
"""How long a package may take to be imported."""
CHOSEN = {"KERAS_BACKEND": "torch"}
"""Variables without which a package asks for others that it does not need, as its adapters set them."""
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
"""Where torchvision is had for a torch without CUDA."""
AT_ONCE = 2
"""Packages that are imported at a time, each in a process of its own."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package that adapters present: what was found of it, and what fixes it if that is not well."""

    name: str
    version: str
    adapters: tuple[Adapter, ...]
    fault: str = ""
    mends: str = ""

    @property
    def broken(self) -> bool:
        """Whether it is installed and yet cannot be used."""
        return bool(self.version and self.fault)


def packages() -> list[Package]:
    """The packages of all shipped adapters, those that are installed having been imported elsewhere."""
    found: dict[str, list[Adapter]] = {}
    for adapter in shipped():
        found.setdefault((adapter.package or adapter.framework).partition(".")[0], []).append(adapter)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_examined, found, map(tuple, found.values())))


def _examined(name: str, adapters: tuple[Adapter, ...]) -> Package:
    number = _version(distribution_of(name))
    if not installed(adapters[0]):
        return Package(name, "", adapters, "not installed", install_command(adapters[0]))
    devices = {device for adapter in adapters for device in adapter.devices}
    if devices and "cpu" not in devices and not counted()[1]:
        return Package(name, number, adapters, "needs a CUDA device, and there is none")
    fault = importing(name)
    return Package(name, number, adapters, fault, _mends(fault) if fault else "")


def importing(module: str) -> str:
    """What is wrong with importing a module, in the last line that it says; nothing if all is well."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", f"import {module}"],
            env={**CHOSEN, **os.environ},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"importing it takes longer than {SECONDS} s"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
    return f"cannot be imported: {lines[-1]}"


def _mends(fault: str) -> str:
    """The command that is likely to fix what an import says."""
    if "torchvision" in fault and find_spec("torchvision") is not None:
        return "pip uninstall torchvision"  # one for CUDA beside a torch for the CPU breaks whatever imports both
    if "No module named" in fault:
        missing = fault.rpartition("No module named ")[2].strip("'").partition(".")[0]
        beside_the_cpu = missing == "torchvision" and counted()[0].endswith("+cpu")
        return f"pip install {missing}" + f" --index-url {CPU_WHEELS}" * beside_the_cpu
    return ""


def _caches() -> str:
    """The folder of all caches, how much is in it, and how it is emptied; or why it is not used."""
    folder = cache_folder()
    if folder is None:
        return f"none, because of {VARIABLE}" if os.environ.get(VARIABLE) else "none: there is no home folder"
    fault = fault_of(folder) if folder.exists() else ""
    size = f"{size_of(folder) / 1e6:.1f} MB; rm -r {shlex.quote(str(folder))} empties it"
    return f"{folder}   {f'not used: {fault}' if fault else size}"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def lines(found: Sequence[Package]) -> Iterator[str]:
    """The page of 'attnspec doctor'."""
    torch, models = counted()
    yield f"python {platform.python_version()}   {platform.system()} {platform.machine()}   torch {torch}"
    yield "devices: " + "; ".join(f"{name}: {', '.join(there) or 'none'}" for name, there in listed().items())
    yield from (f"cuda:{index}: {model}" for index, model in enumerate(models))
    yield f"caches: {_caches()}"
    yield "calls: " + ("in worker processes" if available() else "in this process (the system has no worker processes)")
    yield ""
    width = max(len(package.name) for package in found)
    for package in sorted(found, key=lambda p: (bool(p.fault), p.broken, p.name)):
        count = f"{len(package.adapters)} adapter{'s' * (len(package.adapters) != 1)}"
        state = package.fault or "works"
        mends = f": {package.mends}" if package.mends else ""
        yield f"{package.name:<{width}}  {package.version or '-':<14}{count:<14}{state}{mends}"
