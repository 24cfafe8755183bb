"""What connections to tables of files in a lake share: DuckDB reads exactly the live files of each table's snapshot."""
