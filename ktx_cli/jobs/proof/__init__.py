"""Proof that context makes answers right: the made-up company, the arms that are compared, and the statistics."""
