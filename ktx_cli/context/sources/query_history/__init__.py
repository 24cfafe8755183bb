"""The query history of a database as a context source: what people ask it, without what they ask for."""
