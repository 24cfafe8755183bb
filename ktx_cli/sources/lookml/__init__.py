"""LookML projects."""
