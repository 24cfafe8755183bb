"""Checks of the context: lint, diff, eval."""
