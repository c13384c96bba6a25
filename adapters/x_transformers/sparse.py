"""Attention to the largest scores, as the package x-transformers has it.

Source: https://github.com/lucidrains/x-transformers (x_transformers.attend.Attend with sparse_topk).
What scores as much as the last key that is kept is kept as well.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "sparse_top_k",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"ties": "every"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="x_transformers",
    extra="x-transformers",
)
def x_transformers_sparse(q: Any, k: Any, v: Any, *, keep: int) -> Any:
    """x_transformers.attend.Attend with sparse_topk."""
    from x_transformers.attend import Attend

    out, _ = Attend(heads=q.shape[1], sparse_topk=keep)(q, k, v)
    return out
