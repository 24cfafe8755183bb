"""Faces of packages: names that are imported from the module that defines them when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names are defined in its modules.

    `homes`: the names each module defines, one blank between two.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        module = home_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module}"), name)

    return find, lambda: sorted(home_of)
