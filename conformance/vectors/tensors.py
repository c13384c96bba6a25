"""Arrays as a safetensors file: the length of a header, the header as JSON, and the bytes of all entries.

The format is that of https://github.com/huggingface/safetensors. It is written here and not by that package, which has
no bfloat16 for NumPy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..frameworks.framework import numpy_dtype

DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
"""What the format calls the dtypes that vectors have."""
ALIGNED = 8
"""The entries begin at a multiple of so many bytes."""


def encoded(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """A file with these arrays, those of the widest entries first, so that every array is aligned.

    Raises `UsageError` for a dtype that the format has no name for.
    """
    header: dict[str, Any] = {}
    parts, end = [], 0
    for name, x in sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize):
        little = np.ascontiguousarray(x.astype(x.dtype.newbyteorder("<")))
        parts.append(little.tobytes())
        start, end = end, end + len(parts[-1])
        header[name] = {"dtype": named(str(x.dtype)), "shape": list(x.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % ALIGNED)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def narrowed(bound: NDArray[np.float64]) -> NDArray[Any]:
    """Bounds in half the room, rounded up; as they are where float32 has some of them as no normal number."""
    sizes, limits = bound[np.isfinite(bound) & (bound != 0)], np.finfo(np.float32)
    if sizes.size and (sizes.min() < limits.tiny or sizes.max() >= limits.max):
        return bound
    near = bound.astype(np.float32)
    return np.where(near < bound, np.nextafter(near, np.float32(np.inf)), near)


def decoded(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a file."""
    length = int.from_bytes(data[:8], "little")
    header, known = json.loads(data[8 : 8 + length]), {short: name for name, short in DTYPES.items()}
    found = {}
    for name, stated in header.items():
        start, end = (8 + length + offset for offset in stated["data_offsets"])
        entries = np.frombuffer(data[start:end], numpy_dtype(known[stated["dtype"]]))
        found[name] = entries.reshape(stated["shape"])
    return found


def named(dtype: str) -> str:
    """What the format calls a dtype; one that it does not have is a `UsageError`."""
    if dtype not in DTYPES:
        raise UsageError(f"a vector has no {dtype} (it has {', '.join(DTYPES)})")
    return DTYPES[dtype]
