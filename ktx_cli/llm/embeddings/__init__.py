"""Vectors of texts for search by meaning: one port, a backend a module; nothing is ever downloaded."""
