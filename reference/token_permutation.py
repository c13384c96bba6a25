"""Tokens sorted by the experts that they are sent to, and brought back.

Shazeer et al. 2017, arXiv:1701.06538, section 3.1 and equation 1; Gale et al. 2022, arXiv:2211.15841, section 5.2.
"""

import numpy as np


def _sorted(chosen):
    """Pairs (token, choice) that are sent somewhere, by expert and then by token."""
    pairs = [(t, j) for t, j in np.ndindex(chosen.shape) if chosen[t, j] >= 0]
    return sorted(pairs, key=lambda pair: chosen[pair])


def token_permutation(x, chosen, *, experts):
    """The tokens in blocks of their experts, and where they are.

    x [tokens, dim], chosen [tokens, k] in numbers of experts, -1 for none.
    Returns rows [tokens * k, dim], block_sizes [experts], sources [tokens * k], places [tokens, k]; zeros where there
    is no row.
    """
    if len(chosen) != len(x) or chosen.max(initial=-1) >= experts:
        raise ValueError("every token has its choices, each of an expert that there is")
    rows, block_sizes = np.zeros((chosen.size, x.shape[1])), np.zeros(experts, int)
    sources, places = np.zeros(chosen.size, int), np.zeros(chosen.shape, int)
    for r, (t, j) in enumerate(_sorted(chosen)):
        rows[r], sources[r], places[t, j] = x[t], t, r
        block_sizes[chosen[t, j]] += 1
    return {"rows": rows, "block_sizes": block_sizes, "sources": sources, "places": places}


def token_unpermutation(rows, chosen, weights=1.0):
    """The rows of each token, weighed and added up: [tokens, dim].

    rows [tokens * k, dim], chosen and weights [tokens, k].
    """
    if len(rows) != chosen.size or np.shape(weights) not in ((), chosen.shape):
        raise ValueError("every choice has a row and a weight")
    weights = np.broadcast_to(weights, chosen.shape)
    out = np.zeros((len(chosen), rows.shape[1]))
    for r, (t, j) in enumerate(_sorted(chosen)):
        out[t] += weights[t, j] * rows[r]
    return out
