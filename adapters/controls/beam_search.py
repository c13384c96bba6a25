"""Right, but different, as in `controls_attention`: beam search on arrays, and with a heap."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


@adapter("beam_search", dtypes=DTYPES)
def control_beam_arrays(log_probs: Any, *, start: int, width: int, length: int) -> Any:
    """All extensions as one row, and torch.topk, scores in single precision; the tokens are traced back at the end."""
    import torch

    table, vocab = log_probs.float(), len(log_probs)
    last, scores, steps = torch.tensor([start]), torch.zeros(1), []
    for _ in range(length):
        extended = (scores[:, None] + table[last]).flatten()
        scores, places = extended.topk(min(width, len(extended)))
        last = places % vocab
        steps.append((places // vocab, last))
    tokens, place = [], torch.arange(len(scores))
    for before, token in reversed(steps):
        tokens.append(token[place])
        place = before[place]
    return {"tokens": torch.stack(tokens[::-1], 1), "scores": scores.to(log_probs.dtype)}


@adapter("beam_search", dtypes=DTYPES)
def control_beam_heap(log_probs: Any, *, start: int, width: int, length: int) -> Any:
    """Each hypothesis gives its own best extensions, and a heap the best of all; in double precision."""
    import heapq

    import torch

    table, beam = log_probs.double().tolist(), [(0.0, (start,))]
    for _ in range(length):
        extended = []
        for score, tokens in beam:
            best = heapq.nlargest(width, enumerate(table[tokens[-1]]), key=lambda pair: pair[1])
            extended += [(score + step, (*tokens, token)) for token, step in best]
        beam = heapq.nlargest(width, extended, key=lambda pair: pair[0])
    scores = torch.tensor([score for score, _ in beam], dtype=torch.float64)
    return {"tokens": torch.tensor([tokens[1:] for _, tokens in beam]), "scores": scores.to(log_probs.dtype)}
