"""Semantic layers as they were read, kept in a file each, from which sources are read one by one."""
