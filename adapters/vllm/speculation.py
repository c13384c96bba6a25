"""How vLLM verifies draft tokens, in Triton.

Source: https://github.com/vllm-project/vllm (vllm/v1/sample/rejection_sampler.py)
The drafts of all items are packed, without those that an item does not have. The kernel is passed uniform numbers, and
for each draft the token that takes its place where it is rejected, and for each item the token behind its drafts; these
are drawn here from what the operator says, since vLLM draws them by exponential times. A draft model that is certain of
its drafts is passed by no chances at all.
"""

from __future__ import annotations

from typing import Any

from ..triton.interpreter import declared
from .modules import rejection


def searched(chances: Any, uniforms: Any) -> Any:
    """The first tokens whose running sums of chances exceed uniform numbers, row by row."""
    import torch

    sums = (chances / chances.sum(-1, keepdim=True)).cumsum(-1)
    return torch.searchsorted(sums, uniforms[:, None], right=True)[:, 0].clamp(max=sums.shape[-1] - 1)


@declared("draft_verification", dtypes=("float32",), package="vllm")
def vllm_rejection_random_sample(
    draft_probs: Any, target_probs: Any, drafts: Any, uniforms: Any, lens: Any = None
) -> Any:
    """rejection_random_sample_kernel."""
    import torch

    batch, steps = drafts.shape
    vocab = target_probs.shape[2]
    if target_probs.shape[1] != steps + 1 or draft_probs.shape != (batch, steps, vocab):
        raise ValueError("the target model has the chances of every draft and of what follows")
    there = drafts.device
    counts = torch.full((batch,), steps, device=there) if lens is None else lens.long()
    own = torch.arange(steps, device=there) < counts[:, None]
    last = uniforms[:, steps:].expand(-1, steps)
    q, p = draft_probs[own], target_probs[:, :steps][own]
    certain = bool(((q == 0) | (q == 1)).all())
    tokens = torch.full((batch, steps + 1), -1, dtype=torch.int32, device=there)
    rejection().rejection_random_sample_kernel[(batch,)](
        tokens,
        counts.cumsum(0).int(),
        drafts[own].int(),
        None if certain else q.contiguous(),
        p.contiguous(),
        searched(target_probs[torch.arange(batch, device=there), counts], uniforms[:, steps].contiguous()),
        searched(torch.relu(p - q), last[own].contiguous()).int(),
        uniforms[:, :steps][own].double(),
        torch.zeros(batch, dtype=torch.bool, device=there),
        steps,
        vocab,
        None,
        NO_DRAFT_PROBS=certain,
        SYNTHETIC_MODE=False,
    )
    return {"tokens": tokens}
