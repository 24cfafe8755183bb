"""Context sources in a run: fetched, compared, projected, and what is remembered of them."""
