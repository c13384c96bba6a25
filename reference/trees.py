"""What the nodes of a speculated tree see, one node at a time.

Miao et al. 2023, SpecInfer, arXiv:2305.09781, section 4.2: a node attends to the text and to its path from the root.
"""

import numpy as np


def tree_mask(parents, *, cached, window_left=None):
    """The mask [batch, nodes, cached + nodes] of trees, from the numbers of parents [batch, nodes], -1 for none.

    Of the keys on a node's path, from the first that is cached to itself, it sees the last `window_left` and itself.
    """
    batch, nodes = parents.shape
    if not np.all((parents >= -1) & (parents < np.arange(nodes))):
        raise ValueError("a parent comes before its children")
    mask = np.zeros((batch, nodes, cached + nodes), bool)
    for b, i in np.ndindex(batch, nodes):
        path = [i]
        while parents[b, path[-1]] >= 0:
            path.append(int(parents[b, path[-1]]))
        keys = [*range(cached), *(cached + node for node in reversed(path))]
        mask[b, i, keys if window_left is None else keys[-window_left - 1 :]] = True
    return mask
