"""The float64 reference: every operator written from its paper, in the most obvious way.

It is the second witness beside the definitions in `spec/`, shares no code with the language they are written in, and
imports NumPy alone. Symbols are those of the papers; what the specifications call an option or a convention is a
keyword here.
"""

from .alibi import alibi_bias, alibi_slopes
from .attention import attention
from .decoder import decoder, transformer_block
from .feed_forward import swiglu
from .norms import layer_norm, rms_norm
from .softmax import softmax
from .training import decay_groups, model_flops

__all__ = [
    "alibi_bias",
    "alibi_slopes",
    "attention",
    "decay_groups",
    "decoder",
    "layer_norm",
    "model_flops",
    "rms_norm",
    "softmax",
    "swiglu",
    "transformer_block",
]
