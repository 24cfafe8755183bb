"""Folders of CSV, Parquet and JSON files."""
