"""A kernel with one mistake: it scales by the width of the model, all heads together, instead of that of one head.

attnspec check examples/wrong_scale.py
"""

import torch

from attnspec import adapter


@adapter("attention")
def wrong_scale(q, k, v):
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    v = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    width = q.shape[1] * q.shape[3]
    weights = torch.softmax(q @ k.transpose(-1, -2) / width**0.5, dim=-1)
    return weights @ v
