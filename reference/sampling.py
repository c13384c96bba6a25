"""Filters of logits, and drawing from what they leave.

Top-k: Fan, Lewis and Dauphin 2018, Hierarchical neural story generation, section 5.
Top-p: Holtzman et al. 2020, The curious case of neural text degeneration, section 3.1.
Min-p: Nguyen et al. 2025, Turning up the heat, section 3.
"""

import numpy as np

from .softmax import softmax


def top_k_filter(logits, *, k, ties="first"):
    """The k largest logits of every row of `logits [..., n]`, the others at minus infinity."""
    if k < 1:
        raise ValueError("at least one entry stays")
    out = np.full(logits.shape, -np.inf)
    for row in np.ndindex(logits.shape[:-1]):
        x = logits[row]
        ranked = in_falling_order(x, ties)
        for place, i in enumerate(ranked):
            tied = x[i] == x[ranked[min(k, len(x)) - 1]]
            if place < k or (tied and ties == "every"):
                out[row][i] = x[i]
            elif tied and ties == "open" and x[i] > -np.inf:
                out[row][x == x[i]] = np.nan
    return out


def top_p_filter(logits, *, p, top_p_boundary="at_least", ties="first"):
    """The fewest most likely entries of every row of `logits [..., n]` that together have the chance p."""
    if not 0 < p <= 1:
        raise ValueError("p is more than zero and at most one")
    out = np.full(logits.shape, -np.inf)
    for row in np.ndindex(logits.shape[:-1]):
        x = logits[row]
        chance, mass, last = softmax(x), 0.0, -np.inf
        for i in in_falling_order(x, ties):
            enough = mass >= p if top_p_boundary == "at_least" else mass > p
            if not enough or (ties == "every" and x[i] == last):
                out[row][i] = last = x[i]
            elif ties == "open" and x[i] == last > -np.inf:
                out[row][x == last] = np.nan
            mass += chance[i]
    return out


def min_p_filter(logits, *, p):
    """The entries of every row of `logits [..., n]` that have the share p of the chance of the most likely one."""
    if not 0 < p <= 1:
        raise ValueError("p is more than zero and at most one")
    out = np.full(logits.shape, -np.inf)
    for row in np.ndindex(logits.shape[:-1]):
        x = logits[row]
        near = np.exp(x - np.max(x)) >= p if np.max(x) > -np.inf else np.zeros(x.shape, bool)
        out[row][near] = x[near]
    return out


def in_falling_order(x, ties):
    """The indices of x from the largest on; of equal entries the last comes first where ties say so."""
    tiebreak = (lambda i: -i) if ties == "last" else (lambda i: i)
    return sorted(range(len(x)), key=lambda i: (-x[i], tiebreak(i)))


def filter_rows(logits, temperature=None, k=None, p=None, *, chance_for_p="of_the_left"):
    """Every row of `logits [rows, n]` over its `temperature`, by its `k` and then its `p` [rows].

    NaN is what depends on the order of equal entries: whatever is not the same for every choice among them.
    """
    rows = len(logits)
    if any(x is not None and np.shape(x) != (rows,) for x in (temperature, k, p)):
        raise ValueError("there is one number for each row")
    out = np.full(logits.shape, -np.inf)
    for r in range(rows):
        x = logits[r] if temperature is None else logits[r] / temperature[r]
        found = [
            one_row(x, None if k is None else k[r], None if p is None else p[r], ties, chance_for_p) for ties in TIES
        ]
        alike = np.logical_and.reduce([same(found[0], other) for other in found])
        out[r] = np.where(alike, found[0], np.nan)
    return out


TIES = [(by_k, by_p) for by_k in ("first", "last", "every") for by_p in ("first", "last", "every")]


def one_row(x, k, p, ties, chance_for_p):
    """One row by its k and p, equal entries being taken as `ties` say for each."""
    left = x if k is None else top_k_filter(x, k=min(int(k), len(x)), ties=ties[0])
    if p is None:
        return left
    within = top_p_filter(left if chance_for_p == "of_the_left" else x, p=p, ties=ties[1])
    return np.where(within > -np.inf, left, -np.inf)


def same(a, b):
    """Where two rows are equal, minus infinities among them."""
    return (a == b) | (np.isinf(a) & np.isinf(b))


def sample(logits, *, seed, count, temperature=1.0, k=None, p=None):
    """Tokens `[rows, count]` drawn from the softmax of what is left of `logits [rows, n]`."""
    if temperature < 0:
        raise ValueError("a temperature is not negative")
    generator = np.random.default_rng(seed)
    tokens = np.empty((len(logits), count), np.int64)
    for row, x in enumerate(logits):
        tempered = x / temperature if temperature > 0 else np.where(x == x.max(), 0.0, -np.inf)
        left = tempered if k is None else top_k_filter(tempered, k=k)
        left = left if p is None else top_p_filter(left, p=p)
        tokens[row] = generator.choice(len(x), count, p=softmax(left))
    return tokens


def sample_rows(logits, seeds, temperature=None, k=None, p=None, *, count):
    """Tokens `[rows, count]`: those of a row are drawn by its own seed from what its own filters leave of it."""
    if np.shape(seeds) != (len(logits),):
        raise ValueError("there is one seed for each row")
    chances = [softmax(row) for row in filter_rows(logits, temperature, k, p)]
    return np.array(
        [np.random.default_rng(int(s)).choice(len(c), count, p=c) for s, c in zip(seeds, chances, strict=True)]
    )
