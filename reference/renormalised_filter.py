"""Filters of probabilities that are renormalised: Holtzman et al. 2020, arXiv:1904.09751, section 3.1, equation 3."""

import numpy as np


def renormalised_filter(probs, k=None, p=None):
    """The k largest entries of each row, or the fewest that have the chance p, divided by their sum.

    probs [rows, n], k or p [rows]. A row is NaN where equal entries compete for the last places.
    """
    if any(x is not None and np.shape(x) != (len(probs),) for x in (k, p)):
        raise ValueError("there is one number for each row")
    out = np.zeros(probs.shape)
    for r, row in enumerate(probs):
        order = np.argsort(-row, kind="stable")
        count = len(row) if k is None else min(int(k[r]), len(row))
        if p is not None:
            count = 1
            while count < len(row) and row[order[:count]].sum() < p[r]:
                count += 1
        chosen = order[:count]
        if count < len(row) and row[order[count]] == row[order[count - 1]] > 0:
            out[r] = np.nan
        else:
            out[r, chosen] = row[chosen] / row[chosen].sum()
    return out
