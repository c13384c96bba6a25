"""Adapters for timm."""
