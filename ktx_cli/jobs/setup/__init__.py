"""`ktx setup`: from an empty folder to a project that `ktx ingest` can process."""
