"""What these tests share with those of the jobs."""

from tests.small_project import shop_project

__all__ = ["shop_project"]
