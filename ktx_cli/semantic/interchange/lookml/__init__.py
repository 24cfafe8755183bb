"""Import LookML views, explores and measures."""
