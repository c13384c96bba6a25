"""Adapters for torchao."""
