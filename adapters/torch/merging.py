"""How PyTorch merges the partial results of attention over keys that lie on different devices.

Source: torch/distributed/tensor/experimental/_context_parallel/_attention.py, the class _SDPAMerger, which ring
attention gives the results of one part of the keys after the other.
It is asked for several states, of which each has keys, for a rank leaves the steps out in which it sees nothing.
Arithmetic is in float32, whatever the dtype is.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "merge_states",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"lse_base": "natural"},
    requires=("states > 1", "all(lses > -infinity)"),
    grade={"float64": "fp32"},
    package="torch",
)
def torch_sdpa_merger(outs: Any, lses: Any) -> Any:
    """_SDPAMerger of torch's context parallelism, one state after the other, as [batch, heads, length, dim]."""
    import torch.distributed as dist

    if not dist.is_available():
        raise ImportError("torch is built without torch.distributed")
    from torch.distributed.tensor.experimental._context_parallel._attention import _SDPAMerger

    merger = _SDPAMerger(convert_to_f32=True, seq_dim=2)
    for out, lse in zip(outs, lses, strict=True):
        merger.step(out.transpose(0, 1)[None], lse.T[None], partial=False)
    out, lse = merger.results()
    return {"out": out[0].transpose(0, 1), "lse": lse[0].T}
