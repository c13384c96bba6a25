"""Multi-head attention of labml.ai's annotated implementations.

Documentation: https://nn.labml.ai/transformers/mha.html
Its layout is [length, batch, dim], its mask [q_len, k_len, batch], true where a query may see a key; its maps of values
and of the output always have a bias.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from ..torch.layers import new_layer


@adapter(
    "multi_head",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"empty_row": "nans"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="labml_nn",
    extra="labml",
)
def labml_multi_head(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    mask: Any = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """MultiHeadAttention of labml_nn.transformers.mha."""
    import torch
    from labml_nn.transformers.mha import MultiHeadAttention

    dim = wq.shape[0]
    if wq.shape[1] != dim:
        raise Unsupported("the heads together are as wide as the model")
    made = new_layer(MultiHeadAttention, heads, dim, dropout_prob=0.0).to(x.device, x.dtype).eval()
    layers = (made.query.linear, made.key.linear, made.value.linear, made.output)
    with torch.no_grad():
        for layer, w, b in zip(layers, (wq, wk, wv, wo), (bq, bk, bv, bo), strict=True):
            layer.weight.copy_(w.T)
            layer.bias.zero_() if b is None else layer.bias.copy_(b)
    if mask is not None:
        whole = mask.reshape(*(1,) * (4 - mask.ndim), *mask.shape)
        if whole.shape[1] != 1:
            raise Unsupported("a mask is one for all heads")
        mask = whole[:, 0].expand(-1, -1, context.shape[1]).permute(1, 2, 0)
    keys = context.transpose(0, 1)
    return made(query=x.transpose(0, 1), key=keys, value=keys, mask=mask).transpose(0, 1).detach()
