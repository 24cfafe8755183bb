"""Floor 2: read-only access to databases and folders of data files, one module a dialect."""
