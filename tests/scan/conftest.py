"""What these tests share with those of the jobs."""

from tests.cli.conftest import forked_workers
from tests.small_project import change_fixture, shop_project

__all__ = ["change_fixture", "forked_workers", "shop_project"]
