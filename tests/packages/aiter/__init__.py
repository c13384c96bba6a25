"""What aiter exports."""

from .ops.mha import flash_attn_func, flash_attn_varlen_func, mha_batch_prefill_func

__all__ = ["flash_attn_func", "flash_attn_varlen_func", "mha_batch_prefill_func"]
