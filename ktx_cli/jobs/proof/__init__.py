"""Proof of what the context is worth: the made-up company, the arms that are compared, and the statistics."""
