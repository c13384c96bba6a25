"""Right, but different: multi-scale deformable attention and its gradients, in ways none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def fitting(value: Any, shapes: list[list[int]], locations: Any, weights: Any) -> None:
    """Refuse maps and points that do not belong to each other."""
    if sum(h * w for h, w in shapes) != value.shape[1] or locations.shape != (*weights.shape, 2):
        raise ValueError("as many pixels as the shapes have, and a weight for each point")
    if len(shapes) != weights.shape[3]:
        raise ValueError("every level has a shape and weights")


@adapter("deformable_attention", dtypes=DTYPES)
def control_deformable_by_corners(value: Any, spatial_shapes: Any, locations: Any, weights: Any) -> Any:
    """The four pixels around each point, gathered from maps with an edge of zeros, in single precision."""
    import torch

    shapes = spatial_shapes.tolist()
    fitting(value, shapes, locations, weights)
    out, start = torch.zeros(()), 0
    for level, (height, width) in enumerate(shapes):
        own = value[:, start : start + height * width].float().unflatten(1, (height, width))
        padded = torch.nn.functional.pad(own, (0, 0, 0, 0, 1, 1, 1, 1)).flatten(1, 2).transpose(1, 2)
        size = torch.tensor([width, height])
        at = locations[:, :, :, level].float() * size - 0.5  # [batch, queries, heads, points, 2]
        corner = at.floor()
        part, seen = at - corner, weights[:, :, :, level].float()
        for right in (0, 1):
            for below in (0, 1):
                x, y = (corner + torch.tensor([right, below])).unbind(-1)
                share = (part[..., 0] if right else 1 - part[..., 0]) * (part[..., 1] if below else 1 - part[..., 1])
                inside = (x >= -1) & (x <= width) & (y >= -1) & (y <= height)
                index = (y.clamp(-1, height) + 1) * (width + 2) + x.clamp(-1, width) + 1
                flat = index.long().transpose(1, 2).flatten(2)[..., None].expand(-1, -1, -1, value.shape[3])
                found = padded.gather(2, flat).unflatten(2, index.shape[1::2]).transpose(1, 2)
                out = out + (found * (inside * share * seen)[..., None]).sum(3)
        start += height * width
    return out.flatten(2).to(value.dtype)


def shares(spatial_shapes: Any, locations: Any) -> tuple[Any, ...]:
    """The shares of pixels in points, and what these gain across and down: [..., levels, points, pixels]."""
    import torch

    found = []
    for level, (height, width) in enumerate(spatial_shapes.tolist()):
        x, y = locations[:, :, :, level].double().unbind(-1)
        off = (x * width - 0.5)[..., None] - torch.arange(width), (y * height - 0.5)[..., None] - torch.arange(height)
        (near_x, near_y), (slope_x, slope_y) = zip(
            *((torch.relu(1 - d.abs()), ((d >= -1) & (d < 0)).double() - ((d >= 0) & (d < 1)).double()) for d in off),
            strict=True,
        )
        parts = (near_y, near_x), (near_y, slope_x * width), (slope_y * height, near_x)
        found.append([(v[..., :, None] * h[..., None, :]).flatten(-2) for v, h in parts])
    sizes = [one[0].shape[-1] for one in found]
    return tuple(
        torch.stack(
            [
                torch.nn.functional.pad(one[kind], (sum(sizes[:level]), sum(sizes[level + 1 :])))
                for level, one in enumerate(found)
            ],
            3,
        )
        for kind in range(3)
    )


@adapter("deformable_attention", dtypes=(*DTYPES, "float64"))
def control_deformable_by_products(value: Any, spatial_shapes: Any, locations: Any, weights: Any) -> Any:
    """Shares of all pixels, and one product with all maps, in double precision."""
    import torch

    fitting(value, spatial_shapes.tolist(), locations, weights)
    share, _, _ = shares(spatial_shapes, locations)
    kept = torch.einsum("bqhlps,bqhlp->bqhs", share, weights.double())
    return torch.einsum("bqhs,bshd->bqhd", kept, value.double()).flatten(2).to(value.dtype)


@adapter("deformable_attention_gradient", dtypes=(*DTYPES, "float64"))
def control_deformable_gradient_by_products(
    value: Any, spatial_shapes: Any, locations: Any, weights: Any, d_out: Any
) -> Any:
    """Shares of all pixels, and products of them, in double precision."""
    import torch

    fitting(value, spatial_shapes.tolist(), locations, weights)
    share, across, down = shares(spatial_shapes, locations)
    given = d_out.double().unflatten(2, (value.shape[2], value.shape[3]))
    seen = torch.einsum("bqhd,bshd->bqhs", given, value.double())
    read = torch.einsum("bqhlps,bqhlp->bqhs", share, weights.double())
    by = [torch.einsum("bqhlps,bqhs->bqhlp", x, seen) for x in (across, down)]
    return {
        "d_value": torch.einsum("bqhs,bqhd->bshd", read, given).to(value.dtype),
        "d_locations": (torch.stack(by, -1) * weights.double()[..., None]).to(locations.dtype),
        "d_weights": torch.einsum("bqhlps,bqhs->bqhlp", share, seen).to(weights.dtype),
    }


@adapter("deformable_attention_gradient", dtypes=("float32", "bfloat16"))
def control_deformable_gradient_by_corners(
    value: Any, spatial_shapes: Any, locations: Any, weights: Any, d_out: Any
) -> Any:
    """Autograd through the pixels around each point, in single precision."""
    import torch

    fitting(value, spatial_shapes.tolist(), locations, weights)
    arrays = [x.float().clone().requires_grad_() for x in (value, locations, weights)]
    with torch.enable_grad():
        out = control_deformable_by_corners(arrays[0], spatial_shapes, *arrays[1:])
        found = torch.autograd.grad(out, arrays, d_out.float(), allow_unused=True)
    names = ("d_value", "d_locations", "d_weights")
    return {name: x.to(own.dtype) for name, x, own in zip(names, found, (value, locations, weights), strict=True)}
