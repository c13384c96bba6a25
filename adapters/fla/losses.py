"""The cross-entropy of flash-linear-attention, with the logsumexp that its backward pass keeps.

Source: https://github.com/fla-org/flash-linear-attention (fla/modules/fused_cross_entropy/ops.py)
The kernel looks at no target before it reads its logit, so that arrays that do not fit are refused here.
"""

# Decorators of the package hide the parameters of its functions.
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

from ..triton.interpreter import declared
from .kernels import DECLARED


@declared("cross_entropy", dtypes=DECLARED["dtypes"], fixed={"reduction": "each"}, package="fla.modules")
def fla_cross_entropy_fwd(
    logits: Any,
    targets: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
) -> Any:
    """cross_entropy_fwd, with a loss for each token, in float32."""
    from fla.modules.fused_cross_entropy.ops import cross_entropy_fwd

    if len(targets) != len(logits):
        raise ValueError("every token has a target")
    loss, _, lse, *_ = cross_entropy_fwd(
        logits,
        targets,
        label_smoothing=label_smoothing,
        lse_square_scale=z_loss,
        logit_softcapping=softcap,
        ignore_index=ignore_index,
    )
    return {"loss": loss, "lse": lse}
