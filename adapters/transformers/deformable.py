"""Multi-scale deformable attention of Hugging Face transformers, in torch alone.

Source: transformers/models/grounding_dino/modeling_grounding_dino.py (MultiScaleDeformableAttention, a copy of which
each model has) and transformers/models/rt_detr_v2/modeling_rt_detr_v2.py (multi_scale_deformable_attention_v2)
Both sample by grid_sample, in the dtype of the maps, and add up what they found by the weights after that.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..controls.deformable import fitting

NAIVE = {"bfloat16": "bf16_naive", "float16": "fp16_naive"}
DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float64"),
    "grade": NAIVE,
    "package": "transformers",
    "extra": "transformers",
}


@adapter("deformable_attention", **DECLARED)
def transformers_deformable_attention(value: Any, spatial_shapes: Any, locations: Any, weights: Any) -> Any:
    """MultiScaleDeformableAttention of Grounding DINO."""
    from transformers.models.grounding_dino.modeling_grounding_dino import MultiScaleDeformableAttention

    shapes = spatial_shapes.tolist()
    fitting(value, shapes, locations, weights)
    starts = spatial_shapes.prod(1).cumsum(0) - spatial_shapes.prod(1)
    return MultiScaleDeformableAttention()(value, spatial_shapes, shapes, starts, locations, weights, 64)


@adapter("deformable_attention", **DECLARED)
def transformers_deformable_attention_v2(value: Any, spatial_shapes: Any, locations: Any, weights: Any) -> Any:
    """multi_scale_deformable_attention_v2 of RT-DETR, whose levels may have different numbers of points."""
    from transformers.models.rt_detr_v2.modeling_rt_detr_v2 import multi_scale_deformable_attention_v2

    shapes = spatial_shapes.tolist()
    fitting(value, shapes, locations, weights)
    points = [weights.shape[4]] * weights.shape[3]
    return multi_scale_deformable_attention_v2(value, shapes, locations.flatten(3, 4), weights.flatten(3), points)


@adapter("deformable_attention_gradient", **{**DECLARED, "dtypes": ("float32", "float64"), "grade": None})
def transformers_deformable_gradient(value: Any, spatial_shapes: Any, locations: Any, weights: Any, d_out: Any) -> Any:
    """Autograd through MultiScaleDeformableAttention of Grounding DINO."""
    import torch

    arrays = [x.detach().clone().requires_grad_() for x in (value, locations, weights)]
    call = functools.partial(transformers_deformable_attention, spatial_shapes=spatial_shapes)
    with torch.enable_grad():
        out = call(arrays[0], locations=arrays[1], weights=arrays[2])
        found = torch.autograd.grad(out, arrays, d_out)
    return dict(zip(("d_value", "d_locations", "d_weights"), found, strict=True))
