"""What the tests of the jobs share."""

from tests.small_project import change_fixture, shop_project

__all__ = ["change_fixture", "shop_project"]
