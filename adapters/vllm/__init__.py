"""Adapters for vLLM."""
