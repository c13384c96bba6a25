"""The recorder of a program's kernel calls: shapes, strides, dtypes and options, but no data.

This is a program of its own that imports nothing of attnspec, so that it can be loaded into any Python from 3.8 on.
Functions are exchanged by name when their module has been imported. What is new is written at once, and counts about
once a second and when one has doubled, so that a program which is killed costs the counts of its last second at most.
"""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import importlib.util
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

Key = Any
"""What is noted down of an argument: something that can be looked up."""

SECONDS = 1.0
"""How often counts are written."""
SINGLE = (bool, int, float, str)
LONGEST = 16
"""Entries of a list that are noted down, and a hundredth of the letters of a text."""


class Journal:
    """The file of one process: a line for each new call, and lines of counts."""

    def __init__(self, folder: str) -> None:
        self.folder, self.lock = folder, threading.Lock()
        self.begin()

    def begin(self) -> None:
        """A file of its own, in a process that was forked as well; it is made with the first line."""
        self.file: int | None = None
        self.known: dict[tuple[str, Key], int] = {}
        self.counts: list[int] = []
        self.written: list[int] = []
        self.last = time.monotonic()

    def note(self, interface: str, key: Key, told: Callable[[], dict[str, Any]]) -> None:
        """Count a call; `told` says what it is, if nobody has seen it."""
        with self.lock:
            at = self.known.get((interface, key))
            if at is None:
                at = self.known[interface, key] = len(self.counts)
                self.counts.append(0)
                self.written.append(0)
                self.line({"kind": "call", "id": at, "interface": interface, **told()})
            self.counts[at] += 1
            count = self.counts[at]
            if count > 1 and (count & (count - 1) == 0 or time.monotonic() - self.last > SECONDS):
                self.flush()

    def flush(self) -> None:
        for at, (count, written) in enumerate(zip(self.counts, self.written)):  # noqa: B905 - of Python 3.8, too
            if count != written:
                self.line({"kind": "count", "id": at, "count": count})
                self.written[at] = count
        self.last = time.monotonic()

    def line(self, told: dict[str, Any]) -> None:
        if self.file is None:
            name = f"{os.getpid()}-{time.time_ns()}.ndjson"
            self.file = os.open(os.path.join(self.folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(self.file, (json.dumps(told) + "\n").encode())


class Recorder(importlib.abc.MetaPathFinder):
    """Exchanges the functions of a plan for ones that note down how they are called.

    A plan has, by the name of an interface, where its functions are found (`module:name`) and its parameters in order.
    """

    def __init__(self, folder: str, plan: dict[str, Any]) -> None:
        self.journal, self.inside = Journal(folder), threading.local()
        self.wanted: dict[str, list[tuple[str, str, list[str]]]] = {}
        self.replaced: list[tuple[Any, str, Any]] = []
        self.looking: set[str] = set()
        for interface, own in plan.items():
            for place in own["found"]:
                module, _, name = place.partition(":")
                self.wanted.setdefault(module, []).append((name, interface, own["parameters"]))

    def begin(self) -> Recorder:
        for module in list(self.wanted):
            if module in sys.modules:
                self.exchange(sys.modules[module])
        sys.meta_path.insert(0, self)
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)
        return self

    def forked(self) -> None:
        self.journal.lock = threading.Lock()
        self.journal.begin()

    def end(self) -> None:
        """Put all functions back, and write what is not written yet."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for owner, name, original in reversed(self.replaced):
            setattr(owner, name, original)
        self.replaced = []
        with self.journal.lock:
            self.journal.flush()
        atexit.unregister(self.end)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in self.wanted or fullname in self.looking:
            return None
        self.looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.looking.discard(fullname)
        loader: Any = None if spec is None else spec.loader
        if hasattr(loader, "exec_module"):
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self.exchange(module)

            loader.exec_module = exec_module
        return spec

    def exchange(self, module: ModuleType) -> None:
        for name, interface, parameters in self.wanted[module.__name__]:
            *ahead, last = name.split(".")
            owner: Any = module
            for part in ahead:
                owner = getattr(owner, part, None)
            original = getattr(owner, last, None)
            if not callable(original):
                continue
            wrapped = self.noting(original, interface, named(original, parameters))
            setattr(owner, last, wrapped)
            self.replaced.append((owner, last, original))
            scripted(original, wrapped)

    def noting(self, original: Callable[..., Any], interface: str, parameters: Sequence[str]) -> Callable[..., Any]:
        """The function that notes down how it is called, but not while a compiler looks at it."""
        compiling, inside = compiler_of(), self.inside

        @functools.wraps(original)
        def noted(*arguments: Any, **keywords: Any) -> Any:
            if compiling() or getattr(inside, "busy", False):
                return original(*arguments, **keywords)
            inside.busy = True
            try:
                self.seen(interface, parameters, arguments, keywords)
                return original(*arguments, **keywords)
            finally:
                inside.busy = False

        return noted

    def seen(
        self, interface: str, parameters: Sequence[str], arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> None:
        try:
            several = zip(parameters, arguments)  # noqa: B905 - the interface may know fewer parameters
            given = tuple((name, stated(x)) for name, x in (*several, *keywords.items()))
            where = device_of((*arguments, *keywords.values()))
            if where is not None:
                self.journal.note(interface, (given, where), functools.partial(line_of, given, *where))
        except Exception as error:  # a program is not to fail for being watched
            fault = type(error).__name__
            self.journal.note(interface, fault, lambda: {"arguments": {}, "fault": fault})


def line_of(given: Sequence[tuple[str, Key]], device: str, gradient: bool) -> dict[str, Any]:
    """What is written of a new call."""
    return {"device": device, "gradient": gradient, "arguments": {name: put(x) for name, x in given}}


def named(function: Callable[..., Any], parameters: Sequence[str]) -> Sequence[str]:
    """The parameters of a function in their order: its own where it tells them, and else those of the plan."""
    try:
        own = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return parameters
    return [p.name for p in own if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)] or parameters


def stated(x: Any) -> Key:
    """What is noted down of an argument, as a key."""
    if x is None or type(x) in SINGLE:
        return x[: 100 * LONGEST] if type(x) is str else (type(x).__name__, x)
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return "array", tuple(map(int, x.shape)), strides(x), str(x.dtype).rpartition(".")[2]
    if isinstance(x, (tuple, list)) and len(x) <= LONGEST and all(type(part) in SINGLE or part is None for part in x):
        return "list", tuple((type(part).__name__, part) for part in x)
    return "other", type(x).__name__


def put(key: Key) -> Any:
    """A key as plain data."""
    if key is None or isinstance(key, str):
        return key
    if key[0] == "array":
        return {"shape": list(key[1]), "strides": list(key[2]), "dtype": key[3]}
    if key[0] == "list":
        return [part for _, part in key[1]]
    return {"type": key[1]} if key[0] == "other" else key[1]


def strides(x: Any) -> tuple[int, ...]:
    """The strides of an array in entries; none where it does not tell them."""
    if callable(getattr(x, "stride", None)):
        return tuple(map(int, x.stride()))
    own, width = getattr(x, "strides", None), getattr(x, "itemsize", 0)
    return tuple(n // width for n in own) if own and width else ()


def device_of(arguments: Iterable[Any]) -> tuple[str, bool] | None:
    """The device of the arrays, and whether gradients are wanted; None where what is passed only stands for arrays."""
    found, wanted = "cpu", False
    for x in arguments:
        kind = type(x)
        if hasattr(x, "shape") and kind.__module__.startswith(
            ("torch._subclasses", "torch.fx", "jax._src.interpreters")
        ):
            return None
        if getattr(x, "requires_grad", False):
            wanted = True
        if hasattr(x, "device") and hasattr(x, "shape"):
            found = str(x.device)
    torch = sys.modules.get("torch")
    return found, bool(wanted and torch is not None and torch.is_grad_enabled())


def compiler_of() -> Callable[[], bool]:
    """What says whether a compiler looks at a function rather than run it."""
    torch: Any = sys.modules.get("torch")
    return getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)


def scripted(original: Callable[..., Any], wrapped: Callable[..., Any]) -> None:
    """Have TorchScript take an exchanged function for the original."""
    table: Any = sys.modules.get("torch.jit._builtins")
    if table is not None:
        name = table._find_builtin(original)
        if name is not None:
            table._register_builtin(wrapped, name)


def begun(folder: str, plan: str) -> Recorder:
    """A recorder that has begun, with its journals in a folder, by a plan in a file."""
    with open(plan, encoding="utf-8") as file:
        return Recorder(folder, json.load(file)).begin()


HOOK = """import sys
_here = __file__.rpartition("/")[0] or "."
sys.path[:] = [each for each in sys.path if each != _here]
_own = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError:
    pass
sys.modules.setdefault("sitecustomize", _own)
import importlib.util
_spec = importlib.util.spec_from_file_location("_attnspec_recorder", _here + "/recorder.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
_module.begun(_here + "/journals", _here + "/plan.json")
"""
"""The text of `sitecustomize.py`, which Python runs when it starts: it gives way to one that is there already."""
