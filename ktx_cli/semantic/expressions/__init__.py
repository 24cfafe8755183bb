"""Parse SQL expressions in the semantic layer: names, aggregates and date parts."""
