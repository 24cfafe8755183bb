"""Plan a query before any SQL is written: its facts, measures, time axis and ranges."""
