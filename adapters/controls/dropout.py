"""Right, but different, as in `controls_attention`: dropout by other generators and other arithmetic."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


@adapter("dropout", dtypes=DTYPES, deterministic=True)
def control_dropout_mask(x: Any, *, p: float, seed: int, training: bool = True) -> Any:
    """A mask of zeros and factors in single precision, multiplied and rounded once."""
    import torch

    if not training or p == 0:
        return x.clone()
    kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) >= p
    return torch.where(kept, x.float() * (1 / max(1 - p, 1e-30)), 0.0).to(x.dtype)


@adapter("dropout", dtypes=DTYPES, deterministic=True)
def control_dropout_integers(x: Any, *, p: float, seed: int, training: bool = True) -> Any:
    """Random words of 32 bits against a whole threshold, and a division."""
    import numpy as np
    import torch

    if not training:
        return x.clone()
    words = np.random.Generator(np.random.Philox(seed)).integers(0, 2**32, x.shape, np.uint32)
    kept = torch.from_numpy(words.astype(np.int64) >= round(p * 2**32))
    return torch.where(kept, x.float() / (1 - p) if p < 1 else x.float(), 0.0).to(x.dtype)


@adapter("dropout", dtypes=DTYPES, deterministic=True)
def control_dropout_counter(x: Any, *, p: float, seed: int, training: bool = True) -> Any:
    """A hash of seed and place, for each entry by itself, as a kernel without state computes it."""
    import numpy as np
    import torch

    if not training or p == 0:
        return x.clone()
    with np.errstate(over="ignore"):
        z = np.arange(1, x.numel() + 1, dtype=np.uint64) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15 | 1)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 0xD6E8FEB86659FD93), (32, 1)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    kept = torch.from_numpy((z >> np.uint64(11)).astype(np.float64) * 2.0**-53 >= p).reshape(x.shape)
    return torch.where(kept, x.double() / max(1 - p, 1e-300), 0.0).to(x.dtype)
