"""What goes wrong where two threads call at once: memory that all calls share.

`SHOWN` names the contract of the profile `serving` that each of them breaks, for it claims to keep that.
"""

from __future__ import annotations

import time
from typing import Any

from .attention import COMPOSED, loaded, weights

FLOAT32 = ("float32",)
SHOWN = {"workspace_of_all_threads": "contract.threads", "inputs_of_a_captured_graph": "contract.threads"}
LAUNCH = 0.003
"""Seconds after which what was asked for is begun with, as of a device."""
_workspaces: dict[Any, Any] = {}


@COMPOSED.instead_of(weights, dtypes=FLOAT32, thread_safe=True)
def workspace_of_all_threads(s: Any, seen: Any, like: Any) -> Any:
    """Scores are kept in a workspace of their shape, which all threads share."""
    import torch

    room = _workspaces.setdefault(tuple(s.shape), torch.empty_like(s)).copy_(s)
    time.sleep(LAUNCH)
    return weights(room, seen, like)


@COMPOSED.instead_of(loaded, dtypes=FLOAT32, thread_safe=True)
def inputs_of_a_captured_graph(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Inputs are copied to where the graph of their shapes was captured, whoever else replays it."""
    import torch

    shapes = tuple(tuple(x.shape) for x in (q, k, v))
    held = _workspaces.setdefault(shapes, tuple(torch.empty(x.shape) for x in (q, k, v)))
    for room, x in zip(held, loaded(q, k, v), strict=True):
        room.copy_(x)
    time.sleep(LAUNCH)
    return held
