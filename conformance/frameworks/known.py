"""The known frameworks, by the names that `framework=` takes."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable

from ..errors import UsageError, did_you_mean
from .cupy import CupyFramework
from .framework import Framework
from .jax import JaxFramework
from .mlx import MlxFramework
from .numpy import NumpyFramework
from .tensorflow import TensorflowFramework
from .tinygrad import TinygradFramework
from .torch import TorchFramework

FRAMEWORKS: dict[str, Callable[[], Framework]] = {
    "torch": TorchFramework,
    "numpy": NumpyFramework,
    "jax": JaxFramework,
    "mlx": MlxFramework,
    "cupy": CupyFramework,
    "tinygrad": TinygradFramework,
    "tensorflow": TensorflowFramework,
}
"""Each is imported when it is made; a process in which calls are made may import no module of attnspec by then."""
MODULES = {name: "mlx.core" if name == "mlx" else name for name in FRAMEWORKS}
"""What the frameworks are imported as."""

COMPILING = ("jax", "tinygrad")
"""Frameworks that compile for every shape whatever they run, without being asked to."""


@functools.cache
def framework_named(name: str) -> Framework:
    """The framework of that name; one that is unknown or not installed is a `UsageError`."""
    if name not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise UsageError(f"unknown framework {name!r}{did_you_mean(name, FRAMEWORKS)} (known: {known})")
    if not is_installed(name):
        raise UsageError(f"the framework {name!r} is not installed: pip install {name}")
    return FRAMEWORKS[name]()


def is_installed(name: str) -> bool:
    """Whether a framework can be imported, as far as it is one of a package."""
    try:
        return name not in MODULES or importlib.util.find_spec(MODULES[name]) is not None
    except ModuleNotFoundError:  # the package around it
        return False
