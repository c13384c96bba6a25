"""Adapters for NumPy."""
