"""The program of a process without attnspec: it loads a file, and calls a function of it.

This is a program of its own that imports nothing of attnspec, and is run from its text, so that neither its modules nor
its arguments say who asks. `from attnspec import adapter` finds a stand-in, which is gone when a call is made.

A message is a length, a line of JSON, and the bytes of arrays one after the other.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

HIDDEN = "att" + "nspec"


class Unsupported(Exception):  # noqa: N818 - it is an answer, not an error
    """What a file knows under this name."""


class Parts:
    """What a file says of a class with weights, which is filled by a program that comes along."""

    def __init__(self, factory: Any, name: str, given: dict[str, Any]) -> None:
        self.factory, self.__name__ = factory, name
        once = {
            "inputs": () if given.get("call") else ("tokens",) if "embedding" in given["weights"] else ("x",),
            "options": (),
            "returns": None,
            "leave": (),
            "call": None,
        }
        self.parts = {**once, **given, "same": given.get("same") or {}, "keywords": given.get("keywords") or {}}

    def filled(self, texts: Any, said: Any) -> Any:
        """The function of it; `texts` are the modules of that program, each after those that it imports."""
        package = sys.modules["filled"] = ModuleType("filled")
        package.__path__ = []
        found = None
        for name, text in texts:
            found = sys.modules[f"filled.{name}"] = ModuleType(f"filled.{name}")
            found.__package__ = "filled"
            exec(compile(text, f"<{name}>", "exec"), found.__dict__)
        program: Any = found
        return program.Filled(self.factory, program.taken_by(self.factory), program.planned(self.parts), **said)


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds as much of the package as a file of adapters needs."""

    def __init__(self) -> None:
        self.declared: list[tuple[str, Any]] = []

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] != HIDDEN:
            return None
        if fullname not in (HIDDEN, HIDDEN + ".adapters"):
            raise ImportError(f"no module named {fullname!r} in this process", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        def adapter(operator: str, *, name: str | None = None, **_: Any) -> Any:
            def declare(function: Any) -> Any:
                self.declared.append((name or function.__name__, function))
                return function

            return declare

        def declared(factory: Any, operator: str = "", *, name: str | None = None, **parts: Any) -> Any:
            own = name or getattr(factory, "__name__", "").replace("<lambda>", "") or operator
            return adapter(operator, name=own)(Parts(factory, own, parts))

        def unavailable(*_: Any, **__: Any) -> Any:
            raise ImportError("not available in this process")

        more = {} if module.__name__ != HIDDEN else {"check": unavailable, "Report": unavailable, "__version__": ""}
        more["module"] = declared
        module.__dict__.update(adapter=adapter, Unsupported=Unsupported, Adapter=unavailable, **more)

    def forget(self) -> None:
        """Take away what is to be seen of the package."""
        for name in [name for name in sys.modules if HIDDEN in name]:
            del sys.modules[name]

    def function(self, name: str, module: ModuleType) -> Any:
        """The function that is declared under a name, or has it."""
        named = [f for own, f in self.declared if name in (own, f.__name__)]
        return named[0] if named else functools.reduce(getattr, name.split("."), module)


def hide() -> None:
    """Forget how an editable package is found."""
    sys.meta_path[:] = [f for f in sys.meta_path if HIDDEN not in f"{getattr(f, '__module__', '')}{f!r}".lower()]
    sys.path_hooks[:] = [f for f in sys.path_hooks if HIDDEN not in f"{getattr(f, '__module__', '')}{f!r}".lower()]
    sys.path[:] = [p for p in sys.path if not os.path.basename(p).startswith("__editable__")]
    for name in [name for name in sys.modules if HIDDEN in name.lower()]:
        del sys.modules[name]


# Messages


def receive(end: socket.socket) -> tuple[Any, list[bytes]]:
    """The next message; `EOFError` where there is none."""
    head = json.loads(exactly(end, int.from_bytes(exactly(end, 8), "little")))
    return head, [exactly(end, n) for n in head["sizes"]]


def exactly(end: socket.socket, count: int) -> bytes:
    room = bytearray()
    while len(room) < count:
        part = end.recv(min(count - len(room), 1 << 20))
        if not part:
            raise EOFError
        room += part
    return bytes(room)


def send(end: socket.socket, head: Any, parts: Any = ()) -> None:
    text = json.dumps({**head, "sizes": [len(part) for part in parts]}).encode()
    end.sendall(b"".join([len(text).to_bytes(8, "little"), text, *parts]))


# Calls


def array(data: bytes, dtype: str, shape: list[int], framework: str) -> Any:
    """An array of a framework from its bytes."""
    import numpy as np

    if dtype == "bfloat16" or dtype.startswith("float8"):  # which NumPy lacks
        if framework == "torch":
            import torch

            whole = np.frombuffer(data, np.int16 if dtype == "bfloat16" else np.int8)
            return torch.from_numpy(whole.reshape(shape).copy()).view(getattr(torch, dtype))
        import ml_dtypes

        return of(np.frombuffer(data, getattr(ml_dtypes, dtype)).reshape(shape).copy(), framework)
    return of(np.frombuffer(data, dtype).reshape(shape).copy(), framework)


def of(made: Any, framework: str) -> Any:
    """An array of NumPy as one of a framework."""
    if framework == "torch":
        return importlib.import_module("torch").from_numpy(made)
    if framework == "jax":
        jax = importlib.import_module("jax")
        with jax.enable_x64(made.dtype == "float64"):
            return jax.numpy.asarray(made)
    if framework == "mlx":
        mx: Any = importlib.import_module("mlx.core")
        return mx.array(made.view("uint64")).view(mx.float64) if made.dtype == "float64" else mx.array(made)
    if framework == "tinygrad":
        os.environ.setdefault("DEV", "PYTHON")
        return importlib.import_module("tinygrad").Tensor(made)
    if framework == "tensorflow":
        return importlib.import_module("tensorflow").constant(made)
    return made


def plain(x: Any) -> Any:
    """An output as an array of NumPy in a dtype that can be sent."""
    import numpy as np

    if hasattr(x, "detach"):  # of torch
        x = x.detach().cpu()
        x = (x.double() if x.dtype.is_floating_point else x.resolve_conj()).numpy()
    elif type(x).__module__.startswith("mlx") and "float" in str(x.dtype):
        x = np.array(x.tolist()).reshape(x.shape)
    elif type(x).__module__.startswith("tinygrad"):
        x = x.numpy()
    x = np.asarray(x)
    if x.dtype.kind == "c":
        x = np.stack((x.real, x.imag), -1)  # as the parts of complex numbers are read elsewhere
    kind = {"f": np.float64, "V": np.float64, "b": np.bool_}.get(x.dtype.kind, np.int64)
    return np.ascontiguousarray(x.astype(kind)).reshape(x.shape)


def answer(function: Any, asked: Any, parts: list[bytes]) -> tuple[Any, list[bytes]]:
    """What a call gives: outputs, or a fault in words."""
    made = [
        array(data, dtype, shape, asked["framework"])
        for data, (dtype, shape) in zip(parts, asked["arrays"], strict=True)
    ]
    named = dict(zip(asked["names"], made, strict=True))
    own = {output: named[name] for name, output in asked["into"].items() if output and name in named}
    passed = [named.pop(name) for name in asked["positional"]]
    options = {name: tuple(x) if isinstance(x, list) else x for name, x in asked["options"].items()}
    options |= {name: SimpleNamespace(**options[name]) for name in asked["objects"] if name in options}
    typed = {name: str(options[name]) for name in asked["typed"] if name in options}
    options |= {name: array(b"", dtype, [0], asked["framework"]).dtype for name, dtype in typed.items()}
    try:
        result = function(*passed, **named, **options)
        if own and (result is None or any(result is x for x in own.values())):
            result = own
        if hasattr(result, "items"):
            found = dict(result.items())
        else:
            numbers = type(result) is list and bool(result) and all(type(x) in (int, float) for x in result)
            several = isinstance(result, tuple | list) and not (numbers and len(asked["outputs"]) == 1)
            found = dict(zip(asked["outputs"], result if several else (result,), strict=False))
        found = {**own, **{str(name): x for name, x in found.items() if x is not None}}
        outputs = {name: plain(x) for name, x in found.items()}
    except BaseException as error:  # whatever it is, it is what the call gives
        return {"fault": f"{type(error).__name__}: {error}"[:300], "arrays": []}, []
    return {"fault": "", "arrays": [[name, str(x.dtype), x.shape] for name, x in outputs.items()]}, [
        x.tobytes() for x in outputs.values()
    ]


def serve(end: socket.socket) -> None:
    """Load a file or module, and make calls on one of its functions."""
    start, _ = receive(end)
    stand_in = StandIn()
    sys.meta_path.insert(0, stand_in)
    try:
        os.environ.update(start["environment"])
        os.chdir(start["folder"])
        function = stand_in.function(start["name"], loaded(start))
        function = function.filled(start["program"], start["said"]) if isinstance(function, Parts) else function
        scope: dict[str, Any] = {}
        for text in start["forms"]:
            exec(compile(text, "forms", "exec"), scope)
        made = {"is_planned": "Planned", "is_weightless": "forward_of"}
        how = next((made[kind] for kind in made if scope[kind](function)), "documented")
        function = scope[how](function)
        stand_in.forget()
    except BaseException as error:  # a file may also exit
        return send(end, {"fault": f"{type(error).__name__}: {error}"[:300]})
    send(end, {"fault": ""})
    home = os.getpid()
    with session(start["framework"]):
        while True:
            asked, parts = receive(end)
            head, data = answer(function, asked, parts)
            if os.getpid() != home:
                os._exit(0)  # the function has forked, and this is not the process that was asked
            stand_in.forget()
            send(end, head, data)


def loaded(start: Any) -> ModuleType:
    """A module of a package, or where that cannot be imported, a file by itself."""
    if start["module"]:
        try:
            with searched(start["root"]):
                return importlib.import_module(start["module"])
        except Exception:
            if not start["path"]:
                raise
    path = os.path.realpath(start["path"])
    name = "loaded_" + os.path.basename(path).rpartition(".")[0]
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with searched(os.path.dirname(path)):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def searched(folder: str) -> Iterator[None]:
    """Modules are looked for in a folder first, if there is one."""
    sys.path[:0] = [folder] if folder else []
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def session(framework: str) -> Any:
    """A stretch of calls, with one thread and no gradients."""
    if framework != "torch":
        return contextlib.nullcontext()
    import torch

    torch.set_num_threads(1)
    return torch.no_grad()


# The process that others are forked from


def end_with_parent() -> None:
    """Have this process end when its parent does, on Linux."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main() -> None:
    """Import a framework once for two processes: this one goes on to the other program, and the other one is bare."""
    end, other = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    end_with_parent()
    sys.argv[:] = [""]
    sys.orig_argv[:] = sys.orig_argv[:1]
    asked, _ = receive(end)
    finders = sys.meta_path[:], sys.path_hooks[:]
    sys.path[:] = asked["paths"]
    hide()
    gc.disable()  # hardly anything of what is imported is garbage, and to look for it takes long
    with contextlib.suppress(BaseException):  # the other program says what is wrong with it
        importlib.import_module(asked["framework"])
    gc.freeze()  # it is shared by all processes that are forked
    if os.fork():
        end.close()
        sys.meta_path[:], sys.path_hooks[:] = finders
        sys.path[:] = asked["paths"]
        program = importlib.import_module(HIDDEN + ".execution.worker")
        gc.freeze()
        gc.enable()
        program.serve(other)
    gc.enable()
    del finders
    other.close()
    os.environ.clear()
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they have ended
    send(end, {"ready": asked["framework"] in sys.modules})
    fork_for(end)


def fork_for(end: socket.socket) -> None:
    """Fork a process for each socket that comes."""
    while True:
        data, files, _, _ = socket.recv_fds(end, 1, 1)
        if not data:
            os._exit(0)
        pid = os.fork()
        if not pid:
            try:
                end.close()
                end_with_parent()
                os.setsid()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                serve(socket.socket(fileno=files[0]))
            finally:
                os._exit(0)
        os.close(files[0])
        send(end, {"pid": pid})


if __name__ == "__main__":
    main()
