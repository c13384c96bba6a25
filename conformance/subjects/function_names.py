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
ASKING = frozenset({"is", "has", "can", "should", "supports", "needs", "uses", "check", "assert", "validate", "verify"})
"""How names begin of functions that ask something about what an operator is, or about what it is given."""
HANDLING = frozenset(
    {"replace", "insert", "register", "patch", "swap", "load", "save", "init", "initialize", "bench", "benchmark"}
    | {"count", "estimate", "plot", "print", "find", "match", "shard", "allocate", "prepare", "clear", "pad", "reorder"}
    | {"transform", "record"}
)
"""How names begin of functions that do something with an operator, or about it."""
ABOUT = frozenset(
    {"supported", "eligible", "ok", "takes", "layout", "geometry", "limit", "config"}
    | {"configs", "configuration", "metadata", "validation", "generator", "flops", "parameters", "decorate"}
)
"""How names end of functions that tell something about an operator, or of its arrays."""
SHAPES = ("_input_shape", "_output_shape", "_out_shape", "_input_shapes", "_output_shapes")
"""How names end of functions that tell the shapes of arrays."""
QUANTIZING = ("quantize", "dequantize")
"""Operators whose codes are whole numbers, one in each entry; functions with names that end so do nothing else."""
OTHER_CODES = frozenset(
    {"fp4", "mxfp4", "nvfp4", "nf4", "mxint4", "fp6", "mxfp8", "e2m1", "awq", "gptq", "fake", "pseudo", "qdq"}
    | {"greedy", "optimal", "ternary", "codebook", "sinq", "hqq"}
)
"""Words in the names of quantizations with codes of another kind, or with none, or found in another way."""
BLOCK_CODES = frozenset(
    {"fp4", "mxfp4", "nvfp4", "nf4", "mxint4", "int4", "4bit", "e2m1", "mxfp8", "greedy", "optimal", "ternary"}
)
"""Those that have fewer bits, or a scale of eight bits for a block, or are found in another way."""
SHIFTED = frozenset({"asymmetric", "asym", "affine"})
"""Words in the names of quantizations that have a zero point beside the scale."""
FILTERS = ("filter_rows", "renormalised_filter", "top_k_filter", "top_p_filter", "min_p_filter")
"""Operators that keep some of the tokens that may be drawn."""
FILTERED = {"top_p": "top_p_filter", "topp": "top_p_filter", "nucleus": "top_p_filter", "top_k": "top_k_filter"} | {
    "topk": "top_k_filter",
    "min_p": "min_p_filter",
}
"""What words in the names of samplers say that is kept."""
SAMPLING = frozenset({"sampling", "sample", "samples", "sampled"})
"""Words in the names of functions that draw tokens."""
ACTIVATIONS = frozenset(("silu", "gelu", "relu", "swish", "mish"))
"""Functions of activation that a fused kernel may apply to what an operator gives."""
EMPTY = frozenset({"fake", "meta", "stub", "dummy"})
"""Words in the names of functions that give arrays without computing what is in them."""
OF_TABLES = ("_cos_sin", "_sin_cos", "_freqs", "_freqs_cis", "_angles", "_table", "_tables")
"""How the names of functions end that give what rotary functions are passed."""
STEPS = ("rotate_half", "rotate_every_two", "rotate_interleave", "rotate_interleaved", "permute", "unpermute")
"""What functions are called that give pairs of channels to rotary functions, or order their channels."""
UNLIKE = {
    "softmax": frozenset(
        {"hard", "gumbel", "sampled", "hierarchical", "adaptive", "taylor", "sparse", "causal", "tril"}
    ),
    "cross_entropy": frozenset({"binary", "sigmoid", "logistic", "focal", "poly", "contrastive", "pairwise", "pair"}),
    "rotary": frozenset({"multidimensional", "axial", "3d"}),
    "attention_mask": frozenset(
        {"tree", "prefix", "document", "segment", "packed", "block", "sparse", "cross", "encoder", "image", "random"}
    ),
    "paged_attention": frozenset({"mla", "latent"}),
    "gated_activation": frozenset({"quick"}),
    "layer_norm": frozenset({"mean", "rstd", "variance", "tp", "parallel"}),
    "rms_norm": frozenset({"rstd", "variance", "tp", "parallel"}),
    "attention": frozenset(
        {
            "mix",
            "lightning",
            "rollout",
            "stickbreaking",
            "deltaformer",
            "performer",
            "nystrom",
            "lsh",
            "entmax",
            "sparsemax",
            "sigmoid",
            "cosine",
            "talking",
            "qk",
            "qknorm",
        }
    ),
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


def filter_of(name: str) -> str:
    """The filter that the name of a sampler says, which one without a seed may be; nothing where it says several."""
    found = {operator for word, operator in FILTERED.items() if f"_{word}_" in words_of(name)}
    return found.pop() if len(found) == 1 else ""


def check_name(name: str, operator: Mechanism, needed: Collection[str]) -> None:
    """Raise `UsageError` where a name says more than an operator, or another one than that."""
    text = words_of(name)
    words, what = [word for word in text.split("_") if word], "that is what it computes"
    own = operator.operator
    found = (
        (_of_any(words, own), what),
        (_of_rotary(text, own, len(needed)), "it is all of it"),
        (_of_codes(words, own), what),
        (_beside(words, operator), "that is all that it computes"),
    )
    for says, meant in found:
        if says:
            raise UsageError(f"the name {name!r} says {says}; add --operator {own} if {meant}")


def _of_any(words: list[str], own: str) -> str:
    """What words say that is another thing than an operator, whichever it is; nothing where they do not."""
    for word, about in zip((*words[:1], *words[-1:]), (ASKING | HANDLING, ABOUT), strict=False):
        if word in about and word not in own.split("_") and not _ends_as_called(words, own):
            return f"{word}, and no more than that about {own}"
    if "_".join(words).endswith(SHAPES):
        return f"shape, and no more than that about {own}"
    if words and words[-1] in QUANTIZING and "quant" not in own:
        return f"that codes are made or read for {own}"
    if "loss" in words and not any(word in own for word in LOSSES):
        return f"loss, and {own} is none"
    if other := _first(words, UNLIKE.get(own.removesuffix("_gradient"), ())):
        return f"{other}, which {own} is not"
    table = "_".join(words).removesuffix("_cache").endswith(OF_TABLES)
    if table and own in ("rotary", "rotary_frequencies") and words[0] != "apply" and not _ends_as_called(words, own):
        return "what is passed to rotary"
    empty = _first(words, EMPTY) if own not in QUANTIZING else ""
    return f"{empty}, as of what computes nothing" if empty else ""


def _ends_as_called(words: list[str], own: str) -> bool:
    """Whether a name ends in what functions of an operator are called."""
    text = f"_{'_'.join(words)}"
    return any(operator == own and text.endswith(f"_{phrase}") for phrase, operator in called().items())


def _of_rotary(text: str, own: str, needed: int) -> str:
    """The step of rotary that a name says; nothing where it says none."""
    step = next((each for each in STEPS if f"_{each}_" in text), "") if own == "rotary" and needed == 1 else ""
    return f"{step}, a step of rotary" if step else ""


def _of_codes(words: list[str], own: str) -> str:
    """What words say of codes, or of tokens, that an operator does not do; nothing where they say nothing."""
    if own in QUANTIZING and (strange := _first(words, OTHER_CODES)):
        return f"{strange}, and {own} has whole numbers as codes"
    if own == "quantize_blocks" and (strange := _first(words, BLOCK_CODES)):
        return f"{strange}, and {own} has codes of eight bits"
    if own == "quantize_blocks" and {*words} & SHIFTED:
        return f"that numbers are shifted, and {own} has a scale alone"
    sampled = own in FILTERS and {*words} & SAMPLING
    return f"that tokens are drawn, and {own} gives what they are drawn from" if sampled else ""


def _beside(words: list[str], operator: Mechanism) -> str:
    """What words say that is done beside a norm or a softmax; nothing where that is all."""
    own = operator.operator
    if own.endswith("norm") and any("quant" in word for word in words):
        return f"that codes are made beside {own}, which has none"
    if not own.endswith(("norm", "softmax")):
        return ""
    options = " ".join(f"{name} {option.text}" for m in operator.kin for name, option in m.options.items())
    beside = _first(words, [word for word in ACTIVATIONS if word not in options])
    return f"{beside} beside {own}, which has none" if beside else ""


def _first(words: list[str], wanted: Collection[str]) -> str:
    """The first of some words that is among others; nothing where none is."""
    return next((word for word in words if word in wanted), "")
