"""Correct variants: right implementations written in unusual ways, which the audit wants accepted."""
