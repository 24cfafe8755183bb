"""The settings of a connection to sqlite."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, setting


class SqliteConnection(Database):
    """A SQLite file."""

    needs_one_of = ("path", "url")

    driver: Literal["sqlite"] = setting(REQUIRED, "SQLite.")
    path: str | None = setting(None, "File, relative to the project; `~` works.", path=True, example="data/shop.sqlite")
    url: str | None = setting(
        None, "The same as `sqlite:///PATH` or a `file:` URI.", path=True, example="sqlite:///data/shop.sqlite"
    )
