"""Captures: texts people and agents want remembered become context, by an ingest run over one text."""
