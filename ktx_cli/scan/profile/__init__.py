"""Profile columns from samples: kinds, distinct values, value lists."""
