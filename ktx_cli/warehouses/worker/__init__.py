"""Processes with bounded memory that run the statements of embedded engines."""
