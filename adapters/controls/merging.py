"""Right, but different: partial states merged as kernels merge them, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
NATURAL, TWO = {"lse_base": "natural"}, {"lse_base": "two"}


def checked(outs: Any, lses: Any) -> None:
    """Refuse what has no states, or states that do not belong together."""
    if not len(outs) or outs.shape[:3] != lses.shape:
        raise ValueError("every state has an output and a logsumexp")


@adapter("merge_states", dtypes=DTYPES, conventions=NATURAL)
def control_merge_by_pairs(outs: Any, lses: Any) -> Any:
    """Two at a time, and the results again, as a tree of splits is reduced."""
    import torch

    checked(outs, lses)
    states = [(o.float(), s) for o, s in zip(outs, lses, strict=True)]
    while len(states) > 1:
        merged = []
        for left, right in zip(states[::2], states[1::2], strict=False):
            top = torch.maximum(left[1], right[1])
            safe = torch.where(top == -torch.inf, 0.0, top)
            a, b = (left[1] - safe).exp(), (right[1] - safe).exp()
            whole = torch.where(a + b > 0, a + b, 1.0)
            out = (a[..., None] * left[0] + b[..., None] * right[0]) / whole[..., None]
            merged.append((out, safe + (a + b).log()))
        states = merged + states[len(states) - len(states) % 2 :]
    out, lse = states[0]
    return {"out": torch.where(lse[..., None] == -torch.inf, 0.0, out).to(outs.dtype), "lse": lse.clone()}


@adapter("merge_states", dtypes=DTYPES, conventions=NATURAL)
def control_merge_by_sigmoids(outs: Any, lses: Any) -> Any:
    """One after the other, each taking the share of its sigmoid from the result so far."""
    import torch

    checked(outs, lses)
    out, lse = torch.zeros_like(outs[0], dtype=torch.float32), torch.full_like(lses[0], -torch.inf)
    for o, s in zip(outs.float(), lses, strict=True):
        share = torch.where(s == -torch.inf, 0.0, torch.sigmoid(s - lse))
        out = out - share[..., None] * (out - o)
        lse = torch.logaddexp(lse, s)
    return {"out": out.to(outs.dtype), "lse": lse}


@adapter("merge_states", dtypes=DTYPES, conventions=TWO)
def control_merge_base_two(outs: Any, lses: Any) -> Any:
    """All at once by powers of two, with a running maximum and sum."""
    import torch

    checked(outs, lses)
    top = lses.amax(0)
    safe = torch.where(top == -torch.inf, 0.0, top)
    powers = torch.exp2(lses - safe)
    whole = powers.sum(0)
    out = (powers[..., None] * outs.float()).sum(0) / torch.where(whole > 0, whole, 1.0)[..., None]
    return {"out": out.to(outs.dtype), "lse": safe + whole.log2()}


@adapter(
    "merge_states",
    dtypes=("bfloat16", "float16"),
    conventions=NATURAL,
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def control_merge_in_the_dtype(outs: Any, lses: Any) -> Any:
    """Weights in single precision by softmax, and products and sums in the dtype of the outputs."""
    import torch

    checked(outs, lses)
    some = (lses > -torch.inf).any(0)
    shares = torch.where(some, lses.softmax(0), 0.0).to(outs.dtype)
    return {"out": (shares[..., None] * outs).sum(0), "lse": lses.logsumexp(0)}
