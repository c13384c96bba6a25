"""The index of a set: as JSON, with its schema, and as lines of text for programs that read no JSON.

A line is a word and what belongs to it, separated by single blanks; docs/vectors.md says which lines there are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from ..errors import UsageError
from ..reporting.form import schema_of
from . import records
from .records import FORMAT, Index, Input, Output, Stated
from .telling import Told
from .vector import Vector

DIGITS = 4
"""Significant digits of an error over its bound."""
MARK = f"attnspec-vectors {FORMAT}"
"""The first line of the text."""


def entry(told: Told) -> records.Vector:
    """What the index says of a vector."""
    vector, m = told.vector, told.vector.mechanism
    return {
        "name": vector.name,
        "mechanism": m.name,
        "dtype": vector.call.dtype,
        "law": "definition",
        "case": vector.sample.case.label,
        "key": vector.sample.key,
        "layout": vector.call.layout,
        "sizes": {name: int(vector.sample.values[name]) for name in m.sizes},
        "options": {name: _plain(x) for name, x in vector.call.options.items()},
        "conventions": dict(vector.conventions),
        "inputs": {name: _input(vector, name) for name in vector.call.inputs},
        "outputs": {name: _output(vector, name) for name in vector.outputs},
        "refutes": {name: {output: _excess(x) for output, x in shown.items()} for name, shown in told.shows.items()},
    }


def _input(vector: Vector, name: str) -> Input:
    m, x = vector.mechanism, vector.call.inputs[name]
    dtype = m.dtype_of(name, vector.call.dtype, vector.sample.values) if x.dtype.kind == "f" else str(x.dtype)
    required = name in m.required
    return {"tensor": f"{vector.name}/{name}", "dtype": dtype, "shape": [*x.shape], "required": required}


def _output(vector: Vector, name: str) -> Output:
    output = vector.outputs[name]
    return {
        "expected": f"{vector.name}/{name}.expected",
        "bound": f"{vector.name}/{name}.bound",
        "dtype": output.dtype,
        "shape": [*output.expected.shape],
    }


def _excess(x: float) -> float | None:
    return float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None


def _plain(x: Any) -> records.Plain:
    if isinstance(x, tuple | list):
        return [*x]
    if x is None or isinstance(x, bool | int | float | str):
        return x
    raise UsageError(f"a vector has no option that is {type(x).__name__}")


def as_json(index: Index) -> str:
    """The index as JSON."""
    return json.dumps(index, indent=1, allow_nan=False) + "\n"


def schema() -> str:
    """The JSON Schema of the index, as a text."""
    title = f"The index of a set of attnspec's vectors, format {FORMAT}"
    return json.dumps(schema_of(records.Index, title, closed=True), indent=1) + "\n"


def as_text(index: Index) -> str:
    """The index as lines of text."""
    return "\n".join(_lines(index)) + "\n"


def _lines(index: Index) -> Iterator[str]:
    yield MARK
    for stated in index["mechanisms"]:
        yield " ".join(["mechanism", *(stated[key] for key in ("mechanism", "dtype", "grade", "operator", "file"))])
        yield from _mistakes(stated)
        for vector in index["vectors"]:
            if (vector["mechanism"], vector["dtype"]) == (stated["mechanism"], stated["dtype"]):
                yield from _vector(vector)


def _mistakes(stated: Stated) -> Iterator[str]:
    for name, mistake in stated["mistakes"].items():
        if mistake["refuted"]:
            kind = "convention" if mistake["convention"] else "mistake"
            yield f"{kind} {_joined(name)} {mistake['says']}"


def _vector(vector: records.Vector) -> Iterator[str]:
    yield f"vector {vector['name']} {vector['law']} {vector['case']}"
    for name, size in vector["sizes"].items():
        yield f"size {name} {size}"
    for name, x in vector["options"].items():
        yield f"option {name} {json.dumps(x, allow_nan=False)}"
    for name, word in vector["conventions"].items():
        yield f"follows {name} {word}"
    for name in vector["inputs"]:
        yield f"input {name}"
    for name in vector["outputs"]:
        yield f"output {name}"
    for name, shown in vector["refutes"].items():
        for output, excess in shown.items():
            yield f"refutes {_joined(name)} {output} {'inf' if excess is None else excess}"


def _joined(name: str) -> str:
    """A name of what is refuted, as one word."""
    return name.replace(" ", "")
