"""Finding things by words: documents in, hits out, all in memory."""
