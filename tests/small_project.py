"""A small project for the jobs' tests, without the command line."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

CONFIG = """\
connections:
  shop:
    driver: sqlite
    path: shop.sqlite
"""


@pytest.fixture
def shop_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one SQLite database of two tables; no repository, no variable of the developer's."""
    return make_shop_project(tmp_path, monkeypatch)


def make_shop_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the project of `shop_project` in a folder."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "KTX_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "ktx.yaml").write_text(CONFIG)
    change(project, "CREATE TABLE customers (id INTEGER PRIMARY KEY)", "CREATE TABLE orders (id INTEGER)")
    return project


def change(project: Path, *statements: str) -> None:
    """Run statements on the project's database."""
    database = sqlite3.connect(project / "shop.sqlite")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


@pytest.fixture(name="change")
def change_fixture() -> object:
    return change
