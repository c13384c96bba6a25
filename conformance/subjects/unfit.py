"""Why an operator cannot express a class, judged by parameters that no mapping can account for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..execution.survey import Weight
from .kinds import KINDS, POSITIONS, SECTIONS, is_bias, part_of

GATED = ("swiglu", "transformer_block", "decoder")
"""The operators whose feed-forward has a gate, and whose maps have no bias."""
NORMS = ("attention_norm", "mlp_norm", "final_norm")
FIRST_MAP = ("c_fc", "fc1", "fc_1", "fc_in", "w_in", "lin1", "linear1", "linear_1", "dense_h_to_4h", "up_proj", "w1")
"""What the first of the two matrices of a feed-forward without a gate is called."""


def differences(operator: str, weights: Sequence[Weight]) -> list[str]:
    """In what a class is another than its operator, a clause each; none where only names are in doubt."""
    if operator not in GATED:
        return []
    asked = (_positions, _norms, _biases, _feed_forward)
    return [clause for one in asked for clause in one(operator, weights)]


def _parts(operator: str) -> list[str]:
    own = {part for part, _ in KINDS[operator].weights.values()}
    return [*own, *(whole for whole, sections in SECTIONS.items() if set(sections) <= own)]


def _segment(path: str) -> str:
    """What a parameter, or the layer that holds it, is called."""
    *_, holder, last = ["", *path.lower().split(".")]
    return holder if holder and last in ("weight", "bias", "kernel", "embedding") else last


def _positions(operator: str, weights: Sequence[Weight]) -> Iterator[str]:
    for weight in weights:
        if any(segment in POSITIONS for segment in weight.path.lower().split(".")):
            yield f"{weight.path} is a table of positions, but {operator} rotates queries and keys"
        elif _segment(weight.path) in ("q_norm", "k_norm", "query_norm", "key_norm", "q_layernorm", "k_layernorm"):
            yield f"{weight.path} normalises queries or keys, which {operator} does not"


def _norms(operator: str, weights: Sequence[Weight]) -> Iterator[str]:
    parts = _parts(operator)
    found = [
        weight.path.rpartition(".")[0]
        for weight in weights
        if part_of(weight.path, parts) in NORMS
        and ("LayerNorm" in weight.holder.replace("_", "") or is_bias(weight.path))
    ]
    if several := _listed(found):
        yield f"{several} LayerNorm, and the norms of {operator} are those of rms_norm"


def _biases(operator: str, weights: Sequence[Weight]) -> Iterator[str]:
    parts = _parts(operator)
    found = [w.path for w in weights if is_bias(w.path) and part_of(w.path, parts) not in NORMS]
    if found:
        further = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"{found[0]}{further} add{'' if further else 's'} a bias, and the maps of {operator} have none"


def _feed_forward(operator: str, weights: Sequence[Weight]) -> Iterator[str]:
    parts = _parts(operator)
    named = {part_of(w.path, parts) for w in weights if not is_bias(w.path)}
    first = [w.path for w in weights if _segment(w.path) in FIRST_MAP and len(w.shape) == 2]
    if not named & {"gate_up"} and not {"gate", "up"} <= named and first:
        yield f"{first[0]} is the first of two matrices of a feed-forward, but {operator} has three, with a gate"


def _listed(paths: Sequence[str]) -> str:
    """`a is`, or `a, b and 2 more are`."""
    own = list(dict.fromkeys(paths))
    if not own:
        return ""
    if len(own) == 1:
        return f"{own[0]} is a"
    shown = ", ".join(own[:2]) + (f" and {len(own) - 2} more" if len(own) > 2 else "")
    return f"{shown} are each a"
