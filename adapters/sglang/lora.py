"""Low-rank adapters of the tokens of a batch in SGLang, in Triton.

Source: https://github.com/sgl-project/sglang (python/sglang/kernels/ops/lora/dense)
The first matrices of an adapter lie slice by slice behind each other, as many rows as it has ranks, and those of a
greater one follow. A token without an adapter has one of no rank.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..controls.lora import fitting
from ..triton.interpreter import declared
from .modules import LORA, module

CHUNK = 16
DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16"),
    "package": "sglang",
}


class Batch:
    """What kernels are told of a batch, and the matrices of its adapters; the last adapter has no rank."""

    def __init__(self, x: Any, a: Any, b: Any, adapter: Any, scales: Any, ranks: Any, widths: Any) -> None:
        import torch

        self.widths = fitting(x, a, b, adapter, widths)
        adapters, slices, rank, dim = a.shape
        self.own = adapter.where(adapter >= 0, adapters)
        held = [rank] * adapters if ranks is None else ranks.tolist()
        self.ranks = torch.tensor([*held, 0], dtype=torch.int32, device=x.device)
        one = torch.ones(1, device=x.device)
        self.scales = torch.cat((one.expand(adapters) if scales is None else scales, one))
        self.first = torch.zeros(adapters + 1, slices * rank, dim, dtype=a.dtype, device=x.device)
        for i, n in enumerate(held):
            self.first[i, : slices * n] = a[i, :, :n].flatten(0, 1)
        self.second = torch.cat((b, torch.zeros_like(b[:1]))).contiguous()
        self.ends = torch.tensor([0, *self.widths], device=x.device).cumsum(0).int()

    def told(self, adapters: Any, lens: Any, order: Any) -> Any:
        """The segments of a batch: their adapters and lengths, and the tokens in their order."""
        import torch

        starts = torch.cat((lens.new_zeros(1), lens.cumsum(0)))
        return SimpleNamespace(
            bs=len(lens),
            num_segments=len(lens),
            use_cuda_graph=False,
            max_len=int(lens.max()),
            seg_lens=lens.int(),
            seg_indptr=starts.int(),
            weight_indices=adapters.int(),
            lora_ranks=self.ranks,
            scalings=self.scales,
            permutation=None if order is None else order.int(),
        )


@declared("lora_matmul", **DECLARED)
def sglang_sgemm_lora(
    x: Any,
    a: Any,
    b: Any,
    adapter: Any,
    base: Any = None,
    scales: Any = None,
    ranks: Any = None,
    *,
    widths: Any = None,
) -> Any:
    """sgemm_lora_a_fwd, and sgemm_lora_b_fwd, or qkv_lora_b_fwd of several slices, of segments as they come."""
    import torch

    batch = Batch(x, a, b, adapter, scales, ranks, widths)
    adapters, lens = torch.unique_consecutive(batch.own, return_counts=True)
    told = batch.told(adapters, lens, None)
    low = module("sgemm_lora_a", LORA).sgemm_lora_a_fwd(x.contiguous(), batch.first, told, a.shape[1])
    out = None if base is None else base.clone()
    if a.shape[1] == 1:
        return module("sgemm_lora_b", LORA).sgemm_lora_b_fwd(low, batch.second, told, out)
    call = module("qkv_lora_b", LORA).qkv_lora_b_fwd
    return call(low, batch.second, told, batch.ends, max(batch.widths), out, a.shape[1])


@declared("lora_matmul", **DECLARED)
def sglang_chunked_sgmv(
    x: Any,
    a: Any,
    b: Any,
    adapter: Any,
    base: Any = None,
    scales: Any = None,
    ranks: Any = None,
    *,
    widths: Any = None,
) -> Any:
    """chunked_sgmv_lora_shrink_forward and chunked_sgmv_lora_expand_forward of sorted tokens, in blocks of sixteen."""
    import torch

    batch = Batch(x, a, b, adapter, scales, ranks, widths)
    order = torch.sort(batch.own, stable=True).indices
    chunks = [chunk for own in batch.own.unique() for chunk in order[batch.own[order] == own].split(CHUNK)]
    firsts, lens = (
        torch.tensor(found, device=x.device) for found in zip(*((c[0], len(c)) for c in chunks), strict=True)
    )
    told = batch.told(batch.own[firsts], lens, order)
    told.max_len = CHUNK
    low = module("chunked_sgmv_shrink", LORA).chunked_sgmv_lora_shrink_forward(
        x.contiguous(), batch.first, told, a.shape[1]
    )
    return module("chunked_sgmv_expand", LORA).chunked_sgmv_lora_expand_forward(
        low, batch.second, told, batch.ends, max(batch.widths), None if base is None else base.clone()
    )
