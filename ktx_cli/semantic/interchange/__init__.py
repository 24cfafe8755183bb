"""Reads definitions from other programs (dbt, LookML, OSI) into the semantic layer, and writes OSI."""
