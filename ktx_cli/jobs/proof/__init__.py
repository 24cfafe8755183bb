"""Proof of the value of the context: the made-up company, the arms that are compared, and the statistics."""
