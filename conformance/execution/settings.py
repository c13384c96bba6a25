"""The process settings that calls depend on: how each is read in a few microseconds, and how it is restored."""

from __future__ import annotations

import _signal
import ctypes
import gc
import locale
import os
import random
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

TINY, STEP = sys.float_info.min, 0.75 * sys.float_info.epsilon
LIMITS = {
    name: getattr(resource, name)
    for name in ("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_STACK")
    if hasattr(resource, name)
}
HANDLED = range(1, 32)
"""Signals whose handlers are looked at."""
TWISTER = 2500
"""Bytes of the state of NumPy's global generator."""


def keep(_: Any) -> None:
    """For what is not set back."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a process, or several of a kind, by name."""

    name: str
    """With braces where the name of one of several belongs."""
    read: Callable[[], Any]
    restore: Callable[[Any], Any]
    imports: bool = False
    """Whether it is changed by imports of packages that are in order."""
    shown: bool = True
    """Whether its value says anything to a reader, and may be shown."""


# How numbers are computed


def _arithmetic() -> tuple[str, str]:
    """What the processor makes of subnormal numbers, and which way it rounds."""
    one = 1.0
    rounds = one + STEP, -one - STEP, one - STEP
    subnormal = "subnormal numbers kept" if TINY / 2.0 else "subnormal numbers flushed to zero"
    return subnormal, "rounding to nearest" if rounds == NEAREST else "rounding another way"


NEAREST = (1 + sys.float_info.epsilon, -1 - sys.float_info.epsilon, 1 - sys.float_info.epsilon)


def _restore_arithmetic(_: Any) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fesetenv(ctypes.c_void_p(-1))  # FE_DFL_ENV


def _errors() -> dict[str, Any]:
    return {**np.geterr(), "call": np.geterrcall()}


def _restore_errors(kept: Mapping[str, Any]) -> None:
    np.seterr(**{name: how for name, how in kept.items() if name != "call"})
    np.seterrcall(kept["call"])


def _torch() -> tuple[Setting, ...]:
    import torch

    def restore_device(kept: torch.device) -> None:
        torch.set_default_device(None if kept.type == "cpu" else kept)

    return (
        Setting("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
        Setting("torch's default device", lambda: torch.empty(0).device, restore_device),
        Setting("torch's gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
        Setting("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
        Setting(
            "torch's precision of float32 products",
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        Setting("torch's deterministic mode", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        Setting("torch's autocast", torch.is_autocast_enabled, torch.set_autocast_enabled),
        Setting("torch's detection of anomalies", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    )


def _jax() -> tuple[Setting, ...]:
    import jax

    def setting(says: str, name: str) -> Setting:
        return Setting(says, lambda: getattr(jax.config, name), lambda kept: jax.config.update(name, kept))

    return (
        setting("JAX's double precision", "jax_enable_x64"),
        setting("JAX's precision of products", "jax_default_matmul_precision"),
        setting("JAX's promotion of dtypes", "jax_numpy_dtype_promotion"),
    )


# What a process has of its system


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "a folder that is gone"


def _environment() -> dict[Any, Any]:
    return dict(getattr(os.environ, "_data", os.environ))  # undecoded, which takes no time


def _restore_environment(kept: Mapping[Any, Any]) -> None:
    before = {os.fsdecode(name): os.fsdecode(x) for name, x in kept.items()}
    for name in [name for name in os.environ if name not in before]:
        del os.environ[name]
    os.environ.update(before)


def _mask() -> str:
    mask = os.umask(0o077)
    os.umask(mask)
    return f"{mask:03o}"


def _limits() -> dict[str, tuple[int, int]]:
    return {name: resource.getrlimit(number) for name, number in LIMITS.items()}


def _restore_limits(kept: Mapping[str, tuple[int, int]]) -> None:
    for name, (soft, hard) in kept.items():
        with suppress(OSError, ValueError):
            now = resource.getrlimit(LIMITS[name])[1]
            lowered = now not in (hard, resource.RLIM_INFINITY)  # which cannot be taken back
            resource.setrlimit(LIMITS[name], (now if lowered else soft, now if lowered else hard))


def _handlers() -> dict[str, Any]:
    return {name: _signal.getsignal(number) for name, number in NAMED.items()}


NAMED = {one.name: one.value for one in signal.Signals if one.value in HANDLED}


def _restore_handlers(kept: Mapping[str, Any]) -> None:
    for name, handler in kept.items():
        if handler is not _signal.getsignal(NAMED[name]):
            with suppress(OSError, ValueError, TypeError):  # as where this is not the main thread
                signal.signal(NAMED[name], handler)


def _timer() -> str:
    return "off" if signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0) else "on"


def _stop_timer(kept: str) -> None:
    if kept == "off":
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _files() -> dict[str, Any]:
    found = {}
    for number, name in enumerate(("input", "output", "error")):
        try:
            status = os.fstat(number)
        except OSError:
            continue
        found[name] = (status.st_dev, status.st_ino)
    return found


# What Python has of its own


def _streams() -> dict[str, Any]:
    return {"sys.stdin": sys.stdin, "sys.stdout": sys.stdout, "sys.stderr": sys.stderr}


def _restore_streams(kept: Mapping[str, Any]) -> None:
    for name, stream in kept.items():
        setattr(sys, name.removeprefix("sys."), stream)


def _filters() -> tuple[Any, ...]:
    return warnings.showwarning, *warnings.filters


def _restore_filters(kept: tuple[Any, ...]) -> None:
    warnings.showwarning = kept[0]
    with warnings.catch_warnings():  # whose end has Python forget what it knows of filters
        pass
    warnings.filters[:] = kept[1:]  # pyright: ignore[reportIndexIssue]


def _path() -> tuple[str, ...]:
    return tuple(sys.path)


def _restore_path(kept: tuple[str, ...]) -> None:
    sys.path[:] = kept


def _hooks() -> dict[str, Any]:
    return {"sys.excepthook": sys.excepthook, "sys.settrace": sys.gettrace(), "sys.setprofile": sys.getprofile()}


def _restore_hooks(kept: Mapping[str, Any]) -> None:
    sys.excepthook = kept["sys.excepthook"]
    sys.settrace(kept["sys.settrace"])
    sys.setprofile(kept["sys.setprofile"])


def _locale() -> str:
    return locale.setlocale(locale.LC_ALL)


def _restore_locale(kept: str) -> None:
    locale.setlocale(locale.LC_ALL, kept)


def _collects() -> bool:
    return gc.isenabled()


def _restore_collects(kept: bool) -> None:
    (gc.enable if kept else gc.disable)()


EVERYWHERE = (
    Setting("the processor's arithmetic", _arithmetic, _restore_arithmetic),
    Setting("NumPy's reaction to floating-point errors ({})", _errors, _restore_errors),
    Setting("the working directory", _directory, os.chdir),
    Setting("the umask", _mask, lambda kept: os.umask(int(kept, 8))),
    Setting("the environment variable {}", _environment, _restore_environment, imports=True, shown=False),
    Setting("the resource limit {}", _limits, _restore_limits, imports=True),
    Setting("the handler of {}", _handlers, _restore_handlers, imports=True, shown=False),
    Setting("the interval timer", _timer, _stop_timer),
    Setting("the file of standard {}", _files, keep, shown=False),
    Setting("{}", _streams, _restore_streams, imports=True, shown=False),
    Setting("the filters of warnings", _filters, _restore_filters, imports=True, shown=False),
    Setting("sys.path", _path, _restore_path, imports=True, shown=False),
    Setting("{}", _hooks, _restore_hooks, imports=True, shown=False),
    Setting("the locale", _locale, _restore_locale, imports=True),
    Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, imports=True),
    Setting("garbage collection", _collects, _restore_collects, imports=True),
)


def settings_of(framework: str) -> tuple[Setting, ...]:
    """The settings that calls on arrays of a framework depend on, and those of torch where it was imported."""
    own = _jax() if framework == "jax" else ()
    return (*EVERYWHERE, *own, *_torch()) if framework == "torch" or "torch" in sys.modules else (*EVERYWHERE, *own)


# Random numbers


def _twister() -> bytes:
    random_of_numpy: Any = np.random  # whose stubs lack the next name
    generator = random_of_numpy.get_bit_generator()
    if not isinstance(generator, np.random.MT19937):
        return repr(generator.state).encode()
    return ctypes.string_at(generator.ctypes.state_address, TWISTER)


def _torch_generator() -> bytes:
    import torch

    return torch.get_rng_state().numpy().tobytes()


def random_of(framework: str) -> Setting:
    """The global generators of random numbers; they are left as they are, for whoever draws wants other numbers."""
    generators: dict[str, Callable[[], Any]] = {"Python": random.getstate, "NumPy": _twister}
    if framework == "torch":
        generators["torch"] = _torch_generator

    def read() -> dict[str, Any]:
        return {name: generator() for name, generator in generators.items()}

    return Setting("the random state of {}", read, keep, imports=True, shown=False)
