"""Captures what an agent session learned into the context."""
