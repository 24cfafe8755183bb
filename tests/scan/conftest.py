"""What these tests share with those of the jobs."""

from tests.small_project import change_fixture, shop_project

__all__ = ["change_fixture", "shop_project"]
