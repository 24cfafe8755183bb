"""The ingest pipeline: scan databases, then one commit or none."""
