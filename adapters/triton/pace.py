"""What Triton's interpreter does over and over, and need do only once: half of the time of kernels in many chunks."""

from __future__ import annotations

import functools
from typing import Any


def hasten(interpreter: Any, language: Any) -> None:
    """Have the interpreter put its functions in place once for each launch, and find each dtype once.

    It does the first for every call of a function of a kernel, where they are in place already.
    """
    patch, found = interpreter._patch_lang, interpreter._get_np_dtype
    of_scalar = functools.cache(found)
    modules, in_place = (language, language.core), set[int]()

    @functools.cache
    def seen_by(function: Any) -> frozenset[int]:
        """The modules of the language that a function sees."""
        return frozenset(id(x) for x in function.__globals__.values() if any(x is each for each in modules))

    def patched(function: Any) -> Any:
        seen = seen_by(function)
        if seen and seen <= in_place:
            return interpreter._LangPatchScope()
        scope = patch(function)
        put_back = scope.restore

        def restore() -> None:
            in_place.clear()
            put_back()

        scope.restore = restore
        in_place.update(seen)
        return scope

    def numpy_dtype(dtype: Any) -> Any:
        scalar = dtype.element_ty if isinstance(dtype, language.block_type) else dtype
        return found(scalar) if isinstance(scalar, language.pointer_type) else of_scalar(scalar)

    interpreter._patch_lang, interpreter._get_np_dtype = patched, numpy_dtype
