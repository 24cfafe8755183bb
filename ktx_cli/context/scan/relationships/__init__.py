"""Finds primary keys and joins that nobody declared: from values, names and view definitions, checked on the rows."""
