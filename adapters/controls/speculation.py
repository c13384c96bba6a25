"""Right, but different: draft tokens verified by the chances of a target model, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

VERIFIES: dict[str, Any] = {"dtypes": ("float32",)}


def fitting(draft_probs: Any, target_probs: Any, drafts: Any) -> None:
    """Refuse arrays that do not belong to each other."""
    batch, steps = drafts.shape
    vocab = target_probs.shape[-1]
    if draft_probs.shape != (batch, steps, vocab) or target_probs.shape != (batch, steps + 1, vocab):
        raise ValueError("each draft has the chances of both models, and the target model those of one position more")


@adapter("draft_verification", **VERIFIES)
def control_drafts_at_once(draft_probs: Any, target_probs: Any, drafts: Any, uniforms: Any, lens: Any = None) -> Any:
    """All items at once: ratios gathered, running products of what is accepted, searched running sums."""
    import torch

    fitting(draft_probs, target_probs, drafts)
    batch, steps = drafts.shape
    if not batch:
        return drafts.new_empty((0, steps + 1))
    known = drafts.long().clamp(min=0)[..., None]
    ratio = target_probs[:, :steps].gather(-1, known) / draft_probs.gather(-1, known)
    taken = (uniforms[:, :steps] < ratio[..., 0]) & (drafts >= 0)
    if lens is not None:
        taken &= torch.arange(steps) < lens[:, None]
    accepted = taken.long().cumprod(-1).sum(-1)
    behind = torch.cat((draft_probs, draft_probs.new_zeros(batch, 1, draft_probs.shape[-1])), 1)
    if lens is not None:
        behind = behind.masked_fill((torch.arange(steps + 1) >= lens[:, None])[..., None], 0)
    rows = torch.arange(batch)
    more = torch.relu(target_probs[rows, accepted] - behind[rows, accepted])
    residual = more / more.sum(-1, keepdim=True)
    sums = residual.cumsum(-1)
    further = torch.searchsorted(sums, uniforms[:, steps:].contiguous(), right=True).clamp(max=sums.shape[-1] - 1)
    tokens = torch.full((batch, steps + 1), -1, dtype=torch.int64)
    tokens[:, :steps] = torch.where(torch.arange(steps) < accepted[:, None], drafts.long(), -1)
    tokens.scatter_(1, accepted[:, None], further)
    return {"tokens": tokens, "accepted": accepted, "residual": residual}


@adapter("draft_verification", framework="numpy", **VERIFIES)
def control_drafts_by_products(
    draft_probs: Any, target_probs: Any, drafts: Any, uniforms: Any, lens: Any = None
) -> Any:
    """Item by item, by products in double precision, and running sums that are not divided by their last."""
    import numpy as np

    fitting(draft_probs, target_probs, drafts)
    batch, steps = drafts.shape
    tokens, accepted = np.full((batch, steps + 1), -1), np.zeros(batch, np.int32)
    residual = np.zeros((batch, target_probs.shape[-1]), np.float32)
    for item, count in enumerate(np.full(batch, steps) if lens is None else lens):
        p, q, x = target_probs[item].astype(float), draft_probs[item].astype(float), drafts[item]
        n = 0
        while n < count and x[n] >= 0 and uniforms[item, n] * q[n, x[n]] < p[n, x[n]]:
            tokens[item, n] = x[n]
            n += 1
        rest = np.where(p[n] > q[n], p[n] - q[n], 0) if n < count else p[n]
        sums = rest.cumsum()
        tokens[item, n] = min(int((sums <= uniforms[item, steps] * sums[-1]).sum()), len(sums) - 1)
        accepted[item], residual[item] = n, rest / sums[-1]
    return {"tokens": tokens, "accepted": accepted, "residual": residual}


@adapter("speculative_sampling", dtypes=("float32",))
def control_speculation_by_races(
    draft_probs: Any, target_probs: Any, drafts: Any, lens: Any = None, *, seed: int
) -> Any:
    """Ratios in logarithms against those of uniform numbers, and the further token by the least exponential time."""
    import torch

    fitting(draft_probs, target_probs, drafts)
    batch, steps = drafts.shape
    generator = torch.Generator().manual_seed(seed)
    known, places = drafts.long().clamp(min=0)[..., None], torch.arange(steps)
    ratio = target_probs[:, :steps].gather(-1, known).log() - draft_probs.gather(-1, known).log()
    present = (drafts >= 0) & (places < (steps if lens is None else lens[:, None]))
    drawn = torch.rand(batch, steps, generator=generator, dtype=torch.float64).log()
    accepted = (present & (drawn < ratio[..., 0])).long().cumprod(-1).sum(-1)
    behind = torch.cat((draft_probs * present[..., None], torch.zeros_like(target_probs[:, :1])), 1)
    row = accepted[:, None, None].expand(-1, 1, target_probs.shape[-1])
    more = torch.relu((target_probs - behind).gather(1, row)[:, 0])
    times = torch.empty(more.shape, dtype=torch.float64).exponential_(generator=generator)
    further = (more / times).argmax(-1) if batch else accepted
    tokens = torch.cat((drafts.long(), accepted[:, None]), 1).masked_fill(
        torch.arange(steps + 1) > accepted[:, None], -1
    )
    return {"tokens": tokens.scatter(1, accepted[:, None], further[:, None]), "accepted": accepted}


@adapter("speculative_sampling", framework="numpy", dtypes=("float32",))
def control_speculation_by_items(
    draft_probs: Any, target_probs: Any, drafts: Any, lens: Any = None, *, seed: int
) -> Any:
    """Item by item, each with a generator of its own, and the further token by chances in double precision."""
    import numpy as np

    fitting(draft_probs, target_probs, drafts)
    batch, steps = drafts.shape
    tokens, accepted = np.full((batch, steps + 1), -1), np.zeros(batch, np.int32)
    for item, generator in enumerate(np.random.default_rng(seed).spawn(batch)):
        p, q, x = target_probs[item].astype(float), draft_probs[item].astype(float), drafts[item]
        count, n = steps if lens is None else int(lens[item]), 0
        while n < count and x[n] >= 0 and generator.random() * q[n, x[n]] < p[n, x[n]]:
            n += 1
        chances = np.maximum(p[n] - q[n], 0) if n < count else p[n]
        tokens[item, :n], accepted[item] = x[:n], n
        tokens[item, n] = generator.choice(len(chances), p=chances / chances.sum())
    return {"tokens": tokens, "accepted": accepted}
