"""Installs ktx into agent clients, and uninstalls it."""
