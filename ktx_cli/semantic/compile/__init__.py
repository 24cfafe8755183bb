"""Compiles a plan into one statement, with a sqlglot tree for each part."""
