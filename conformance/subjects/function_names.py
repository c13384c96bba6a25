"""What the name of a function says: the operator, or something that is more than an operator, or another thing."""

from __future__ import annotations

import re
from collections.abc import Collection

from ..errors import UsageError
from ..mechanisms.library import Library
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.parameters import called

SYNONYMS = {
    "attn": "attention",
    "sdpa": "attention",
    "rope": "rotary",
    "rmsnorm": "rms_norm",
    "layernorm": "layer_norm",
    "groupnorm": "group_norm",
    "gdn": "gated_delta_rule",
    "kda": "kimi_delta_attention",
    "nsa": "native_sparse_attention",
    "gla": "linear_attention",
}
"""What words in the names of functions mean."""
ASKING = frozenset({"is", "has", "can", "should", "supports", "needs", "check", "assert", "validate", "verify"})
"""How names begin of functions that ask something about what an operator is, or about what it is given."""
HANDLING = frozenset(
    {"replace", "insert", "register", "patch", "swap", "load", "save", "init", "initialize", "bench", "benchmark"}
    | {"count", "estimate", "plot", "print", "find", "match"}
)
"""How names begin of functions that do something with an operator, or about it."""
QUANTIZING = ("quantize", "dequantize")
"""Operators whose codes are whole numbers, one in each entry; functions with names that end so do nothing else."""
OTHER_CODES = frozenset(
    {"fp4", "mxfp4", "nvfp4", "nf4", "mxint4", "fp6", "mxfp8", "e2m1", "awq", "gptq", "fake", "pseudo", "qdq"}
    | {"greedy", "optimal", "ternary", "codebook", "sinq", "hqq"}
)
"""Words in the names of quantizations with codes of another kind, or with none, or found in another way."""
BLOCK_CODES = frozenset({"fp4", "mxfp4", "nvfp4", "nf4", "mxint4", "e2m1", "mxfp8", "greedy", "optimal", "ternary"})
"""Those of them that have fewer bits, or a scale of eight bits for a block, or are found in another way."""
SHIFTED = frozenset({"asymmetric", "asym", "affine"})
"""Words in the names of quantizations that have a zero point beside the scale."""
FILTERS = ("filter_rows", "renormalised_filter", "top_k_filter", "top_p_filter", "min_p_filter")
"""Operators that keep some of the tokens that may be drawn."""
SAMPLING = frozenset({"sampling", "sample", "samples", "sampled"})
"""Words in the names of functions that draw tokens."""
ACTIVATIONS = frozenset(("silu", "gelu", "relu", "swish", "mish"))
"""Functions of activation that a fused kernel may apply to what an operator gives."""
STEPS = ("rotate_half", "rotate_every_two", "rotate_interleave", "rotate_interleaved", "permute", "unpermute")
"""What functions are called that give pairs of channels to rotary functions, or order their channels."""
OTHERS = {
    "softmax": frozenset({"hard", "gumbel", "sampled", "hierarchical", "adaptive", "taylor", "sparse"}),
    "cross_entropy": frozenset({"binary", "sigmoid", "logistic", "focal", "poly", "contrastive", "pairwise", "pair"}),
    "rotary": frozenset({"multidimensional", "axial", "3d"}),
    "attention": frozenset({"mix", "rollout"}),
}
"""Words in the names of functions that compute something else than the operator whose name is beside them."""
LOSSES = ("loss", "entropy", "variation")
"""What operators that are losses have in their names, one of these."""


def words_of(text: str) -> str:
    """The words of a text, each between underscores, as operators have them."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)  # RMSNormFunction
    words = f"_{'_'.join(SYNONYMS.get(word, word) for word in re.split(r'[^a-z0-9]+', parted.lower()))}_"
    return re.sub(r"(?<=_)(rms|layer|group)_normali[sz]ation(?=_)", r"\1_norm", words)


def said_by(text: str, known: Library) -> str:
    """The operator that the words of a name or of a sentence say, the longest if they say several; or nothing."""
    words = words_of(text)
    said = {operator: operator for operator in known.stating} | {
        word: operator for word, operator in called().items() if operator in known.stating
    }
    found = [word for word in said if f"_{word}_" in words]
    return said[max(found, key=len)] if found else ""


def check_name(name: str, operator: Mechanism, needed: Collection[str]) -> None:
    """Raise `UsageError` where a name says more than an operator, or another one than that."""
    says, meant = _denied([word for word in words_of(name).split("_") if word], words_of(name), operator, needed)
    if says:
        raise UsageError(f"the name {name!r} says {says}; add --operator {operator.operator} if {meant}")


def _denied(several: list[str], words: str, operator: Mechanism, needed: Collection[str]) -> tuple[str, str]:
    """What the words of a name say that an operator is not, and what would be meant all the same; nothing without."""
    own = operator.operator
    what, all_ = "that is what it computes", "that is all that it computes"
    if several and several[0] in ASKING | HANDLING and several[0] not in own.split("_"):
        return f"{several[0]}, and no more than that about {own}", what
    if several and several[-1] in QUANTIZING and "quant" not in own:
        return f"that codes are made or read for {own}", what
    if "loss" in several and not any(word in own for word in LOSSES):
        return f"loss, and {own} is none", what
    if other := _first(several, OTHERS.get(own.removesuffix("_gradient"), ())):
        return f"{other}, which {own} is not", what
    step = next((each for each in STEPS if f"_{each}_" in words), "")
    if step and own == "rotary" and len(needed) == 1:
        return f"{step}, a step of rotary", "it is all of it"
    strange = _first(several, OTHER_CODES)
    if strange and own in QUANTIZING:
        return f"{strange}, and {own} has whole numbers as codes", what
    if strange in BLOCK_CODES and own == "quantize_blocks":
        return f"{strange}, and {own} has codes of eight bits", what
    if own == "quantize_blocks" and {*several} & SHIFTED:
        return f"that numbers are shifted, and {own} has a scale alone", what
    if own in FILTERS and {*several} & SAMPLING:
        return f"that tokens are drawn, and {own} gives what they are drawn from", what
    if own.endswith("norm") and "quant" in words:
        return f"that codes are made beside {own}, which has none", all_
    if own.endswith(("norm", "softmax")):
        options = " ".join(f"{name} {option.text}" for m in operator.kin for name, option in m.options.items())
        if beside := _first(several, [word for word in ACTIVATIONS if word not in options]):
            return f"{beside} beside {own}, which has none", all_
    return "", ""


def _first(words: list[str], wanted: Collection[str]) -> str:
    """The first of some words that is among others; nothing where none is."""
    return next((word for word in words if word in wanted), "")
