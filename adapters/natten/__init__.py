"""Adapters for NATTEN."""
