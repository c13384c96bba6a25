"""Adapters for MONAI."""
