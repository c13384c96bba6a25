"""Adapters for xFormers."""
