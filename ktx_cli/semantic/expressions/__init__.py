"""SQL expressions as the semantic layer reads them: names, aggregates, parts of dates."""
