"""Adapters for torchscale."""
