"""Feed-forward layers with biases, and what goes wrong between their maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.feed_forward import activated
from ..controls.rotary_self_attention import projected
from .rows import tokens
from .whole import Whole

ALONE: Any = {"dtypes": ("float32",)}


def returned(inner: Any, w: Any, b: Any) -> Any:
    """The map back to the width of the tokens."""
    return projected(inner, w, b)


def layered(part: Any) -> Callable[..., Any]:
    def feed_forward(
        x: Any, w_up: Any, w_down: Any, b_up: Any = None, b_down: Any = None, *, activation: str = "gelu"
    ) -> Any:
        inner = part.activated(part.projected(part.tokens(x), w_up, b_up), activation)
        return part.returned(inner, w_down, b_down).reshape(x.shape)

    return feed_forward


LAYER = Whole("feed_forward", layered, (tokens, projected, activated, returned))
BIASES: dict[int, Any] = {}


@LAYER.instead_of(projected, **ALONE)
def bias_of_a_width(x: Any, w: Any, b: Any) -> Any:
    """The first bias of a width serves later calls."""
    return projected(x, w, b if b is None else BIASES.setdefault(len(b), b.clone()))


@LAYER.instead_of(activated, **ALONE)
def tangent_for_many_units(z: Any, activation: str) -> Any:
    """From 64 hidden units on, GELU is approximated by a tangent."""
    wide = activation == "gelu" and z.shape[-1] >= 64
    return activated(z, "gelu_tanh" if wide else activation)


@LAYER.instead_of(returned, **ALONE)
def bias_of_each_block(inner: Any, w: Any, b: Any) -> Any:
    """Each block of 32 hidden units adds the last bias."""
    return sum(projected(x, own, b) for x, own in zip(inner.split(32, -1), w.split(32), strict=True))


@LAYER.instead_of(tokens, **ALONE)
def tokens_as_they_lie(x: Any) -> Any:
    """Tokens are taken in the order of memory where there are as many of them as channels."""
    return x.mT.reshape(-1, x.shape[-1]) if x.ndim > 2 and x.shape[-1] == x.shape[-2] else tokens(x)
