"""Reads Amazon Redshift through psycopg, as Postgres is read, with Redshift's own settings and catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ktx_cli.connectors.port import ConnectionTest, DatabaseSchema, Scope
from ktx_cli.connectors.postgres import PostgresConnector
from ktx_cli.connectors.redshift_catalog import RedshiftCatalog, list_relations
from ktx_cli.connectors.reflect import PartReader, Reader
from ktx_cli.connectors.scope import select
from ktx_cli.core.text import listing

SESSION = ("SET statement_timeout TO {milliseconds}", "SET search_path TO pg_catalog")
"""What a session begins with. Redshift has no limit on the wait for a lock apart from the statement's."""

WHO = """
SELECT current_user::varchar, u.usesuper, pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       pg_catalog.version(), pg_catalog.current_database()::varchar
FROM pg_catalog.pg_user AS u WHERE u.usename = current_user
"""


class RedshiftConnector(PostgresConnector):
    """Read-only sessions on a Redshift database; statements name the schema of every table."""

    dialect = "redshift"
    default_port = 5439

    def _parameters(self) -> dict[str, Any]:
        given = super()._parameters()
        # Redshift refuses a log-in with settings that only Postgres has.
        options = self.address.parameters.get("options")
        kept = {name: value for name, value in given.items() if name != "options"}
        return {"sslmode": "require", **kept, **({"options": options} if options else {})}

    def _looked_at(self, session: Any) -> Any:
        """Give a new session its limits."""
        try:
            with session.cursor() as cursor:
                for statement in SESSION:
                    cursor.execute(statement.format(milliseconds=int(self.statement_seconds * 1000)))
        except BaseException:
            session.close()
            raise
        return session

    @contextmanager
    def _transaction(self, session: Any) -> Iterator[Any]:
        """Yield a cursor in a transaction that only reads and is rolled back."""
        with session.cursor() as cursor:
            cursor.execute("BEGIN READ ONLY")
            try:
                yield cursor
            finally:
                if not session.broken:
                    cursor.execute("ROLLBACK")

    def _test(self, read: Reader, scope: Scope, latency: float) -> ConnectionTest:
        ((user, superuser, creates, version, database),) = read(WHO)
        relations = list_relations(read, PartReader(read, self._driver_error()))
        chosen = [relations[ref] for ref in select(relations, scope, catalog=database).refs]
        closed = [relation.draft.ref for relation in chosen if relation.readable is False]
        facts = [f"SELECT on {len(chosen) - len(closed)} of {len(chosen)} tables"]
        facts += [f"no SELECT on {listing(map(str, closed))}"] if closed else []
        facts += ["superuser"] if superuser else []
        return ConnectionTest(
            latency_ms=latency,
            server_version=_server_version(version),
            tables=len(chosen),
            can_write=bool(superuser or creates or any(relation.writable for relation in chosen)),
            user=user,
            privileges=tuple(facts),
            closed=tuple(closed),
            database=database,
        )

    def _introspect(self, read: Reader, scope: Scope) -> DatabaseSchema:
        ((_, _, _, version, database),) = read(WHO)
        parts = PartReader(read, self._driver_error())
        tables, problems = RedshiftCatalog(read, parts).read(scope, catalog=database)
        return DatabaseSchema(tables, (*problems, *parts.problems), _server_version(version))


def _server_version(text: str) -> str:
    """Return what of `PostgreSQL 8.0.2 on ..., Redshift 1.0.12345` is Redshift's own; else the text's first part."""
    _, found, number = text.partition("Redshift ")
    return f"Redshift {number.split()[0]}" if found and number.strip() else text.partition(" on ")[0]
