"""The float64 reference: every operator written from its paper, in the most obvious way.

It is the second witness beside the definitions in `spec/`, shares no code with the language they are written in, and
imports NumPy alone. Symbols are those of the papers; what the specifications call an option or a convention is a
keyword here.
"""

from .alibi import alibi_bias, alibi_slopes
from .attention import attention
from .beam_search import beam_search
from .dropout import dropout
from .quantization import dequantize, quantize
from .sampling import sample, top_k_filter, top_p_filter
from .softmax import softmax

__all__ = [
    "alibi_bias",
    "alibi_slopes",
    "attention",
    "beam_search",
    "dequantize",
    "dropout",
    "quantize",
    "sample",
    "softmax",
    "top_k_filter",
    "top_p_filter",
]
