"""What a backward pass may be handed of the forward one: lines of the definition of the gradients.

Such are the output and the logsumexp of attention. They are computed in float64, from the inputs of the call; what of
them is handed is rounded as any other array.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ..errors import SpecError
from ..language.scopes import Scope
from .definition import Frame, reached_by
from .mechanism import Mechanism
from .signatures import scope_of_parameters


def results(mechanism: Mechanism) -> frozenset[str]:
    """The lines that a backward pass may be handed; none of an operator that states no gradients."""
    m = mechanism.stating
    return frozenset(m.definition) - {*m.outputs} if m.gradient_of else frozenset()


def scope_with_results(mechanism: Mechanism) -> Scope:
    """What expressions of parameters may speak of, the results of the forward pass among it."""
    return scope_of_parameters(mechanism).having(*results(mechanism))


def spared(mechanism: Mechanism, words: Collection[str]) -> set[str]:
    """The inputs of every call that a backward pass may do without, where it is handed some results of the forward one.

    These are computed from them, or no gradient is.
    """
    known = results(mechanism)
    reach = {name: reached_by(mechanism, frozenset((name,))) for name in mechanism.required if known}
    return {name for name, own in reach.items() if known & own & {*words} or not own & {*mechanism.outputs}}


def forward(mechanism: Mechanism, values: Mapping[str, Any], words: Mapping[str, str]) -> Frame:
    """The forward pass of a call, under some words of conventions; a `SpecError` for inputs that go not together."""
    try:
        return Frame(mechanism, {**words, **values})
    except (ValueError, IndexError) as error:
        raise SpecError(str(error)) from None


def computed(frame: Frame, name: str) -> np.ndarray[Any, Any]:
    """One result of a forward pass, as an array."""
    return np.asarray(frame.outputs(name)[name], float)
