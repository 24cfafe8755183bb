"""There is one way to open a connection of ktx.yaml."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import ktx_cli

PACKAGE = Path(ktx_cli.__file__).parent


def importers_of(name: str, module: str) -> set[str]:
    """Return the modules of the product that import a name of a module."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        nodes = ast.walk(ast.parse(text)) if re.search(rf"from {re.escape(module)} import\b", text) else ()
        imports = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == module)
        if any(alias.name == name for node in imports for alias in node.names):
            found.add(path.relative_to(PACKAGE).as_posix())
    return {path for path in found if not path.startswith("testing/")}


@pytest.mark.house
def test_one_module_alone_opens_connections() -> None:
    assert importers_of("connect", "ktx_cli.warehouses.registry") == {"warehouses/__init__.py"}
    assert importers_of("connect", "ktx_cli.warehouses") == set()
