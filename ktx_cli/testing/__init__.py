"""Helpers for testing ktx and what is built on it; no product code imports them."""
