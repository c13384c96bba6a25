"""Adapters for AITER."""
