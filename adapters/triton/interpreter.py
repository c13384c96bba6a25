"""Triton's interpreter, which runs the source of kernels on the CPU, and what stands in for a CUDA device meanwhile.

Documentation: https://triton-lang.org/main/programming-guide/chapter-3/debugging.html (TRITON_INTERPRET)
The interpreter reckons in NumPy: products of matrices are of whole numbers in single precision, and programs of a grid
follow one another. So semantics are tested, and neither compilation, races, TF32 nor other sizes of tiles. A call takes
up to some seconds, so that few shapes are drawn.

What it lacks is mended for the whole process: bfloat16 and float8 (the modules of these names); variables of loops and
numbers of Python are no tensors to it, on which kernels call `.to`; `and` and `or` of tensors give one of both, where
the compiler goes entry by entry; what a comparison gives is called what was compared, so that one number cannot mask an
array; `None` cannot be assigned; and functions of CUDA's library return nothing. Of several
configurations the first is taken, untimed. Packages that ask whether a tensor is on a CUDA device are told so for as
long as a call lasts, and shown the properties of an H100.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from .. import adapter
from .bfloat16 import mend_bfloat16
from .float8 import mend_float8
from .pace import hasten

F = TypeVar("F", bound=Callable[..., Any])

H100 = {
    "name": "NVIDIA H100",
    "multi_processor_count": 4,  # of 132: kernels that take a program for each are not to take so many here
    "total_memory": 1 << 34,
    "major": 9,
    "minor": 0,
    "warp_size": 32,
    "max_threads_per_multi_processor": 2048,
    "gcnArchName": "",
    "shared_memory_per_block_optin": 232448,
    "L2_cache_size": 1 << 25,
}

TILED: dict[str, Any] = {"cuda": {"limits": dict.fromkeys(("head_dim", "value_dim"), (16, 32, 64, 128))}}
"""For attention: compiled products have 16 rows and columns at least, and kernels pad channels to a power of two."""


def declared(operator: str, **declaration: Any) -> Callable[[F], F]:
    """An adapter of kernels in Triton: interpreted where its arrays are on the CPU, compiled on a CUDA device."""
    parts = {
        "slow": True,
        "compiled": True,
        "interpreted": "Triton's interpreter",
        "extra": "interpreters",
        **declaration,
    }

    def declare(function: F) -> F:
        @functools.wraps(function)
        def call(*arrays: Any, **options: Any) -> Any:
            with interpreting() if arrays[0].device.type == "cpu" else nullcontext():
                return function(*arrays, **options)

        return cast(F, adapter(operator, **parts)(call))

    return declare


@contextmanager
def interpreting() -> Iterator[None]:
    """Kernels that are imported and called meanwhile are interpreted, and arrays of the CPU pass for those of CUDA."""
    from unittest.mock import patch

    import torch

    os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are imported
    _mend()
    device = {
        "device": lambda *_, **__: nullcontext(),
        "device_of": lambda *_, **__: nullcontext(),
        "current_device": lambda: 0,
        "synchronize": lambda *_, **__: None,
        "is_current_stream_capturing": lambda: False,
        "get_device_capability": lambda *_: (H100["major"], H100["minor"]),
        "get_device_name": lambda *_: H100["name"],
        "get_device_properties": lambda *_: SimpleNamespace(**H100),
    }
    with ExitStack() as stack:
        stack.enter_context(patch.object(torch.Tensor, "is_cuda", property(lambda _: True), create=True))
        stack.enter_context(patch.multiple(torch.cuda, **device))
        yield


@functools.cache
def _mend() -> None:
    """What kernels ask of the compiler and the interpreter of this process does not do."""
    import ast

    import numpy as np
    from triton.language.extra import libdevice
    from triton.runtime import autotuner, interpreter

    triton: Any = importlib.import_module("triton")

    def visit_for(self: Any, node: Any) -> Any:
        node = self.generic_visit(node)
        of = ast.unparse(node.iter.func) if isinstance(node.iter, ast.Call) else ""
        if isinstance(node.target, ast.Name) and of in ("range", "tl.range"):
            name = node.target.id
            node.body.insert(0, ast.parse(f"{name} = interpreter_semantic.to_tensor({name}, False)").body[0])
        return node

    def visit_logical(self: Any, node: Any) -> Any:
        node = self.generic_visit(node)
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        text, *others = map(ast.unparse, node.values)
        for other in others:
            text = f"interpreter_semantic.of_both({name!r}, {text}, lambda: {other})"
        return ast.copy_location(ast.parse(text, mode="eval").body, node)

    def of_both(name: str, x: Any, later: Callable[[], Any]) -> Any:
        if isinstance(x, triton.language.tensor):
            return getattr(semantic, name)(x, semantic.to_tensor(later(), False))
        return later() if bool(x) == (name == "logical_and") else x

    if not isinstance(triton.language.sum, interpreter.InterpretedFunction):
        raise RuntimeError("Triton was imported before TRITON_INTERPRET was set, and its own functions are compiled")
    semantic, converted = interpreter.interpreter_semantic, interpreter._implicit_cvt
    to_tensor = semantic.to_tensor
    mended: Any = interpreter
    mended.ASTTransformer.visit_For = visit_for
    mended.ASTTransformer.visit_BoolOp = visit_logical
    mended.interpreter_semantic.of_both = of_both
    mended._implicit_cvt = lambda x: semantic.to_tensor(x, False) if isinstance(x, float) else converted(x)
    mended.interpreter_semantic.to_tensor = lambda x, *given: x if x is None else to_tensor(x, *given)
    tuned: Any = autotuner.Autotuner
    mend_bfloat16(interpreter, triton.language)
    mend_float8(interpreter, triton.language)
    hasten(interpreter, triton.language)
    tuned._bench = lambda *_, **__: [0.0, 0.0, 0.0]

    def compared(function: Callable[..., Any]) -> Callable[..., Any]:
        """A comparison, whose result is of booleans: the interpreter calls it what it has compared."""

        def call(self: Any, left: Any, right: Any) -> Any:
            return interpreter.TensorHandle(function(self, left, right).data, triton.language.int1)

        return call

    builder = interpreter.InterpreterBuilder
    for name in [name for name in vars(builder) if name.startswith(("create_icmp", "create_fcmp"))]:
        setattr(builder, name, compared(getattr(builder, name)))

    def computed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*tensors: Any) -> Any:
            first = tensors[0]
            entries = function(*(x.handle.data for x in tensors))
            return triton.language.tensor(interpreter.TensorHandle(entries, first.handle.dtype), first.type)

        return call

    functions = {"rsqrt": lambda x: 1 / np.sqrt(x), "pow": np.power, "fast_expf": np.exp, "fast_logf": np.log}
    functions |= {name: getattr(np, name) for name in ("exp", "log", "log1p", "sqrt", "tanh")}
    for name, function in functions.items():
        setattr(libdevice, name, computed(function))
