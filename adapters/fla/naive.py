"""The functions of flash-linear-attention that are written in torch alone, as fla-core releases them.

Source: https://github.com/fla-org/flash-linear-attention (fla/ops, naive.py and the like).
Importing `fla.ops` imports its kernels, which want Triton, so each of these files is loaded by itself.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any


@functools.cache
def naive(operator: str, name: str = "naive") -> Any:
    """The module of the functions of an operator that are written in torch, as in "gla"."""
    package = importlib.util.find_spec("fla")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("fla-core is not installed")
    file = Path(package.origin).with_name("ops") / operator / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"fla_naive_{operator.replace('/', '_')}", file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"fla-core has no {file.name} for {operator}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
