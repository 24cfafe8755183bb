"""What a shared database is like, for `ktx doctor`: the version of its tables, the user's rights and its clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.project.migrations import MIGRATIONS
from ktx_cli.project.shared_state import META, SharedDatabase, foreign_tables_query

if TYPE_CHECKING:
    import psycopg

READING: Final = ("SELECT",)
WRITING: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class SharedFacts:
    """A schema as its user sees it."""

    server: str
    """The version of the server."""
    user: str
    milliseconds: float
    """How long the server took to answer."""
    ahead: float
    """The number of seconds by which the clock of the server is ahead of that of this host."""
    is_standby: bool
    may_create_schemas: bool
    has_schema: bool
    may_create_tables: bool
    """Whether the user may create tables in the schema."""
    version: int
    """The number of migrations; 0 without tables."""
    created_by: str | None
    """The version of ktx that created or updated the tables last, if it is known."""
    missing: tuple[str, ...]
    """The rights on tables that the user lacks."""
    owners: tuple[str, ...]
    """The roles that own tables and that the user does not belong to, so that it may not change these tables."""
    foreign: tuple[str, ...]
    """The tables that ktx has not created, and that have the names of its own."""

    @property
    def is_current(self) -> bool:
        """Whether the tables are of the version that this ktx uses."""
        return self.version == len(MIGRATIONS)

    @property
    def is_newer(self) -> bool:
        """Whether a newer ktx has created the tables."""
        return self.version > len(MIGRATIONS)

    @property
    def may_read(self) -> bool:
        """Whether the user may read all tables."""
        return not set(self.missing) & set(READING)


_SESSION: Final = """
    SELECT current_setting('server_version'), current_user::text, extract(epoch FROM clock_timestamp())::float8,
           pg_is_in_recovery(), has_database_privilege(current_database(), 'CREATE')
"""
_SCHEMA: Final = """
    SELECT has_schema_privilege(oid, 'USAGE'), has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = %s
"""
_RIGHTS: Final = """
    SELECT DISTINCT wanted FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    CROSS JOIN unnest(%s::text[]) AS wanted
    WHERE n.nspname = %s AND c.relkind = 'r' AND NOT has_table_privilege(c.oid, wanted)
"""
_OWNERS: Final = """
    SELECT DISTINCT pg_get_userbyid(c.relowner)::text
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1
"""


def shared_facts(database: SharedDatabase, session: psycopg.Connection[Any]) -> SharedFacts:
    """Return the facts about a schema, read in a session on it; raises the errors of psycopg. Changes nothing."""
    began = time.time()
    server, user, clock, is_standby, may_create_schemas = _row(session, _SESSION)
    ended = time.time()
    schema = _row(session, _SCHEMA, database.schema)
    may_use, may_create_tables = (False, False) if schema is None else schema
    missing: list[str] = []
    version, created_by = 0, None
    if schema is not None and not may_use:
        missing = ["USAGE", *WRITING]
    elif schema is not None:
        lacked = {right for (right,) in session.execute(_RIGHTS.encode(), (list(WRITING), database.schema))}
        missing = sorted(lacked, key=WRITING.index)
        version, created_by = (0, None) if not set(missing).isdisjoint(READING) else _version(session, database)
    return SharedFacts(
        server.split()[0],
        user,
        (ended - began) * 1000,
        clock - (began + ended) / 2,
        is_standby,
        may_create_schemas,
        schema is not None,
        may_create_tables,
        version,
        created_by,
        tuple(missing),
        tuple(owner for (owner,) in session.execute(_OWNERS.encode(), (database.schema,))),
        tuple(name for (name,) in session.execute(foreign_tables_query("%s").encode(), (database.schema,))),
    )


def _row(session: psycopg.Connection[Any], query: str, *values: Any) -> Any:
    return session.execute(query.encode(), values or None).fetchone()


def _version(session: psycopg.Connection[Any], database: SharedDatabase) -> tuple[int, str | None]:
    name = f'"{database.schema}".{META}'
    if _row(session, "SELECT to_regclass(%s)", name)[0] is None:
        return 0, None
    comment = _row(session, "SELECT obj_description(to_regclass(%s)::oid, 'pg_class')", name)[0]
    return int(_row(session, f"SELECT version FROM {META}")[0]), comment
