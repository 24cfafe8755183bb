"""Decides what a question means before any SQL is written: facts, measures, the time axis, ranges."""
