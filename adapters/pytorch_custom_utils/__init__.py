"""Adapters for pytorch-custom-utils."""
