"""Draft tokens verified by the chances of a target model.

Leviathan, Kalman and Matias 2023, Fast inference from transformers via speculative decoding, algorithm 1.
Chen et al. 2023, Accelerating large language model decoding with speculative sampling, algorithm 2.
"""

import numpy as np


def draft_verification(draft_probs, target_probs, drafts, uniforms, lens=None):
    """Tokens `[batch, steps + 1]`, accepted counts `[batch]` and the chances `[batch, vocab]` of the further token.

    q is `draft_probs [batch, steps, vocab]`, p is `target_probs [batch, steps + 1, vocab]`, `drafts [batch, steps]`
    are tokens, -1 for none, `uniforms [batch, steps + 1]` lie between 0 and 1, and `lens [batch]` count drafts.
    """
    fitting(draft_probs, target_probs, drafts)
    batch, steps = drafts.shape
    tokens, accepted = np.full((batch, steps + 1), -1), np.zeros(batch, np.int64)
    residual = np.zeros((batch, target_probs.shape[2]))
    for item in range(batch):
        q, p, u, x = draft_probs[item], target_probs[item], uniforms[item], drafts[item]
        n, r = accepted_drafts(q, p, u, x, steps if lens is None else lens[item])
        tokens[item, :n], accepted[item], residual[item] = x[:n], n, r
        tokens[item, n] = min(np.searchsorted(np.cumsum(r), u[steps], side="right"), len(r) - 1)
    return {"tokens": tokens, "accepted": accepted, "residual": residual}


def fitting(draft_probs, target_probs, drafts):
    batch, steps = drafts.shape
    vocab = target_probs.shape[-1]
    if draft_probs.shape != (batch, steps, vocab) or target_probs.shape != (batch, steps + 1, vocab):
        raise ValueError("each draft has the chances of both models, and the target model those of one position more")


def accepted_drafts(q, p, u, x, count):
    """How many drafts of one item are accepted, and the chances [vocab] of the further token."""
    for n in range(count):
        if x[n] < 0 or u[n] >= p[n, x[n]] / q[n, x[n]]:
            more = np.maximum(p[n] - q[n], 0)
            return n, more / more.sum()
    return count, p[count] / p[count].sum()


def speculative_sampling(draft_probs, target_probs, drafts, lens=None, *, seed):
    """Tokens `[batch, steps + 1]` and accepted counts `[batch]`, by uniform numbers that are drawn with a seed."""
    batch, steps = drafts.shape
    uniforms = np.random.default_rng(seed).uniform(np.nextafter(0, 1), 1, (batch, steps + 1))
    found = draft_verification(draft_probs, target_probs, drafts, uniforms, lens)
    return {"tokens": found["tokens"], "accepted": found["accepted"]}
