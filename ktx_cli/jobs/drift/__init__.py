"""How databases are not as they were scanned, and what of the context that breaks; see `find_drift`."""
