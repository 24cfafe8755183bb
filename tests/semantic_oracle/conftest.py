"""What these tests share with those of the commands."""

from tests.cli.conftest import forked_workers

__all__ = ["forked_workers"]
