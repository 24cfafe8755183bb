"""Captures what an agent session learned and adds it to the context."""
