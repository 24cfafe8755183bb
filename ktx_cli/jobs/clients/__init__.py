"""Installs ktx into agent clients, and takes it out again."""
