"""Decisions of people about relationships."""
