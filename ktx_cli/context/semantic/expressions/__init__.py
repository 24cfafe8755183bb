"""Pieces of SQL in definitions and questions: parsed, their names found, their aggregates told apart."""
