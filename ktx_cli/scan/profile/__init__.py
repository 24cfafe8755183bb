"""Samples of columns, counted: kinds, distinct values, lists of values."""
