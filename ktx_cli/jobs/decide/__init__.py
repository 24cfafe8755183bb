"""Decisions about conventions that the data cannot settle: their effects, and people's answers."""
