"""Adapters for FlashInfer."""
