"""The settings of a connection to quackbase."""

from typing import Literal

from ktx_cli.project import REQUIRED, Database, setting


class QuackbaseConnection(Database):
    """A quackbase file."""

    driver: Literal["quackbase"] = setting(REQUIRED, "quackbase.")
    path: str = setting(
        REQUIRED,
        "Path of the database file, relative to the project folder; `~` is expanded.",
        path=True,
        example="data/shop.pond",
    )
    pond: str | None = setting(None, "Schema to read. Defaults to all.", example="main")
