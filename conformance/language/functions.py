"""All functions of the language, in the order of their listing."""

from __future__ import annotations

from . import arranging, computing, deciding
from .registry import Function

FUNCTIONS: dict[str, Function] = {**computing.FUNCTIONS, **arranging.FUNCTIONS, **deciding.FUNCTIONS}
RENAMED = {"order": "argsort", "take": "gather"}
"""What functions were called before."""
