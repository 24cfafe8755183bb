"""Which server speaks MySQL's dialect: what MySQL has built in, MariaDB may leave to a function of the database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

Version = tuple[int, ...]

_NUMBER: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_MARIADB: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)-MariaDB", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Server:
    """The lists besides the dialect's own that hold on a server, and its version.

    A name on a list with a version (`json_table@8.0.4`) holds from that version on.
    """

    lists: tuple[str, ...]
    version: Version


EITHER: Final = Server(("mysql_own", "mariadb_own"), (99,))
"""A server that is not asked yet: for a first look, before a connection is opened."""


def server_of(version: str) -> Server:
    """Return the server that gives `version` for its `SELECT VERSION()`."""
    mariadb = _MARIADB.search(version)
    found = mariadb or _NUMBER.search(version)
    number = tuple(int(part or 0) for part in found.groups()) if found else ()
    return Server(("mariadb_own" if "mariadb" in version.lower() else "mysql_own",), number)


def holds(word: str, version: Version) -> str:
    """Return the name of a word of a list, in lower case, empty where the server is older than it."""
    name, _, since = word.lower().partition("@")
    return name if version >= tuple(int(part) for part in since.split(".") if part) else ""
