"""The settings of a connection to quackbase."""

from typing import Literal

from ktx_cli.project import REQUIRED, Database, setting


class QuackbaseConnection(Database):
    """A quackbase file."""

    driver: Literal["quackbase"] = setting(REQUIRED, "quackbase.")
    path: str = setting(REQUIRED, "File, relative to the project; `~` works.", path=True, example="data/shop.pond")
    pond: str | None = setting(None, "Schema to read. Without it: all.", example="main")
