"""Measures that a scan proposes from names, types, keys and profiles, without a model."""
