"""The Open Semantic Interchange format, both ways."""
