"""The index of a set: as JSON with its schema, and as text lines for programs without a JSON parser.

A line is a word and what belongs to it, separated by single blanks; docs/vectors.md says which lines there are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import UsageError
from ..execution.calling import Call
from ..mechanisms.mechanism import Mechanism
from ..reporting.form import schema_of
from . import records
from .records import FORMAT, Index, Output, Stated
from .relation import RESULT, Relation, single
from .sides import Side, Term
from .telling import Told
from .vector import Vector

DIGITS = 4
"""Significant digits of an error over its bound."""
MARK = f"attnspec-vectors {FORMAT}"
"""The first line of the text."""


def entry(told: Told) -> records.Vector:
    """What the index says of a vector of one call."""
    vector = told.vector
    assert isinstance(vector, Vector)
    m = vector.mechanism
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
        "inputs": {
            name: _input(m, name, vector.call, vector.sample.values, f"{vector.name}/{name}")
            for name in vector.call.inputs
        },
        "outputs": {name: _output(vector, name) for name in vector.outputs},
        "refutes": {name: {output: _excess(x) for output, x in shown.items()} for name, shown in told.shows.items()},
    }


def related(told: Told) -> records.Relation:
    """What the index says of a vector of several calls."""
    relation = told.vector
    assert isinstance(relation, Relation)
    tensors = relation.tensors()
    bound = f"{relation.name}/bound"
    return {
        "name": relation.name,
        "mechanism": relation.mechanism.name,
        "dtype": relation.trial.bench.dtype,
        "law": relation.law.name,
        "says": relation.law.says,
        "case": relation.sample.case.label,
        "key": relation.sample.key,
        "conventions": dict(relation.conventions),
        "calls": [_call(relation, i) for i in range(len(relation.calls))],
        "kind": relation.kind,
        "shape": [*relation.bound.shape],
        "left": _side(relation, "left", relation.left),
        "right": _side(relation, "right", relation.right),
        "bound": bound if bound in tensors else None,
        "refutes": {name: {RESULT: _excess(shown[RESULT])} for name, shown in told.shows.items()},
    }


def _call(relation: Relation, i: int) -> records.Call:
    m, key, passed = relation.mechanism, relation.order[i], relation.passed()
    call, values = relation.calls[key], relation.settled[key].values
    return {
        "sizes": relation.sizes(key),
        "options": {name: _plain(x) for name, x in call.options.items()},
        "inputs": {name: _input(m, name, call, values, passed[i, name]) for name in call.inputs},
        "outputs": {
            name: {"dtype": m.dtype_of(name, call.dtype), "shape": [*shape]}
            for name, shape in relation.shapes(key).items()
        },
    }


def _side(relation: Relation, word: str, side: Side) -> records.Side:
    terms = [_term(relation, f"{relation.name}/{word}.{i}", term) for i, term in enumerate(side.terms)]
    return {"constant": f"{relation.name}/{word}.constant" if side.constant.any() else None, "terms": terms}


def _term(relation: Relation, name: str, term: Term) -> records.Term:
    factor = single(term.factor)
    return {
        "call": relation.order.index(term.asked[0]),
        "output": term.asked[1],
        "factor": factor,
        "factors": f"{name}.factor" if factor is None else None,
        "places": None if relation.in_order(term) else f"{name}.place",
    }


def _input(m: Mechanism, name: str, call: Call, values: Mapping[str, Any], tensor: str) -> records.Input:
    x = call.inputs[name]
    dtype = m.dtype_of(name, call.dtype, values) if x.dtype.kind == "f" else str(x.dtype)
    return {"tensor": tensor, "dtype": dtype, "shape": [*x.shape], "required": name in m.required}


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
    """The index as JSON, with a line for each mechanism, vector and relation."""
    lines = []
    for key, x in index.items():
        rows = ",\n".join(json.dumps(row, allow_nan=False) for row in x) if isinstance(x, list) else None
        lines.append(f"{json.dumps(key)}: " + (json.dumps(x) if rows is None else f"[\n{rows}\n]"))
    return "{" + ",\n".join(lines) + "}\n"


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
        for relation in index["relations"]:
            if (relation["mechanism"], relation["dtype"]) == (stated["mechanism"], stated["dtype"]):
                yield from _relation(relation)


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
    yield from _refuted(vector["refutes"])


def _relation(relation: records.Relation) -> Iterator[str]:
    yield f"relation {relation['name']} {relation['law']} {relation['case']}"
    for name, word in relation["conventions"].items():
        yield f"follows {name} {word}"
    for call in relation["calls"]:
        yield "call"
        for name, size in call["sizes"].items():
            yield f"size {name} {size}"
        for name, x in call["options"].items():
            yield f"option {name} {json.dumps(x, allow_nan=False)}"
        for name, passed in call["inputs"].items():
            yield f"pass {name} {passed['tensor']}"
        for name, result in call["outputs"].items():
            yield f"result {name} {_shape(result['shape'])}"
    yield f"compare {relation['kind']} {_shape(relation['shape'])}"
    for word, side in (("left", relation["left"]), ("right", relation["right"])):
        if side["constant"]:
            yield f"constant {word} {side['constant']}"
        for term in side["terms"]:
            factor, places = term["factors"] or term["factor"], term["places"] or "all"
            yield f"term {word} {term['call']} {term['output']} {factor} {places}"
    if relation["bound"]:
        yield f"bound {relation['bound']}"
    yield from _refuted(relation["refutes"])


def _refuted(refutes: Mapping[str, Mapping[str, float | None]]) -> Iterator[str]:
    for name, shown in refutes.items():
        for output, excess in shown.items():
            yield f"refutes {_joined(name)} {output} {'inf' if excess is None else excess}"


def _shape(shape: list[int]) -> str:
    """A shape as one word."""
    return ",".join(map(str, shape)) or "-"


def _joined(name: str) -> str:
    """A name of what is refuted, as one word."""
    return name.replace(" ", "")
