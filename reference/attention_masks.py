"""What queries see of the tokens, one pair at a time.

Causal: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3. Windows: Jiang et al. 2023, arXiv:2310.06825, section 2.
Chunks: Meta 2025, Llama 4.
"""

import numpy as np


def attention_mask(present, *, query_length=None, causal=True, window=None, chunk=None):
    """The mask [batch, query_length, k_len], true where a query sees a token; the queries are the last tokens, or all.

    present [batch, k_len] is false for padding. A window holds so many tokens, the own one among them.
    """
    batch, k_len = present.shape
    queries = k_len if query_length is None else query_length
    if not 1 <= queries <= k_len or not (causal or window is chunk is None):
        raise ValueError("there are as many tokens as queries, or more, and windows and chunks look back")
    mask = np.zeros((batch, queries, k_len), bool)
    for b in range(batch):
        for query in range(queries):
            own = k_len - queries + query
            for token in range(k_len):
                near = window is None or own - window < token
                near = near and (chunk is None or own // chunk == token // chunk)
                mask[b, query, token] = (not causal or token <= own) and near and present[b, token]
    return mask
