"""Sources of documents in a run: sorted by what they are worth, and what is light brought into the wiki in batches."""
