"""Beam search over sequences in which the next token depends on the current one.

Graves 2012, Sequence transduction with recurrent neural networks, arXiv:1211.3711, section 2.5.
"""

import math

import numpy as np


def beam_search(log_probs, *, start, width, length):
    """The best sequences of `length` tokens after `start`, by `log_probs [vocab, vocab]` (row: the current token).

    Returns tokens [n, length] and scores [n], the best first, where n is `width` or the number of sequences.
    `margin` is the least difference of two scores that decides what is kept, and in which order at the end.
    Each step adds once, and may divide the row by its sum once more, which rounds a logarithm and a difference:
    `rounding` counts three roundings a step, of the size of the score or of one.
    """
    vocab = len(log_probs)
    if log_probs.shape != (vocab, vocab) or not 0 <= start < vocab or width < 1 or length < 1:
        raise ValueError("a square table, a start among its tokens, and a width and a length of at least one")
    beam, margin = [((), 0.0)], math.inf
    for _ in range(length):
        longer = []
        for tokens, score in beam:
            row = log_probs[tokens[-1] if tokens else start]
            longer += [((*tokens, token), score + row[token]) for token in range(vocab)]
        longer.sort(key=lambda hypothesis: -hypothesis[1])
        beam = longer[:width]
        if len(longer) > width:
            margin = min(margin, gap(longer[width - 1][1], longer[width][1]))
    scores = [score for _, score in beam]
    margin = min([margin, *(gap(a, b) for a, b in zip(scores, scores[1:], strict=False))])
    largest = max([1.0, *(abs(score) for score in scores if math.isfinite(score))])
    return {
        "tokens": np.array([tokens for tokens, _ in beam], np.int64),
        "scores": np.array(scores),
        "rounding": 3 * length * largest,
        "margin": margin,
    }


def gap(better, worse):
    """How far two scores are apart; two that are impossible are not."""
    return better - worse if math.isfinite(better) else 0.0
