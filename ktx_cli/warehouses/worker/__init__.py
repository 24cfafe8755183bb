"""Processes with bounded memory that run statements for embedded engines."""
