"""A small semantic layer over SQLite, shared with the tests of the jobs that answer from it."""

from tests.jobs.semantic.conftest import shop

__all__ = ["shop"]
