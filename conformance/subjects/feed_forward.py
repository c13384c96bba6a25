"""The maps of a feed-forward, told by the shapes of their parameters, as their names differ too much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import UsageError
from ..execution.survey import Survey, Weight
from .kinds import DIM, HIDDEN, outputs_first, part_of

FUNCTIONS = {
    "swiglu": ("silu",),
    "silu": ("silu",),
    "swish": ("silu",),
    "quickgelu": ("quick_gelu",),
    "gelu": ("gelu", "gelu_tanh"),
    "geglu": ("gelu", "gelu_tanh"),
    "reglu": ("relu",),
    "relu": ("relu", "relu_squared"),
}
"""What the name of a class says of the function of its hidden units."""
EXCHANGED = {"gate?": "up", "up?": "gate"}
"""What else a map may be that is one of two, of which no name says which is the gate."""
ALL = ("gelu", "gelu_tanh", "relu", "silu", "quick_gelu", "relu_squared")


def functions_of(name: str) -> tuple[str, ...]:
    """The functions of hidden units that a class of some name may have."""
    low = name.lower().replace("_", "")
    return next((found for word, found in FUNCTIONS.items() if word in low), ALL)


def hidden_of(survey: Survey) -> int:
    """How many hidden units a class has that was built; a `UsageError` where no size says so.

    It is built with a number of them, or has a multiple of the width of its tokens.
    """
    if "hidden" in survey.uses:
        return HIDDEN
    wide = [max(w.shape) for w in survey.weights if len(w.shape) == 2 and DIM in w.shape]
    if not wide or any(n % DIM for n in wide) or min(wide) == DIM:
        raise UsageError(f"no size says how many hidden units there are ({_known(survey.weights)})")
    return min(wide)


def maps_of(survey: Survey, hidden: int) -> list[tuple[str, Weight]]:
    """The part that each parameter is; a `UsageError` where one is none, and where a map is missing.

    Which of two maps to the hidden units is the gate is open, as a `?` says, where their names do not say it.
    """
    inward, outward = _sides(survey.weights, hidden)
    if not inward or len(outward) != 1:
        raise UsageError(f"these are not the maps of a feed_forward ({_known(survey.weights)})")
    named = [*zip(_inward_parts(inward, hidden), inward, strict=True), ("down", outward[0])]
    return [*named, *_biases([w for w in survey.weights if w not in (*inward, *outward)], named, hidden)]


def _sides(weights: Sequence[Weight], hidden: int) -> tuple[list[Weight], list[Weight]]:
    """The matrices to the hidden units, of which one may hold two, and those back."""
    matrices = [w for w in weights if len(w.shape) == 2 and {*w.shape} in ({hidden, DIM}, {2 * hidden, DIM})]
    if not matrices:
        return [], []
    last = DIM if outputs_first(matrices[0]) else matrices[0].shape[1]  # the first leads inward, wherever its input is
    inward = [w for w in matrices if 2 * hidden in w.shape or (w.shape[1] == DIM) == (last == DIM)]
    if len(inward) == len(matrices) > 1:
        inward = inward[:-1]
    return inward, [w for w in matrices if w not in inward]


def _inward_parts(inward: Sequence[Weight], hidden: int) -> list[str]:
    if len(inward) == 1:
        return ["gate_up" if 2 * hidden in inward[0].shape else "up"]
    if len(inward) > 2:
        raise UsageError(f"{len(inward)} matrices lead to the hidden units, of which a feed_forward has two")
    said = ["gate" if "gate" in w.path.lower() else part_of(w.path, ["gate", "up"]) for w in inward]
    if {*said} == {"gate", ""}:
        said = [part or "up" for part in said]
    return said if {*said} == {"gate", "up"} else ["gate?", "up?"]


def _biases(left: Sequence[Weight], named: Sequence[tuple[str, Weight]], hidden: int) -> Iterator[tuple[str, Weight]]:
    """The biases, each of the matrix beside it, or of the next one of its width."""
    held = {w.path.rpartition(".")[0]: part for part, w in named if "." in w.path}
    widths = {"down": DIM, "gate_up": 2 * hidden}
    free = {part: widths.get(part, hidden) for part, _ in named}
    for bias in left:
        part = held.get(bias.path.rpartition(".")[0]) or next((p for p, n in free.items() if bias.shape == (n,)), "")
        if free.pop(part, None) is None or bias.shape != (widths.get(part, hidden),):
            raise UsageError(f"unknown parameter {bias.path} {list(bias.shape)} of a feed_forward")
        yield part, bias


def told_by_shape(named: list[tuple[str, Weight]]) -> list[tuple[str, Weight]]:
    """The parts as they are, but for those of a feed-forward whose names are numbers, where shapes tell the last.

    Which of the two others is the gate is then open, which a `?` says.
    """
    matrices = {w.path: w.shape for part, w in named if part in ("gate", "up", "down") and outputs_first(w)}
    parts = {w.path: part for part, w in named}
    if all((shape == (DIM, HIDDEN)) == (parts[path] == "down") for path, shape in matrices.items()):
        return named
    others = iter(("gate?", "up?"))
    told = {path: "down" if shape == (DIM, HIDDEN) else next(others, parts[path]) for path, shape in matrices.items()}
    return [(told.get(w.path, part), w) for part, w in named]


def _known(weights: Sequence[Weight]) -> str:
    return ", ".join(f"{w.path} {list(w.shape)}" for w in weights)
