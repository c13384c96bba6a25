"""Adapters for PyTorch."""
