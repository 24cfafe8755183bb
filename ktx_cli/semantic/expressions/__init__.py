"""Parse SQL expressions of the semantic layer: names, aggregates and date parts."""
