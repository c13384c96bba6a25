"""Which query heads contribute to the gradients of keys and values that several of them read.

The gradients are linear in that of the output: with all of its heads but one at zero, what is left is the share of that
head.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..judging.trial import Trial
from ..mechanisms.mechanism import Mechanism
from .patterns import indices
from .weights import bounded

MOST = 12
"""Query heads that are looked at; each costs a call."""


def shares_told(trial: Trial) -> str:
    """What is wrong with the shares of query heads, in words; nothing where they are right, or not to be told."""
    m, values = trial.mechanism, trial.sample.values
    axes = m.shapes.get("d_out", ())
    heads, groups = values.get("heads", 0), values.get("kv_heads", 0)
    if "heads" not in axes or not groups < heads <= MOST or heads % groups:
        return ""
    for name in shared_outputs(m):
        subject, exact = (_shares(trial, name, axes.index("heads"), of) for of in ("subject", "definition"))
        words = told(np.abs(subject) > 0, np.abs(exact) > 0) or _counted(subject, exact)
        if words:
            return f"{name} has {words}"
    return ""


def shared_outputs(m: Mechanism) -> list[str]:
    """The gradients of inputs that have fewer heads than the queries."""
    return [name for name in m.outputs if "kv_heads" in m.shapes.get(name.removeprefix("d_"), ())]


def _shares(trial: Trial, name: str, axis: int, of: str) -> Any:
    """How much of an output, [kv_heads, heads], a query head adds; below its bound it is nothing."""
    d_out = trial.sample.values["d_out"]
    place = trial.mechanism.shapes[name.removeprefix("d_")].index("kv_heads")
    found = []
    for head in range(d_out.shape[axis]):
        kept = np.arange(d_out.shape[axis]) == head
        alone = np.where(kept.reshape([-1 if at == axis else 1 for at in range(d_out.ndim)]), d_out, 0.0)
        settled = trial.settle({"d_out": alone})
        exact, radius = bounded(trial, name, settled)
        x = np.asarray(trial.observed(name, settled), float) if of == "subject" else np.asarray(exact)
        x = np.where(np.abs(x) <= radius, 0.0, x)
        found.append(np.abs(x).sum(tuple(at for at in range(x.ndim) if at != place)))
    return np.stack(found, -1)


def told(subject: Any, definition: Any) -> str:
    """In words which heads reach which, [kv_heads, heads], where the definition has consecutive ones in groups."""
    groups, heads = subject.shape
    if (subject == definition).all():
        return ""
    if not subject.any():
        return "the share of no query head"
    tiled = np.arange(heads) % groups == np.arange(groups)[:, None]
    if (subject == tiled).all():
        return "the shares of every so many query heads, and not of consecutive ones"
    if subject.all():
        return "the shares of all query heads, and not of its group alone"
    if (subject <= definition).all():
        within = np.stack([subject[at, definition[at]] for at in range(groups)])
        same = (within == within[0]).all() and not within[0].all()
        own = indices(within[0], "query head") if same else ""
        lacking = indices(~subject.any(0), "query head")
        return f"the share of {own} of each group alone" if own else lacking and f"no share of {lacking}"
    return "shares of query heads that are not of its group"


def _counted(subject: Any, definition: Any) -> str:
    """The factor by which all shares are off, if it is one over their number."""
    with np.errstate(all="ignore"):
        ratio = (subject / definition)[definition > 0]
    group = subject.shape[1] // subject.shape[0]
    if ratio.size and np.allclose(ratio, 1 / group, rtol=1e-2):
        return "the mean of the shares of its group, and not their sum"
    return ""
