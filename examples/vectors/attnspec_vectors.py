"""Judge kernels by the vectors that `attnspec vectors` wrote. Copy this file; it needs NumPy alone.

    import attnspec_vectors

    def softmax(x): ...

    if __name__ == "__main__":
        raise SystemExit(attnspec_vectors.main({"softmax": softmax}))

A kernel takes the required inputs of its operator by position, and further inputs and options by name.
It returns the main output, or several in a tuple, or a dict by name.
Arrays of bfloat16 and float8 come as float32, which holds each of their numbers; `Vector.bits` has their bits.
What a kernel has no parameter for, or raises `NotImplementedError` on, is not taken.
"""

import inspect
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PLAIN = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I8": "<i1", "U8": "<u1", "BOOL": "?"}
BITS = {"BF16": "<u2", "F8_E4M3": "<u1", "F8_E5M2": "<u1"}
CLEAR = 2.0
"""The error over the bound from which on rounding does not hide a mistake."""


def read_safetensors(path):
    """The arrays of a file by name, each as its entries and its bits."""
    data = Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, said in json.loads(data[8:start]).items():
        low, high = said["data_offsets"]
        kind = said["dtype"]
        bits = np.frombuffer(data[start + low : start + high], PLAIN.get(kind) or BITS[kind]).reshape(said["shape"])
        found[name] = (_entries(bits, kind), bits)
    return found


def _entries(bits, kind):
    if kind in PLAIN:
        return bits
    if kind == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)
    if kind == "F8_E5M2":
        with np.errstate(invalid="ignore"):
            return (bits.astype(np.uint16) << 8).view(np.float16).reshape(bits.shape).astype(np.float32)
    code = bits.astype(np.int32)
    exponent, fraction = (code >> 3) & 15, code & 7
    size = np.where(exponent > 0, np.ldexp(8.0 + fraction, exponent - 10), np.ldexp(1.0 * fraction, -9))
    size = np.where(code & 127 == 127, np.nan, size)
    return np.where(code > 127, -size, size).astype(np.float32)


@dataclass(frozen=True)
class Vector:
    """A call, and what the definition says of it."""

    said: dict
    """What index.json says of it."""
    stated: dict
    """What index.json says of its mechanism."""
    tensors: dict

    @property
    def inputs(self):
        return {name: self.tensors[x["tensor"]][0] for name, x in self.said["inputs"].items()}

    @property
    def bits(self):
        return {name: self.tensors[x["tensor"]][1] for name, x in self.said["inputs"].items()}

    def call(self, kernel):
        """What a kernel returns, by name."""
        required = [name for name, x in self.said["inputs"].items() if x["required"]]
        inputs = self.inputs
        named = {**{name: x for name, x in inputs.items() if name not in required}, **self.said["options"]}
        parameters = inspect.signature(kernel).parameters.values()
        if not any(p.kind is p.VAR_KEYWORD for p in parameters) and named.keys() - {p.name for p in parameters}:
            raise NotImplementedError
        result = kernel(*(inputs[name] for name in required), **named)
        names = [*self.said["outputs"]]
        if not isinstance(result, dict):
            result = dict(zip(names, result if isinstance(result, tuple | list) else [result], strict=False))
        if result.get(names[0]) is None:
            raise ValueError(f"{self.name}: the kernel returns no {names[0]}")
        return result

    @property
    def name(self):
        return self.said["name"]

    def tried(self, kernel):
        """The worst entry of each output that a kernel returns."""
        return self.judged(self.call(kernel))

    def judged(self, outputs):
        """The worst entry of each output that was returned."""
        found = {}
        for name, said in self.said["outputs"].items():
            if outputs.get(name) is not None:
                expected, bound = (self.tensors[said[key]][0] for key in ("expected", "bound"))
                found[name] = worst_entry(np.asarray(outputs[name]), expected, bound)
        return found


@dataclass(frozen=True)
class Relation:
    """Several calls, and how their results stand to one another."""

    said: dict
    """What index.json says of it."""
    stated: dict
    tensors: dict

    @property
    def calls(self):
        return [Vector({**said, "name": self.said["name"]}, self.stated, self.tensors) for said in self.said["calls"]]

    def tried(self, kernel):
        """The worst entry of both sides, under the name `relation`."""
        outputs = [call.call(kernel) for call in self.calls]
        terms = self.said["left"]["terms"] + self.said["right"]["terms"]
        if any(outputs[term["call"]].get(term["output"]) is None for term in terms):
            raise NotImplementedError
        return {"relation": self.judged(outputs)}

    def judged(self, outputs):
        """The worst entry, for what each call returned."""
        for call, returned in zip(self.said["calls"], outputs, strict=True):
            for name, y in returned.items():
                if y is not None and [*np.shape(y)] != call["outputs"][name]["shape"]:
                    return Worst(
                        np.inf, f": {name} has the shape {[*np.shape(y)]}, not {call['outputs'][name]['shape']}"
                    )
        x, y = (self.side(self.said[word], outputs) for word in ("left", "right"))
        kind = self.said["kind"]
        if kind == "differ":
            same = bool(np.all((x == y) | (np.isnan(x) & np.isnan(y))))
            return Worst(np.inf if same else 0.0, f": the results are {'the same' if same else 'not the same'}")
        bound = self.tensors[self.said["bound"]][0] if self.said["bound"] else np.zeros(x.shape)
        with np.errstate(all="ignore"):
            gap, fine = (x - y, x <= y) if kind == "at_most" else (np.abs(x - y), x == y)
            fine |= (np.isnan(x) & np.isnan(y) & np.isnan(bound)) | np.isinf(bound)
            units = np.where(np.isnan(gap) | np.isnan(bound) | (bound == 0), np.inf, gap / bound)
        units = np.where(fine, 0.0, units)
        if not units.size:
            return Worst(0.0, "")
        at = np.unravel_index(int(units.argmax()), units.shape)
        over = f"{units[at]:.4g} x the bound {bound[at]:.3g}"
        return Worst(float(units[at]), f": one side{place_of(at)} is {x[at]:.6g}, the other {y[at]:.6g}: {over}")

    def side(self, side, outputs):
        """The entries of a side: a constant and terms, which are added in their order."""
        shape = self.said["shape"]
        total = self.tensors[side["constant"]][0] if side["constant"] else np.zeros(shape)
        for term in side["terms"]:
            y = np.asarray(outputs[term["call"]][term["output"]], np.float64)
            factor = self.tensors[term["factors"]][0] if term["factors"] else term["factor"]
            if term["places"]:
                places = self.tensors[term["places"]][0]
                y = np.append(y, 0.0)[places]
                with np.errstate(all="ignore"):
                    total = total + np.where(places < 0, 0.0, factor * y)
            else:
                with np.errstate(all="ignore"):
                    total = total + factor * y.reshape(shape)
        return total


def place_of(at):
    """An entry by its axes."""
    return f"[{', '.join(map(str, map(int, at)))}]" if at else ""


@dataclass(frozen=True)
class Worst:
    """The entry of an output that is furthest beyond its bound."""

    excess: float
    """The error over the bound: up to 1 is rounding."""
    says: str


def worst_entry(y, expected, bound):
    """The entry of `y` with the largest error in units of its bound."""
    if y.shape != expected.shape:
        return Worst(np.inf, f" has the shape {list(y.shape)}, not {list(expected.shape)}")
    with np.errstate(all="ignore"):
        y = y.astype(np.float64)
        gap = np.abs(y - expected)
        units = np.where(np.isnan(gap) | (bound == 0), np.inf, gap / bound)
        fine = (y == expected) | (np.isnan(y) & np.isnan(expected)) | np.isinf(bound)
    units = np.where(fine, 0.0, units)
    if not units.size:
        return Worst(0.0, "")
    at = np.unravel_index(int(units.argmax()), units.shape)
    over = f"{units[at]:.4g} x the bound {bound[at]:.3g}"
    return Worst(float(units[at]), f"{place_of(at)} is {y[at]:.6g}, expected {expected[at]:.6g}: {over}")


def like(excess, known):
    """Whether an error may be that of a mistake; `known` is 0 where the mistake is not refuted."""
    if excess <= 1:
        return known <= CLEAR
    if known == 0 or np.isinf(excess) or np.isinf(known):
        return bool(known == excess)
    return abs(excess - known) <= CLEAR + 0.25 * max(excess, known)


@dataclass
class Candidate:
    """A known mistake, and on how many outputs a kernel has done as it does."""

    name: str
    says: str
    agreed: int = 0


@dataclass
class Group:
    """A mechanism in a dtype: how a kernel has fared on its vectors."""

    stated: dict
    candidates: list
    outputs: int = 0
    taken: int = 0
    skipped: int = 0
    failed: int = 0

    def add(self, said, worst):
        """Take note of a vector; whether it fails."""
        bad = any(entry.excess > 1 for entry in worst.values())
        self.taken += 1
        self.failed += bad
        for output, entry in worst.items():
            self.outputs += 1
            for candidate in self.candidates:
                known = said["refutes"].get(candidate.name, {}).get(output, 0.0)
                candidate.agreed += like(entry.excess, np.inf if known is None else known)
        return bad

    def told(self):
        """What there is to say of them."""
        yield f"{self.stated['mechanism']} {self.stated['dtype']}: {self.failed} of {self.taken} vectors fail" + (
            f", {self.skipped} not taken" if self.skipped else ""
        )
        if not self.failed:
            return
        fits = [c for c in self.candidates if c.agreed == self.outputs]
        for candidate in fits[:3]:
            yield f"  like {candidate.name}: {candidate.says}"
        if not fits:
            nearest = max(self.candidates, key=lambda c: c.agreed, default=None)
            yield "  like no known mistake" + (
                f"; nearest is {nearest.name}, on {nearest.agreed} of {self.outputs} outputs" if nearest else ""
            )


def check(folder, kernels, *, verbose=False, say=print):
    """Judge kernels, by operator, on the vectors of a folder; the excess of each vector that was taken, by name.

    The excess is the largest error over the bound of all outputs: a vector fails where it is above 1.
    """
    folder, found = Path(folder), {}
    index = json.loads((folder / "index.json").read_text("utf-8"))
    if index["format"] != 2:
        raise ValueError(f"{folder}: format {index['format']} is not known here")
    for stated in index["mechanisms"]:
        kernel = kernels.get(stated["operator"])
        if kernel is None:
            continue
        known = [Candidate(name, x["says"]) for name, x in stated["mistakes"].items() if x["refuted"]]
        group, tensors = Group(stated, known), read_safetensors(folder / stated["file"])
        for kind, key in ((Vector, "vectors"), (Relation, "relations")):
            for said in index[key]:
                if (said["mechanism"], said["dtype"]) != (stated["mechanism"], stated["dtype"]):
                    continue
                try:
                    worst = kind(said, stated, tensors).tried(kernel)
                except NotImplementedError:
                    group.skipped += 1
                    continue
                bad = group.add(said, worst)
                found[said["name"]] = max(entry.excess for entry in worst.values())
                if bad or verbose:
                    output, entry = max(worst.items(), key=lambda item: item[1].excess)
                    shown = output if kind is Vector else f"of {len(said['calls'])} calls"
                    say(f"{'FAIL' if bad else 'ok  '} {said['name']} {said['law']} {said['case']}: {shown}{entry.says}")
        for line in group.told():
            say(line)
    return found


def main(kernels: dict[str, Any], words: list[str] | None = None) -> int:
    """The command line of a check: its words are [-v] DIR. Exit codes: 0 right, 1 wrong, 5 nothing taken."""
    words = sys.argv[1:] if words is None else words
    found = check(words[-1], kernels, verbose="-v" in words)
    return 5 if not found else int(any(excess > 1 for excess in found.values()))
