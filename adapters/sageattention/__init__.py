"""Adapters for SageAttention."""
