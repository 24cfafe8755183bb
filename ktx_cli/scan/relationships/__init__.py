"""Infer which columns refer to which keys, with a probability for each relationship."""
