"""Neighborhood attention of NATTEN, by the masks that it makes for flex_attention, which need no device of their own.

Documentation: https://natten.org/operations
Not compiled, these take head sizes that are powers of two from 8 on; a window has two pixels or more along each axis.
A causal window of a whole row is handed to another function of NATTEN, which needs a device.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DECLARED: dict[str, Any] = {
    "dtypes": ("float32",),
    "package": "natten",
    "extra": "natten",
    "limits": {"head_dim": (8, 16, 32, 64, 128, 256)},
}


@adapter(
    "neighborhood_attention",
    requires=("value_dim == head_dim", "kernel_height >= 2 and kernel_width >= 2"),
    **DECLARED,
)
def natten_na2d(
    q: Any,
    k: Any,
    v: Any,
    *,
    kernel_height: int,
    kernel_width: int,
    dilation_height: int = 1,
    dilation_width: int = 1,
    stride_height: int = 1,
    stride_width: int = 1,
    causal_height: bool = False,
    causal_width: bool = False,
    scale: float | None = None,
) -> Any:
    """na2d of two axes."""
    from natten.functional import na2d

    return na2d(
        q,
        k,
        v,
        kernel_size=(kernel_height, kernel_width),
        dilation=(dilation_height, dilation_width),
        stride=(stride_height, stride_width),
        is_causal=(causal_height, causal_width),
        scale=scale,
        backend="flex-fna",
        return_lse=True,
    )


@adapter(
    "neighborhood_attention",
    layout="bxhd",
    fixed={"kernel_height": 1, "dilation_height": 1, "stride_height": 1, "causal_height": False},
    requires=(
        "value_dim == head_dim",
        "kernel_width >= 2",
        "not causal_width or kernel_width * dilation_width < width",
    ),
    **DECLARED,
)
def natten_na1d(
    q: Any,
    k: Any,
    v: Any,
    *,
    kernel_width: int,
    dilation_width: int = 1,
    stride_width: int = 1,
    causal_width: bool = False,
    scale: float | None = None,
) -> Any:
    """na1d of one axis."""
    from natten.functional import na1d

    return na1d(
        q,
        k,
        v,
        kernel_size=(kernel_width,),
        dilation=(dilation_width,),
        stride=(stride_width,),
        is_causal=(causal_width,),
        scale=scale,
        backend="flex-fna",
        return_lse=True,
    )
