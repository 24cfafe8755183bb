"""What the rows of a table look like: a bounded sample of each, counted column by column."""
