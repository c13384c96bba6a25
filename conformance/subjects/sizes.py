"""Parameters that are told a size of the arrays, by their names: `num_heads`, `seqlen_k`, or `M` and `N` and `d`."""

from __future__ import annotations

import re
from collections.abc import Collection

NAMES = {
    "batch": "batch_size bsz bs n_batch num_batches num_seqs",
    "heads": (
        "num_heads n_heads nheads n_head num_q_heads n_q_heads num_qo_heads num_attention_heads "
        "num_query_heads total_num_heads q_heads heads_q h_q hq"
    ),
    "kv_heads": (
        "num_kv_heads n_kv_heads num_key_value_heads n_kv_head n_kvheads num_kvheads nkvhead nheads_k "
        "num_k_heads heads_kv heads_k h_kv h_k hkv"
    ),
    "q_len": "seqlen_q seq_len_q q_len q_seq_len q_seqlen qo_len query_len target_len tgt_len",
    "k_len": "seqlen_k seq_len_k k_len kv_len k_seq_len kv_seq_len seq_len_kv seqlen_kv key_len source_len src_len",
    "head_dim": "head_size dim_head d_head headdim head_dimension dim_k d_k qk_head_dim",
    "value_dim": "d_v dim_v head_dim_v v_head_dim head_size_v",
    "page_size": "block_size tokens_per_page",
    "rows": "n_rows num_rows nrows num_tokens n_tokens",
    "n": "n_cols num_cols ncols n_columns num_columns hidden_size n_features num_features row_size",
    "dim": "head_dim head_size dim_head d_head headdim hidden_size d_model embed_dim embed_dim_to_check model_dim",
    "hidden": "intermediate_size d_ff ffn_dim inner_dim",
    "tokens": "n_rows num_rows nrows num_tokens n_tokens",
    "buckets": "num_buckets n_buckets",
    "vocab": "vocab_size n_vocab n_cols num_cols ncols n_columns num_columns",
    "experts": "num_experts n_experts",
}
"""What each size is called; of two sizes of one operator with a name in common it is the first."""
OF_TWO = {
    "heads // kv_heads": (
        "num_groups n_groups n_rep num_key_value_groups group_size heads_per_group num_rep "
        "num_queries_per_kv queries_per_kv"
    ),
    "heads * head_dim": "d_model embed_dim model_dim emb_dim",
}
"""What is told of two sizes."""
ENTRIES = "n_elements num_elements numel n_elem total_elements"
"""What all entries of the first array are called, however many axes it has."""
LETTERS = {
    "batch": "b z",
    "heads": "h",
    "q_len": "m",
    "head_dim": "d",
    "key_dim": "d",
    "dim": "d",
    "rows": "m b",
    "outs": "n",
    "n": "n d k c",
}
"""What a size is called in one letter, where a function asks for it; of several sizes, it is the first."""
LENGTH = "seq_len seqlen seq_length sequence_length seq length n_ctx context_length tokens num_tokens"
LENGTH_LETTERS = "n l s t"
"""What the one length of a function is called that has one only."""
ONE = (("q_len", "k_len"), ("length",))
"""The sizes that are one length."""
SIZES = frozenset([*NAMES, *(size for sizes in ONE for size in sizes)])
"""The sizes that have names."""


def size_named(name: str, sizes: Collection[str], others: Collection[str], *, letters: bool) -> tuple[str, str]:
    """The size that a parameter is told, and what has to hold so that it is that; nothing where it is told none.

    `others` are the further parameters. `letters` says whether one letter may mean a size.
    """
    if name in sizes:
        return name, ""
    word = name.lower()
    if word in ENTRIES.split():
        return "entries", ""
    for size, names in NAMES.items():
        if size in sizes and word in names.split():
            return size, ""
    for text, names in OF_TWO.items():
        if {*re.findall(r"\w+", text)} <= {*sizes} and word in names.split():
            return text, ""
    letter = letters and len(name) == 1
    if letter and word == "n" and "k_len" in sizes and _has(others, "q_len"):
        return "k_len", ""
    if letter and word == "n" and "rows" in sizes and "outs" not in sizes and {"d", "c"} & {*map(str.lower, others)}:
        return "rows", ""  # as in [N, D]
    if letter and word == "m" and "length" in sizes:
        return "length", ""
    if word in LENGTH.split() or (letter and word in LENGTH_LETTERS.split() and not {"n", "rows"} <= {*sizes}):
        found = next((lengths for lengths in ONE if {*lengths} <= {*sizes}), ())
        alone = len(found) < 2 or any(_has(others, size) for size in found)
        return (found[0], "" if alone else " == ".join(reversed(found))) if found else ("", "")
    if letter:
        found = [size for size, names in LETTERS.items() if size in sizes and word in names.split()]
        return (found[0] if found else "", "")
    return "", ""


def _has(names: Collection[str], size: str) -> bool:
    """Whether one of some parameters is told a length of its own."""
    words = [*NAMES[size].split(), *(LETTERS.get(size, "").split())]
    return any(name.lower() in words for name in names)
