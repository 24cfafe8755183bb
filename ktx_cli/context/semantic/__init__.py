"""The semantic layer: sources in YAML, questions in JSON, one SQL statement each, and a receipt for the answer."""
