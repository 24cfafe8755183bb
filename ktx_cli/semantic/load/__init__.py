"""Loads the model from its files: what scans found, overlays, sources of their own."""
