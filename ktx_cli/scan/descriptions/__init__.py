"""Descriptions of tables and columns: rules, then a model where there is one."""
