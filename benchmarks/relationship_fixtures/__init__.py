"""Generated databases with known keys and links: to train the ranker of relationship discovery, and to measure it."""
