"""LookML: views, explores and models."""
