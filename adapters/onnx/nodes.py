"""Single operators of ONNX, by the evaluator that serves as its reference.

Documentation: https://onnx.ai/onnx/operators/ (TopK, Dropout, DynamicQuantizeLinear, DequantizeLinear).
TopK returns the values and their places, which are put back into rows of minus infinity here; of equal values it takes
the first. Dropout takes its seed as an attribute of the node. DynamicQuantizeLinear knows float32 and eight bits alone.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "float16", "float64")
declared = functools.partial(adapter, framework="numpy", package="onnx", extra="onnx")


@functools.cache
def evaluator(operator: str, inputs: tuple[str, ...], outputs: int, attributes: tuple[tuple[str, int], ...]) -> Any:
    """An evaluator of a model of one node; `inputs` are the names of their dtypes."""
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator

    helper: Any = onnx.helper  # attributes of a node are typed as if they were its name
    names = [f"input_{i}" for i in range(len(inputs))]
    results = [f"output_{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, results, **dict(attributes))
    kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in inputs]
    taken = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, kinds, strict=True)]
    given = [helper.make_tensor_value_info(name, kinds[0], None) for name in results]
    graph = helper.make_graph([node], operator, taken, given)
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)]))


def node(operator: str, *inputs: Any, outputs: int = 1, **attributes: int) -> Any:
    """What a node gives for these arrays."""
    kinds = tuple(str(x.dtype) for x in inputs)
    session = evaluator(operator, kinds, outputs, tuple(sorted(attributes.items())))
    return session.run(None, {f"input_{i}": x for i, x in enumerate(inputs)})


@declared("top_k_filter", dtypes=DTYPES, conventions={"ties": "first"})
def onnx_top_k(logits: Any, *, k: int) -> Any:
    """TopK of opset 24, its values put back at their places."""
    import numpy as np

    values, places = node("TopK", logits, np.array([k], np.int64), outputs=2, axis=-1, largest=1)
    kept = np.full(logits.shape, -np.inf, logits.dtype)
    np.put_along_axis(kept, places, values, -1)
    return kept


@declared("dropout", dtypes=DTYPES)
def onnx_dropout(x: Any, *, p: float, seed: int, training: bool = True) -> Any:
    """Dropout of opset 24, whose ratio is less than one."""
    import numpy as np

    if p == 1:
        raise Unsupported("a ratio of one")
    (y,) = node("Dropout", x, np.array(p, np.promote_types(x.dtype, np.float32)), np.array(training), seed=seed)
    return y.copy() if y is x else y


@declared("quantize", conventions={"quantized_range": "with_zero", "zero_point_form": "integer"}, fixed={"bits": 8})
def onnx_quantize(x: Any) -> Any:
    """DynamicQuantizeLinear of opset 24."""
    codes, scale, zero_point = node("DynamicQuantizeLinear", x, outputs=3)
    return {"codes": codes, "scale": scale, "zero_point": zero_point}


@declared(
    "dequantize",
    requires=("all(codes >= 0)", "all(zero_point >= 0)", "all(zero_point == round(zero_point))"),
    dtypes=DTYPES,
)
def onnx_dequantize(codes: Any, scale: Any, zero_point: Any) -> Any:
    """DequantizeLinear of opset 24, for codes of eight bits or sixteen."""
    import numpy as np

    for kind in (np.uint8, np.uint16):
        limits = np.iinfo(kind)
        taken = all(np.all((limits.min <= q) & (q <= limits.max) & (q == np.floor(q))) for q in (codes, zero_point))
        if taken:
            (x,) = node("DequantizeLinear", codes.astype(kind), np.asarray(scale), zero_point.astype(kind))
            return x
    raise Unsupported("codes and zero point are of one unsigned type")
