"""Products of groups of rows in PyTorch.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grouped_mm.html
Rows and matrices are read by 16 bytes, so that they are passed contiguous and of whole such parts; strides of axes of
one count, too.
Gradients are products of the same function, as its backward pass has them: of transposed matrices, and of two arrays
of rows, whose sums are in groups.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

IGNORED = {"stray_nonfinite": "ignored"}
DTYPES = ("float32", "bfloat16", "float16")


def ends(x: Any, w: Any, lens: Any) -> Any:
    """Where groups end, of a call that is one."""
    if len(lens) != len(w) or int(lens.sum()) > len(x):
        raise ValueError("every matrix has a length, and groups no more rows than there are")
    return lens.cumsum(0).int()


def whole(x: Any) -> Any:
    """A contiguous copy, whose axes of one have the strides of longer ones."""
    return x.new_empty(x.shape).copy_(x)


@adapter("grouped_matmul", dtypes=DTYPES, requires="n % 8 == 0 and outs % 8 == 0", conventions=IGNORED, package="torch")
def torch_grouped_mm(x: Any, w: Any, lens: Any) -> Any:
    """grouped_mm of rows and matrices."""
    from torch.nn.functional import grouped_mm

    return grouped_mm(whole(x), whole(w), offs=ends(x, w, lens))


@adapter(
    "grouped_matmul_gradient",
    dtypes=DTYPES,
    requires="n % 8 == 0 and outs % 8 == 0",
    conventions=IGNORED,
    package="torch",
)
def torch_grouped_mm_gradient(x: Any, w: Any, lens: Any, d_out: Any) -> Any:
    """grouped_mm of rows and transposed matrices, and of two arrays of rows."""
    from torch.nn.functional import grouped_mm

    offs, own = ends(x, w, lens), whole(d_out)
    d_x = grouped_mm(own, whole(w.mT), offs=offs)
    return {"d_x": d_x, "d_w": grouped_mm(whole(x).T, own, offs=offs)}
