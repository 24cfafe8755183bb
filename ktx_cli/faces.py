"""Lazy package faces: a name is imported from the module that defines it when it is first used.

Without them, `from ktx_cli.engine import AgentTask` would import the whole package, and every command would start as
slowly as the slowest one. The names are those that an `__init__` imports below `if TYPE_CHECKING:`, so that they are
written once, for type checkers and for Python. `exp` is sqlglot's module of that name, imported with its first use:
that takes longer than most commands.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp as exp


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package; its names are the imports that its `__init__` shows to type
    checkers.
    """
    home_of = dict(_named_imports(package))
    imported: set[str] = set()

    def find(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == package:
            return import_module(f"{package}.{name}")
        if home not in imported:
            import_module(home)  # which waits where another thread is at it
            imported.add(home)
        return getattr(sys.modules[home], name)

    return find, lambda: sorted(home_of)


def _named_imports(package: str) -> Iterator[tuple[str, str]]:
    """Yield the names below `if TYPE_CHECKING:`, each with the module it comes from."""
    loader: Any = sys.modules[package].__loader__
    for statement in ast.parse(loader.get_source(package)).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for node in statement.body:
                assert isinstance(node, ast.ImportFrom) and node.module
                yield from ((alias.name, node.module) for alias in node.names)


class _Expressions:
    """Looks up a name of `sqlglot.exp` once."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module("sqlglot").exp, name)
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    exp = _Expressions()
