"""Adapters for Liger-Kernel."""
