"""Lint rules for the context."""
