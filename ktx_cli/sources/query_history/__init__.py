"""The history of queries of a warehouse, as templates without values."""
