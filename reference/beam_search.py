"""Beam search over sequences in which the next token depends on the current one.

Graves 2012, Sequence transduction with recurrent neural networks, arXiv:1211.3711, section 2.5.
"""

import itertools
import math

import numpy as np


def beam_search(log_probs, *, start, width, length):
    """The best sequences of `length` tokens after `start`, by `log_probs [vocab, vocab]` (row: the current token).

    Returns tokens [n, length] and scores [n], the best first, where n is `width` or the number of sequences.
    Each step adds once, and may divide the row by its sum once more, which rounds a logarithm and a difference:
    `rounding` counts three roundings a step, of the size of the score or of one.
    `margin` says how closely it was decided what the outputs hold. All of them depend on what is kept on the way, but
    not on which of equally good sequences that end alike, as they do when they take the same steps in another order. A
    row of tokens depends on its own place at every step, too.
    """
    vocab = len(log_probs)
    if log_probs.shape != (vocab, vocab) or not 0 <= start < vocab or width < 1 or length < 1:
        raise ValueError("a square table, a start among its tokens, and a width and a length of at least one")
    beam, margin = [((), 0.0, math.inf)], math.inf
    for step in range(length):
        longer = []
        for tokens, score, clear in beam:
            row = log_probs[tokens[-1] if tokens else start]
            longer += [((*tokens, token), score + row[token], clear) for token in range(vocab)]
        longer.sort(key=lambda hypothesis: -hypothesis[1])
        kept, lost = longer[:width], longer[width:]
        if step < length - 1:
            margin = min([margin, *(gap(k, other) for k in kept for other in lost if not interchangeable(k, other))])
        beam = [(*k[:2], min([k[2], *(gap(k, other) for other in lost[:1])])) for k in kept]
    scores = [score for _, score, _ in beam]
    between = [gap(a, b) for a, b in itertools.pairwise(beam)]
    clear = [
        min(margin, k[2], *ends) for k, *ends in zip(beam, [math.inf, *between], [*between, math.inf], strict=True)
    ]
    return {
        "tokens": np.array([tokens for tokens, _, _ in beam], np.int64),
        "scores": np.array(scores),
        "rounding": 3 * length * max([1.0, *(abs(score) for score in scores if math.isfinite(score))]),
        "margin": {"tokens": np.array(clear)[:, None], "scores": margin},
    }


def gap(better, worse):
    """How far the scores of two hypotheses are apart; two that are impossible are not."""
    return better[1] - worse[1] if math.isfinite(better[1]) else 0.0


def interchangeable(one, other):
    """Whether two hypotheses end in the same token and are equally good, so that either may be kept."""
    return one[0][-1] == other[0][-1] and gap(one, other) <= 1e-12 * max(1.0, abs(one[1]))
