"""The branch of compressed blocks of native-sparse-attention-pytorch: its windows, its networks, and its attention.

Source: https://github.com/lucidrains/native-sparse-attention-pytorch (native_sparse_attention_pytorch)
Its windows begin before the first key, with zeros there, and its module hides a block from the query at its end; the
adapter leaves the windows that are not whole out, and gives the mask. Maps of two matrices and no biases are those of
GroupedMLP, and maps of one those of ConvLinearCompress. What its module has before the blocks, a key and a value of
zeros, is seen here by the queries that see no block, and by no others.
"""

from __future__ import annotations

import importlib
from typing import Any

from .. import adapter


def module(name: str) -> Any:
    return importlib.import_module(f"native_sparse_attention_pytorch.{name}")


def windows(x: Any, block_size: int, stride: int) -> Any:
    """The whole blocks of keys or values, as the module cuts them: [batch, heads, blocks, block_size, size]."""
    import torch

    with torch.random.fork_rng(devices=[]):
        cut = (
            module("native_sparse_attention")
            .SparseAttention(
                dim=1,
                dim_head=x.shape[3],
                heads=x.shape[1],
                sliding_window_size=1,
                compress_block_size=block_size,
                compress_block_sliding_stride=stride,
                selection_block_size=stride,
                num_selected_blocks=1,
                compress_mlp=torch.nn.Identity(),
            )
            .split_compress_window
        )
    return cut(x[:, :, : x.shape[2] // stride * stride])[:, :, block_size // stride - 1 :]


def compressed(blocks: Any, first: Any, second: Any) -> Any:
    """One key or value for each block, by one matrix or by two for each head."""
    import torch

    heads, block_size, size, hidden = first.shape
    networks = module("compress_networks")
    with torch.random.fork_rng(devices=[]):
        if second is None:
            network = networks.ConvLinearCompress(heads, size, block_size)
            weight = first.permute(0, 3, 2, 1).reshape(heads * size, size, block_size)
            given = {"conv.weight": weight, "conv.bias": weight.new_zeros(heads * size)}
        else:
            network = networks.GroupedMLP(size, block_size, heads, (hidden + 0.5) / (size * block_size))
            given = {
                "net.0.weight": first.reshape(heads, block_size * size, hidden),
                "net.0.bias": first.new_zeros(network.net[0].bias.shape),
                "net.2.weight": second,
                "net.2.bias": first.new_zeros(network.net[2].bias.shape),
            }
    return torch.func.functional_call(network, given, (blocks,))


@adapter(
    "compressed_attention",
    dtypes=("float32", "bfloat16", "float16"),
    requires="not single(k_map) and not single(v_map) and k_len >= block_size",
    package="native_sparse_attention_pytorch",
    extra="native-sparse-attention",
)
def native_sparse_attention_compression(
    q: Any,
    k: Any,
    v: Any,
    k_positions: Any = None,
    v_positions: Any = None,
    k_map: Any = None,
    v_map: Any = None,
    k_second: Any = None,
    v_second: Any = None,
    *,
    stride: int,
    block_size: int,
    select_size: int,
    scale: float | None = None,
) -> Any:
    """split_compress_window, GroupedMLP or ConvLinearCompress, and attend; no importance."""
    import torch

    keys, values = (
        compressed(windows(x, block_size, stride) + (0 if places is None else places[:, None]), first, second)
        for x, places, first, second in ((k, k_positions, k_map, k_second), (v, v_positions, v_map, v_second))
    )
    ends = torch.arange(keys.shape[2]) * stride + block_size - 1
    complete = ends <= torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
    keys, values = (torch.nn.functional.pad(x, (0, 0, 1, 0)) for x in (keys, values))
    seen = torch.cat([~complete.any(1, keepdim=True), complete], 1)
    return module("native_sparse_attention").attend(q, keys, values, mask=seen, scale=scale)
