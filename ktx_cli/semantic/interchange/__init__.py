"""Reads definitions from other programs (dbt, LookML, Power BI, OSI) into the semantic layer, and writes OSI."""
