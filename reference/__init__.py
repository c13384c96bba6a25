"""The float64 reference: every operator written from its paper, in the most obvious way.

It is the second witness beside the definitions in `spec/`, shares no code with the language they are written in, and
imports NumPy alone. Symbols are those of the papers; what the specifications call an option or a convention is a
keyword here.
"""

from .aft import aft_full, aft_local, aft_simple
from .alibi import alibi_bias, alibi_slopes
from .attention import attention
from .band_scores import band_scores
from .linformer import linformer
from .multi_head import multi_head
from .softmax import softmax
from .sparse_top_k import sparse_top_k

__all__ = [
    "aft_full",
    "aft_local",
    "aft_simple",
    "alibi_bias",
    "alibi_slopes",
    "attention",
    "band_scores",
    "linformer",
    "multi_head",
    "softmax",
    "sparse_top_k",
]
