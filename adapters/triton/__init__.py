"""Kernels in Triton on a machine without a device for them."""
