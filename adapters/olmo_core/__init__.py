"""Adapters for OLMo-core."""
