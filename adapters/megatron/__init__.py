"""Adapters for Megatron Core."""
