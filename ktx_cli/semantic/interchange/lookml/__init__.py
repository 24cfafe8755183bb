"""Import of LookML views, explores and measures."""
