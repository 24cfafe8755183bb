"""Decisions about conventions that the data cannot settle: their effects, and the answers of people."""
