"""Rules that the context is held to."""
