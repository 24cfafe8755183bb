"""The ingest pipeline: scans databases, reads sources, and makes at most one commit."""
