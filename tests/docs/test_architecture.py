"""The page about the house names modules and faces that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import ktx_cli

PACKAGE = Path(ktx_cli.__file__).parent
TEXT = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
PATHS = sorted(set(re.findall(r"\b[a-z]\w*(?:/(?:\w+|<name>))*(?:\.py|/)(?![\w/])", TEXT)))
FACES = re.findall(r"^\| `(\w+)` \| (.*?) \|", TEXT, re.MULTILINE)
OUTSIDE = ("docs/", "concepts/", "testing/")


@pytest.mark.table("path", [path for path in PATHS if not path.startswith(OUTSIDE)])
def test_a_module_of_the_page_exists(path: str) -> None:
    assert any(found.exists() for found in PACKAGE.glob(path.replace("<name>", "*").removesuffix("/"))), path


@pytest.mark.table(("package", "names"), [row for row in FACES if "`" in row[1]])
def test_a_face_of_the_page_has_its_names(package: str, names: str) -> None:
    face = import_module(f"ktx_cli.{package}")
    assert [name for name in re.findall(r"`(\w+)`", names) if not hasattr(face, name)] == []


def test_every_package_is_on_the_page() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"testing"}
    assert packages <= {package for package, _ in FACES} | {"cli", "mcp"}


def test_each_way_fits_a_screen() -> None:
    ways = re.findall(r"^## How .*?\n(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL)
    assert len(ways) == 3
    for way in ways:
        assert way.count("\n") <= 40
