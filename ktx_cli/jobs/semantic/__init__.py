"""Jobs for the semantic layer: list, search, query, validate, test, accept, import and export definitions."""
