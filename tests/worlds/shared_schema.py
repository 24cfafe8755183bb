"""A schema of its own on a Postgres server, in which the hosts of a project share what they share."""

from __future__ import annotations

import itertools
import os
from typing import Any

import psycopg

from ktx_cli.project.shared_state import close_readers
from ktx_cli.search import close_search_readers
from ktx_cli.testing.servers import PostgresServer

_NUMBERS = itertools.count()


class SharedSchema:
    """The schema of a project, and that of its queue."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.name = f"ktx_test_{os.getpid()}_{next(_NUMBERS)}"
        self.queue = f"{self.name}_queue"

    def storage(self, *, state: str = "postgres", search: str = "sqlite-fts5") -> str:
        """Return the settings for it; the URL is in `KTX_STATE_URL`."""
        place = f"postgres: {{url: env:KTX_STATE_URL, schema: {self.name}}}"
        return f"storage:\n  state: {state}\n  search: {search}\n  {place}\n"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query in the schemas; `QUEUE` stands for that of the queue."""
        with psycopg.connect(self.server.url(), autocommit=True) as session:
            session.execute(f'SET search_path = "{self.name}", "{self.queue}"'.encode())
            found = session.execute(query.replace("QUEUE", f'"{self.queue}"').encode())
            return found.fetchall() if found.description else []

    def drop(self) -> None:
        """Drop both schemas, and close this process's connections."""
        close_readers()
        close_search_readers()
        self.server.execute(*(f'DROP SCHEMA IF EXISTS "{name}" CASCADE' for name in (self.name, self.queue)))
