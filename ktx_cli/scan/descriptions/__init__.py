"""Descriptions of tables and columns, by rules and then by a model if one is configured."""
