"""Ring attention of PyTorch's context parallelism, over processes of this machine that gloo connects.

Documentation: https://docs.pytorch.org/docs/stable/distributed.tensor.html
`context_parallel` has a ring for the kernels of GPUs alone; what is called here is the ring itself with the kernel that
scaled_dot_product_attention has on the CPU. Under the causal flag work is balanced by the order of the tokens, which is
that of its default load balancer. Zeros fill lengths up where the causal flag hides them.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from .ranks import Places, Ranks, cut, filled, in_order, joined, zigzag

NAIVE = {"bfloat16": "bf16_naive", "float16": "fp16_naive"}
RANKS = 2

declared = functools.partial(
    adapter,
    dtypes=("float32", "bfloat16", "float16"),
    grade=NAIVE,
    package="torch",
    requires=(
        "heads == kv_heads",
        "value_dim == head_dim",
        "q_len > 0 and k_len > 0",
        "q_len == k_len if causal else k_len % 4 == 0",
    ),
)


def attended(q: Any, k: Any, v: Any, *, causal: bool, scale: float | None, method: str, d_out: Any = None) -> Any:
    """What a rank makes of its shards: the output, or the gradients for that of the output."""
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor.experimental import _attention
    from torch.distributed.tensor.experimental._context_parallel import _attention as ring

    group: Any = dist.group.WORLD
    kernels: Any = torch.ops.aten
    kernel, back = (getattr(kernels, f"_scaled_dot_product_flash_attention_for_cpu{x}") for x in ("", "_backward"))
    ring._cp_options.enable_load_balance = causal  # as context_parallel has it
    _attention.set_rotate_method(method)
    options = {"is_causal": causal, "dropout_p": 0.0, "scale": scale}
    out, lse, *_ = ring._templated_ring_attention(group, 2, kernel, q, k, v, **options)
    if d_out is None:
        return out
    found = ring._templated_ring_attention_backward(group, 2, back, d_out, "grad_out", q, k, v, out, lse, **options)
    return found[:3]


def differentiated(q: Any, k: Any, v: Any, d_out: Any, **options: Any) -> Any:
    return attended(q, k, v, d_out=d_out, **options)


forward, backward = Ranks(RANKS, attended), Ranks(RANKS, differentiated)


def shards(causal: bool, *arrays: Any) -> tuple[list[Places], list[list[Any]]]:
    """Where each rank has the tokens of each array, and what it is handed of them."""
    if len({x.shape for x in arrays[1:3]}) > 1 or len({x.shape for x in arrays[::3]}) > 1:
        raise ValueError("queries, keys, values and the gradient of the output belong together")
    whole = [filled(x, 2 * RANKS, 2) for x in arrays]
    places = [(zigzag if causal else in_order)(x.shape[2], RANKS) for x in whole]
    return places, [cut(x, own, 2) for x, own in zip(whole, places, strict=True)]


@declared("attention", conventions={"empty_row": "zeros", "grouping": "block"})
def torch_ring(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """The ring of torch.distributed.tensor.experimental.context_parallel over two processes, keys gathered at once."""
    places, given = shards(causal, q, k, v)
    found = forward(*given, causal=causal, scale=scale, method="allgather")
    return joined(found, places[0], 2)[:, :, : q.shape[2]]


@declared("attention", conventions={"empty_row": "zeros", "grouping": "block"})
def torch_ring_alltoall(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """The ring of torch.distributed.tensor.experimental.context_parallel over two processes, keys sent on in turn."""
    places, given = shards(causal, q, k, v)
    found = forward(*given, causal=causal, scale=scale, method="alltoall")
    return joined(found, places[0], 2)[:, :, : q.shape[2]]


@declared("attention_gradient", conventions={"empty_row": "zeros", "grouping": "block"})
def torch_ring_gradient(q: Any, k: Any, v: Any, d_out: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """Gradients of the ring of torch.distributed.tensor.experimental.context_parallel over two processes."""
    places, given = shards(causal, q, k, v, d_out)
    found = backward(*given, causal=causal, scale=scale, method="alltoall")
    lengths = q.shape[2], k.shape[2], k.shape[2]
    whole = [joined([one[i] for one in found], places[i], 2)[:, :, :n] for i, n in enumerate(lengths)]
    return dict(zip(("d_q", "d_k", "d_v"), whole, strict=True))
