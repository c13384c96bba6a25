"""The attention operators of ONNX Runtime, on its CPU provider.

Documentation: https://onnx.ai/onnx/operators/onnx__Attention.html (versions 23 and 24), and of the operators of its own
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (com.microsoft.MultiHeadAttention and
com.microsoft.GroupQueryAttention).
Attention has a mask that is boolean or additive, never both, so a mask and a bias together are put into one bias, and
one that is narrower than the keys is padded, so that an axis of length one is widened here; a softcap of zero is none,
and the root of the scale is taken.
MultiHeadAttention has a padding mask of integers, which it fills with -10000 by default, and an additive one.
GroupQueryAttention is causal at the last key, counts in its window the token itself, and takes keys and values of its
own queries after those of the past, so that what a query sees before them is given as the past.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "float16", "float64")
GRADES = {"float32": "fp32", "float16": "fp16_naive", "float64": "fp32"}
"""The root of the scale is taken in single precision, that of float64 too."""
declared = functools.partial(adapter, framework="numpy", package="onnxruntime", extra="onnxruntime")


@functools.cache
def session(
    operator: str,
    domain: str,
    opset: int,
    dtypes: tuple[tuple[str, str], ...],
    outputs: int | tuple[str, ...],
    **attributes: Any,
) -> Any:
    """A session of a model of one node; `dtypes` are the names of its inputs and their types, or none if left out.

    Of `outputs` there is how many there are, of the type of the first input, or the input of whose type each is.
    """
    import numpy as np
    import onnx
    import onnxruntime

    helper: Any = onnx.helper
    given = [(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype))) for name, dtype in dtypes if dtype]
    like = (given[0][0],) * outputs if isinstance(outputs, int) else outputs
    node = helper.make_node(
        operator,
        [name if dtype else "" for name, dtype in dtypes],
        [f"output_{i}" for i in range(len(like))],
        domain=domain,
        **attributes,
    )
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in given]
    results = [helper.make_tensor_value_info(f"output_{i}", dict(given)[name], None) for i, name in enumerate(like)]
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph([node], operator, inputs, results)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)


def run(
    operator: str, domain: str, opset: int, feeds: dict[str, Any], outputs: int | tuple[str, ...] = 1, **attributes: Any
) -> Any:
    """The outputs of a node; inputs that are None at its end or between others are left out."""
    dtypes = tuple((name, "" if x is None else str(x.dtype)) for name, x in feeds.items())
    found = session(operator, domain, opset, dtypes, outputs, **{n: x for n, x in attributes.items() if x is not None})
    return found.run(None, {name: x for name, x in feeds.items() if x is not None})


def attention(opset: int, q: Any, k: Any, v: Any, causal: bool, mask: Any, bias: Any, scale: Any, softcap: Any) -> Any:
    """One call of the operator Attention."""
    import numpy as np

    if scale is not None and scale <= 0:
        raise Unsupported("a scale is above zero, for queries and keys are each multiplied by its root")

    added = mask if bias is None else bias
    if mask is not None and bias is not None:
        added = np.where(mask, bias, np.array(-np.inf, bias.dtype))
    if added is not None and added.shape[-1] == 1:
        added = np.broadcast_to(added, (*added.shape[:-1], k.shape[2]))
    feeds = {"Q": q, "K": k, "V": v, "attn_mask": added}
    return run("Attention", "", opset, feeds, is_causal=int(causal), scale=scale, softcap=softcap)[0]


@declared(
    "attention",
    requires="scale == none or scale > 0",
    dtypes=DTYPES,
    conventions={"causal_alignment": "top_left", "empty_row": "zeros", "grouping": "block"},
    grade=GRADES,
)
def onnxruntime_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Attention of opset 24, by ONNX Runtime."""
    return attention(24, q, k, v, causal, mask, bias, scale, softcap)


@declared(
    "attention",
    requires="scale == none or scale > 0",
    dtypes=DTYPES,
    conventions={"causal_alignment": "top_left", "empty_row": "zeros", "grouping": "block"},
    grade=GRADES,
)
def onnxruntime_attention_23(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Attention of opset 23, by ONNX Runtime."""
    return attention(23, q, k, v, causal, mask, bias, scale, softcap)


def joined(x: Any) -> Any:
    """[batch, heads, length, channels] as [batch, length, heads * channels]."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def parted(x: Any, heads: int) -> Any:
    """[batch, length, heads * channels] as [batch, heads, length, channels]."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


@declared(
    "attention",
    requires="heads == kv_heads",
    dtypes=("float32", "float16"),
    conventions={"causal_alignment": "top_left", "empty_row": "mean_value", "empty_bias_row": "nan_row"},
    grade={"float32": "fp32", "float16": "fp16_naive"},
)
def onnxruntime_multi_head(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> Any:
    """com.microsoft.MultiHeadAttention, by ONNX Runtime."""
    import numpy as np

    batch, heads, q_len, _ = q.shape
    k_len = k.shape[2]
    if k.shape[1] != heads:
        raise Unsupported("as many heads of keys as of queries")
    if mask is not None:
        whole = mask.reshape(*(1,) * (4 - mask.ndim), *mask.shape)
        if whole.shape[1] != 1:
            raise Unsupported("a mask is one for all heads")
        mask = np.broadcast_to(whole[:, 0], (batch, q_len, k_len)).astype(np.int32)
    if bias is not None:
        bias = np.broadcast_to(bias, (*([1, 1][: 4 - bias.ndim]), *bias.shape[:-2], q_len, k_len))
    feeds = {"query": joined(q), "key": joined(k), "value": joined(v), "bias": None}
    feeds |= {"key_padding_mask": mask, "attention_bias": bias}
    options = {"num_heads": heads, "scale": scale, "unidirectional": int(causal)}
    return parted(run("MultiHeadAttention", "com.microsoft", 21, feeds, **options)[0], heads)


@declared(
    "attention",
    requires=(
        "value_dim == head_dim",
        "q_len <= k_len",
        "batch == 1 or q_len == 1 or q_len == k_len",
        "causal or window_left == none",
    ),
    dtypes=("float32", "float16"),
    conventions={"causal_alignment": "bottom_right", "grouping": "block"},
    limits={"head_dim": range(8, 1025, 8)},
    grade={"float32": "fp32", "float16": "fp16_naive"},
)
def onnxruntime_grouped_query(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    bias: Any = None,
    sink: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """com.microsoft.GroupQueryAttention, by ONNX Runtime."""
    import numpy as np

    batch, heads, q_len, _ = q.shape
    k_len = k.shape[2]
    past = k_len - q_len
    if past < 0 or v.shape != k.shape:
        raise Unsupported("keys and values of the past and of the queries")
    if past and q_len > 1 and batch > 1:
        raise Unsupported("several queries after a past in a batch of one")
    if window_left is not None and not causal:
        raise Unsupported("a window is causal")
    if bias is not None:
        bias = np.broadcast_to(bias, (*([1, 1][: 4 - bias.ndim]), *bias.shape[:-2], q_len, k_len))
    feeds = {"query": joined(q), "key": joined(k[:, :, past:]), "value": joined(v[:, :, past:])}
    feeds |= {"past_key": k[:, :, :past], "past_value": v[:, :, :past]}
    feeds |= {"seqlens_k": np.full(batch, k_len - 1, np.int32), "total_sequence_length": np.array(k_len, np.int32)}
    feeds |= {"cos_cache": None, "sin_cache": None, "position_ids": None, "attention_bias": bias, "head_sink": sink}
    window = -1 if window_left is None else window_left + 1
    options = {"num_heads": heads, "kv_num_heads": k.shape[1], "scale": scale, "softcap": softcap}
    options |= {"causal": int(causal), "local_window_size": window}
    out, _, _ = run("GroupQueryAttention", "com.microsoft", 21, feeds, 3, **options)
    return parted(out, heads)
