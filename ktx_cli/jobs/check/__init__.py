"""Checks for the context: lint, diff, eval."""
