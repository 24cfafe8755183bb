"""The search index: one SQLite FTS5 file that only runs write, and searches that only read."""
