"""How vLLM filters the logits of requests that decode in one batch, and draws from them on the CPU.

Source: https://github.com/vllm-project/vllm (vllm/v1/sample/ops/topk_topp_sampler.py, and csrc/cpu for the last one)
The sampler divides logits in float32 by the temperatures of their rows first. A request with a seed has a generator of
its own, which goes on from draw to draw.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .modules import compiled, sampler

DECLARED: dict[str, Any] = {"dtypes": ("float32",), "package": "vllm"}


@adapter("filter_rows", conventions={"chance_for_p": "of_the_left"}, **DECLARED)
def vllm_top_k_top_p(logits: Any, temperature: Any = None, k: Any = None, p: Any = None) -> Any:
    """apply_top_k_top_p of logits divided by temperatures, which it writes over."""
    if any(x is not None and len(x) != len(logits) for x in (temperature, k, p)):
        raise ValueError("every row has its own temperature, k and p")
    tempered = logits.clone() if temperature is None else logits / temperature[:, None]
    return sampler().apply_top_k_top_p(tempered, None if k is None else k.clone(), p)


def streams(seeds: Any, logits: Any) -> dict[int, Any]:
    """The generators of requests by their places in the batch."""
    import torch

    if len(seeds) != len(logits):
        raise ValueError("every row has a seed")
    return {row: torch.Generator().manual_seed(seed) for row, seed in enumerate(seeds.tolist())}


def stacked(drawn: list[Any], logits: Any) -> Any:
    """Draw after draw of the rows: [rows, count]."""
    import torch

    return torch.stack(drawn, 1) if drawn else logits.new_zeros((len(logits), 0), dtype=torch.int64)


@adapter("sample_rows", **DECLARED)
def vllm_random_sample(
    logits: Any, seeds: Any, temperature: Any = None, k: Any = None, p: Any = None, *, count: int
) -> Any:
    """random_sample with a generator for each row, call after call."""
    import torch

    own = streams(seeds, logits)
    chances = torch.softmax(vllm_top_k_top_p(logits, temperature, k, p), -1)
    return stacked([sampler().random_sample(chances.clone(), own) for _ in range(count)], logits)


@adapter("sample_rows", **DECLARED)
def vllm_cpu_gumbel_sample(
    logits: Any, seeds: Any, temperature: Any = None, k: Any = None, p: Any = None, *, count: int
) -> Any:
    """fused_gumbel_argmax, with a seed of each draw from the generator of its row."""
    import torch

    generators = streams(seeds, logits).values()
    left = vllm_top_k_top_p(logits, temperature, k, p)
    own = [torch.randint(0, 2**31, (count,), generator=stream) for stream in generators]
    return stacked([compiled().fused_gumbel_argmax(left, draws) for draws in torch.stack(own, 1)], logits)
