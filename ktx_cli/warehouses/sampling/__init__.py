"""Bounded samples of tables."""
