"""Arrays and options of a failing case as lines of a program."""

from __future__ import annotations

import base64
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.codes import CODES, encoded
from .dialects import DIALECTS

WRITTEN = 64
"""Entries up to which an array is written out; the bytes of a longer one are."""
FEW = 4
"""Entries up to which equal ones are written out, too."""
ROOM = 110
"""Columns of a line of literals."""


@dataclass(frozen=True, slots=True)
class Input:
    """An array as it is passed: its entries, in a dtype and in a layout of memory."""

    name: str
    entries: NDArray[Any]
    dtype: str
    layout: str
    by_name: bool


def array_lines(x: Input, framework: str, device: str) -> Iterator[str]:
    """The lines that make an array, in its layout of memory."""
    dialect = DIALECTS[framework]
    dtype, written = dialect.others.get(x.dtype, (x.dtype, dialect.made))
    made = _torch(x) if framework == "torch" else written.format(x=_numpy(replace(x, dtype=dtype)))
    if framework == "torch" and device != "cpu":
        made += f'.to("{device}")'
    lines = _laid_out(x, framework) if dialect.strided else ()
    line = f"{x.name} = {made}"
    yield "\n".join([line if "\n" in line else _wrapped(line), *lines])


def _laid_out(x: Input, framework: str) -> Iterator[str]:
    name, shape, layout = x.name, tuple(x.entries.shape), x.layout
    if layout == "contiguous" or not shape:
        return
    if layout == "expanded":
        first = f"{name}[{', '.join([':1' if n > 1 else ':' for n in shape])}]"
        if x.entries.ndim > 1 and x.entries.size > 1 and (x.entries == x.entries.flat[0]).all():
            made = (
                f"{first}.clone().expand({shape})"
                if framework == "torch"
                else f"np.broadcast_to({first}.copy(), {shape})"
            )
            yield f"{name} = {made}  # one number in memory"
            return
        for axis in range(max(len(shape) - 2, min(len(shape), 1))):
            if shape[axis] > 1:
                if np.array_equal(x.entries.take([0], axis).repeat(shape[axis], axis), x.entries, equal_nan=True):
                    cut = f"{name}[{', '.join([':'] * axis + [':1'])}]"
                    made = (
                        f"{cut}.clone().expand({shape})"
                        if framework == "torch"
                        else f"np.broadcast_to({cut}.copy(), {shape})"
                    )
                    yield f"{name} = {made}  # equal slices are one in memory"
                return
        return
    rooms = {
        "strided": ((*shape[:-1], 2 * shape[-1]), "[..., ::2]"),
        "sliced": ((*shape[:-1], 2 * shape[-1]), f"[..., {shape[-1]}:]"),
        "offset": ((shape[0] + 1, *shape[1:]), "[1:]"),
    }
    if layout == "transposed" and len(shape) >= 3:
        rooms["transposed"] = ((*shape[:-3], shape[-2], shape[-3], shape[-1]), ".swapaxes(-2, -3)")
    elif layout == "transposed" and len(shape) == 2:
        rooms["transposed"] = (shape[::-1], ".swapaxes(0, 1)")
    if layout not in rooms:
        return
    size, view = rooms[layout]
    empty = (
        f"torch.empty({size}, dtype={name}.dtype, device={name}.device)"
        if framework == "torch"
        else f"np.empty({size}, {name}.dtype)"
    )
    yield f"room = {empty}{view}  # {layout} in memory"
    yield f"room[...] = {name}"
    yield f"{name} = room"


def _torch(x: Input) -> str:
    dtype = f"torch.{x.dtype}"
    if x.entries.size <= WRITTEN and not (x.entries.size > FEW and _uniform(x.entries)):
        return f"torch.tensor({_nested(x.entries, x.dtype)}, dtype={dtype})" + _shaped(x.entries)
    if _uniform(x.entries):
        return f"torch.full({x.entries.shape}, {_number(x.entries.flat[0], x.dtype)}, dtype={dtype})"
    return f"decoded({_bytes(x)}, {dtype}, {', '.join(map(str, x.entries.shape))})"


def _numpy(x: Input) -> str:
    beside = x.dtype == "bfloat16" or _is_narrow(x.dtype)
    dtype = f"ml_dtypes.{x.dtype}" if beside else f'"{x.dtype}"'
    if x.entries.size <= WRITTEN and not (x.entries.size > FEW and _uniform(x.entries)):
        return f"np.array({_nested(x.entries, x.dtype)}, {dtype})" + _shaped(x.entries)
    if _uniform(x.entries):
        return f"np.full({x.entries.shape}, {_number(x.entries.flat[0], x.dtype)}, {dtype})"
    return f"decoded({_bytes(x)}, {dtype}, {', '.join(map(str, x.entries.shape))})"


def dtype_named(name: str, framework: str) -> str:
    """A dtype as it is passed."""
    if framework in ("torch", "mlx"):
        return f"{'mx' if framework == 'mlx' else framework}.{name}"
    return f"np.dtype({f'ml_dtypes.{name}' if name == 'bfloat16' or name in CODES else repr(name)})"


def _uniform(x: NDArray[Any]) -> bool:
    return bool(x.size) and np.array_equal(x, np.full_like(x, x.flat[0]), equal_nan=x.dtype.kind == "f")


def _shaped(x: NDArray[Any]) -> str:
    """What gives an array its shape that a list does not have, for some axis of it is empty."""
    return "" if x.size else f".reshape({x.shape})"


def _nested(x: NDArray[Any], dtype: str) -> str:
    if x.size == 0:
        return "[]"
    if x.ndim == 0:
        return _number(x.item(), dtype)
    return f"[{', '.join(_nested(part, dtype) for part in x)}]"


def _wrapped(line: str) -> str:
    """A line of literals as several where it is long."""
    return textwrap.fill(line, ROOM, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _number(x: Any, dtype: str) -> str:
    """The shortest digits that are this number in its dtype."""
    if dtype in CODES and CODES[dtype].whole:
        return repr(int(x))
    if isinstance(x, bool | np.bool_ | int | np.integer):
        return repr(x.item() if isinstance(x, np.generic) else x)
    if not math.isfinite(x):
        return "math.nan" if math.isnan(x) else "math.inf" if x > 0 else "-math.inf"
    if dtype in ("float32", "float16"):
        return str(np.dtype(dtype).type(x))
    return repr(float(x))


def _bytes(x: Input) -> str:
    if x.dtype == "bfloat16":
        raw = (np.ascontiguousarray(x.entries, np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    elif _is_narrow(x.dtype):
        raw = encoded(x.entries, CODES[x.dtype], beyond="lost").tobytes()
    else:
        raw = np.ascontiguousarray(x.entries).astype(np.dtype(x.dtype).newbyteorder("<")).tobytes()
    return _text(raw)


def _is_narrow(dtype: str) -> bool:
    """Whether NumPy has a format of floating point only beside ml_dtypes, in at most eight bits."""
    return dtype in CODES and not CODES[dtype].whole


def _text(raw: bytes) -> str:
    lines = textwrap.wrap(base64.b64encode(raw).decode(), ROOM)
    return "(\n" + "\n".join(f'    "{line}"' for line in lines) + "\n)"


def number_lines(name: str, x: NDArray[Any]) -> Iterator[str]:
    """An assignment of a flat list."""
    flat = np.asarray(x, np.float64).ravel()
    if _uniform(flat) and flat.size > 1:
        yield f"{name} = [{_number(float(flat[0]), 'float64')}] * {flat.size}"
    elif flat.size > WRITTEN:
        yield f"{name} = doubles({_text(flat.astype('<f8').tobytes())})"
    else:
        entries = ", ".join(_number(float(entry), "float64") for entry in flat)
        yield _wrapped(f"{name} = [{entries}]")


def upwards(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bounds in three digits, and not less than they are."""
    flat = [entry if not entry or not math.isfinite(entry) else float(f"{entry * 1.006:.3g}") for entry in x.ravel()]
    return np.reshape(np.asarray(flat, np.float64), x.shape)


def literal(x: Any) -> str:
    if isinstance(x, float):
        return _number(x, "float64")
    if isinstance(x, np.generic):
        return repr(x.item())
    return repr(x)


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', "'")
