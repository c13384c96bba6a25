"""How OLMo-core filters the logits of the next token.

Source: https://github.com/allenai/OLMo-core (src/olmo_core/generate/sampling.py)
The file is read by itself: it needs torch alone, and what the package imports in front of it a whole training setup.
The top-k filter compares with the k-th largest logit, so that all its equals stay. A `top_p` of one returns the logits.
"""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable
from typing import Any

from .. import adapter
from ..triton.parts import folder_of

DTYPES = ("float32", "bfloat16", "float16", "float64")
declared = functools.partial(adapter, dtypes=DTYPES, package="olmo_core", extra="olmo-core")


@functools.cache
def filters() -> dict[str, Callable[..., Any]]:
    """The functions of the file, by name."""
    return runpy.run_path(str(folder_of("olmo_core") / "generate/sampling.py"))


@declared("top_k_filter", conventions={"ties": "every"})
def olmo_core_top_k(logits: Any, *, k: int) -> Any:
    """top_k_filtering of olmo_core.generate."""
    return filters()["top_k_filtering"](logits, k).clone()


@declared(
    "top_p_filter",
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    conventions={"top_p_boundary": "exceeds", "ties": "open"},
)
def olmo_core_top_p(logits: Any, *, p: float) -> Any:
    """top_p_filtering of olmo_core.generate."""
    return filters()["top_p_filtering"](logits, p).clone()
