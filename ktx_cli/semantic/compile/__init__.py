"""Compiles a plan to one statement, a sqlglot tree for each part."""
