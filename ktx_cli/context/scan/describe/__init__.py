"""Describes tables and columns: by rules from the structure alone, or by the model."""
