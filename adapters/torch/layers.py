"""Layers of torch that an adapter makes within a call, because the function under test is one of their methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def new_layer(kind: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A layer whose weights are still to be set; the random state stays as it was, for what it draws is not kept."""
    import torch

    with torch.random.fork_rng(devices=[]):
        return kind(*arguments, **options)


def given(x: Any) -> Any:
    """A layer that returns an array, whatever it is called with: in place of a projection that gives it."""
    import torch

    class Given(torch.nn.Module):
        def forward(self, _: Any) -> Any:
            return x

    return Given()
