"""What the tests of the jobs share."""

from tests.small_project import shop_project

__all__ = ["shop_project"]
