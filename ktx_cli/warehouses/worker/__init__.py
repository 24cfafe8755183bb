"""Processes with bounded memory that run the statements of engines without a server."""
