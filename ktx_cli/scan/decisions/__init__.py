"""Decision points of a database: detect them without a model, and record them in the scan's commit."""
