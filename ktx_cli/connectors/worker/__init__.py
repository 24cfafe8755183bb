"""Runs statements of DuckDB and SQLite in a process of their own, under limits that the operating system enforces.

`session.py` is what connectors use. `process.py` starts, bounds and ends the process. `child.py` and `engines.py` run
in it and import nothing else of ktx than `wire.py` and `sizes.py`. `wire.py` is the form of what both sides send.
"""
