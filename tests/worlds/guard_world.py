"""A small shop in each engine that runs here, its SELECT-only role, and everything a statement could change in it."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any

from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect

_NUMBERS = itertools.count(1)

SHOP = (
    "CREATE TABLE customers (id int PRIMARY KEY, name varchar(40), country varchar(2), created_on date)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int, placed_on date, amount decimal(10, 2), "
    "status varchar(10), note varchar(40))",
    "CREATE TABLE categories (id int PRIMARY KEY, parent_id int, name varchar(40))",
    "INSERT INTO customers VALUES (1, 'Ada', 'NO', '2024-01-01'), (2, 'Grace', 'SE', '2024-01-02'), "
    "(3, 'Barbara', NULL, '2024-01-03')",
    "INSERT INTO orders VALUES (1, 1, '2024-01-02', 10.5, 'paid', NULL), (2, 1, '2024-01-03', 20, 'open', 'gift'), "
    "(3, 2, '2024-01-05', 200.25, 'paid', ''), (4, 3, '2024-01-05', 5, 'void', NULL)",
    "INSERT INTO categories VALUES (1, NULL, 'all'), (2, 1, 'books'), (3, 2, 'novels')",
)
"""Statements that make the shop, in words all four engines take."""


class World(ABC):
    """One engine's shop; a context manager.

    `folder` is where statements may try to write: every `/tmp/` in them stands for it.
    """

    dialect: str

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ktx-guard-"))
        self.folder.chmod(0o777)
        self._make()

    def __enter__(self) -> World:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self) -> Connector:
        """Return a connection as ktx opens it, with a role that may only SELECT."""
        return connect(ConnectionSpec("shop", self._driver, self._options()))

    def here(self, sql: str) -> str:
        """Return a statement whose paths lead into the world's folder."""
        return sql.replace("/tmp/", f"{self.folder}/")

    def state(self) -> dict[str, Any]:
        """Return all that a statement could have changed."""
        files = {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }
        return {"files": files, **self._database()}

    @property
    def _driver(self) -> str:
        return self.dialect

    @abstractmethod
    def _make(self) -> None:
        """Make the database."""

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """Return the options of a connection."""

    def _database(self) -> dict[str, Any]:
        return {}


class SqliteWorld(World):
    """A SQLite file; whatever changes in it changes the file."""

    dialect = "sqlite"

    def _make(self) -> None:
        with sqlite3.connect(self.folder / "shop.sqlite") as database:
            database.executescript(";".join(SHOP))
        database.close()

    def _options(self) -> dict[str, Any]:
        return {"path": str(self.folder / "shop.sqlite")}


class DuckDbWorld(World):
    """A DuckDB file; whatever changes in it changes the file."""

    dialect = "duckdb"

    def _make(self) -> None:
        import duckdb

        with duckdb.connect(str(self.folder / "shop.duckdb")) as database:
            database.execute(";".join((*SHOP, "CREATE SEQUENCE order_numbers", "CREATE VIEW v AS SELECT 1 AS a")))

    def _options(self) -> dict[str, Any]:
        return {"path": str(self.folder / "shop.duckdb")}


BYSTANDER = "424242"
"""What stands in a statement for the process of another session of the same role."""


class PostgresWorld(World):
    """A Postgres database with a sequence, somebody's function and operator, a large object and another session."""

    dialect = "postgres"

    def __init__(self, server: PostgresServer, *, superuser: bool = False) -> None:
        self.server = server
        self.superuser = superuser
        self.name = f"guard{os.getpid()}_{next(_NUMBERS)}"
        super().__init__()

    def _make(self) -> None:
        self.server.create_database(
            self.name,
            *SHOP,
            "CREATE SEQUENCE order_numbers",
            "CREATE FUNCTION do_it(int) RETURNS int LANGUAGE sql AS 'DELETE FROM public.orders; SELECT 1'",
            'CREATE TABLE visits (id int PRIMARY KEY, "user" text, name text, date date, value int, text text, '
            "type text, key text, version int, length int, count int, query text, time_out time, date_in date, "
            "system text, tags text[], payload jsonb)",
            "INSERT INTO visits VALUES (1, 'u', 'n', '2024-01-01', 5, 't', 'k', 'key', 1, 2, 3, 'q', '10:00', "
            "'2024-01-02', 's', ARRAY['x', 'y'], '{\"a\": 1}')",
            "CREATE FUNCTION visitor(visits) RETURNS text LANGUAGE sql AS 'SELECT $1.name'",
            "CREATE OPERATOR + (LEFTARG = text, RIGHTARG = int, FUNCTION = pg_catalog.repeat)",
            "SELECT pg_catalog.lo_from_bytea(1, 'large')",
            f"CREATE ROLE {self.name} LOGIN PASSWORD 'x'",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {self.name}",
            f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {self.name}",
        )

        self._bystander = self._begin()
        self._ended = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bystander.close()
        super().__exit__(kind, error, trace)

    def here(self, sql: str) -> str:
        """Return a statement whose paths lead into the world's folder, and whose process is the other session's."""
        return super().here(sql).replace(BYSTANDER, str(self._bystander.info.backend_pid))

    def _begin(self) -> Any:
        """Return a session of the same role, which waits in a transaction."""
        import psycopg

        session = psycopg.connect(self._options()["url"], application_name="bystander")
        session.execute("SELECT 1")
        return session

    def _options(self) -> dict[str, Any]:
        own = {} if self.superuser else {"user": self.name, "password": "x"}
        return {"url": self.server.url(self.name, **own)}

    def _database(self) -> dict[str, Any]:
        import psycopg

        ended = self._ended_sessions()
        with psycopg.connect(self.server.url(self.name), autocommit=True) as session:
            found = {name: session.execute(sql.encode()).fetchall() for name, sql in _POSTGRES_STATE.items()}
        return {**found, "ended sessions": ended}

    def _ended_sessions(self) -> int:
        """Return how often the other session was ended; another one is begun in its place."""
        import psycopg

        try:
            self._bystander.execute("SELECT 1")
        except psycopg.Error:
            self._bystander.close()
            self._bystander = self._begin()
            self._ended += 1
        return self._ended


_POSTGRES_STATE = {
    "customers": "SELECT * FROM customers ORDER BY id",
    "orders": "SELECT * FROM orders ORDER BY id",
    "sequence": "SELECT last_value, is_called FROM order_numbers",
    "relations": "SELECT relname FROM pg_class ORDER BY 1",
    "functions": "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
    "roles": "SELECT rolname, rolsuper FROM pg_roles ORDER BY 1",
    "grants": "SELECT relname, relacl::text FROM pg_class WHERE relacl IS NOT NULL ORDER BY 1",
    "comments": "SELECT count(*) FROM pg_description",
    "extensions": "SELECT extname FROM pg_extension",
    "large objects": "SELECT oid FROM pg_largeobject_metadata ORDER BY 1",
    "locks": "SELECT locktype, mode FROM pg_locks WHERE locktype = 'advisory' OR mode LIKE '%Exclusive%' "
    "AND pid <> pg_backend_pid() AND locktype = 'relation'",
    "prepared": "SELECT gid FROM pg_prepared_xacts",
    "settings": "SELECT pg_conf_load_time()",
    "statistics": "SELECT stats_reset FROM pg_stat_database WHERE datname = current_database()",
    "shared statistics": "SELECT (SELECT stats_reset FROM pg_stat_bgwriter), (SELECT stats_reset FROM pg_stat_wal)",
    "sessions": "SELECT usename, application_name, state FROM pg_stat_activity WHERE application_name = 'bystander' "
    "AND datname = current_database()",
}


class MySqlWorld(World):
    """A MariaDB database with a sequence."""

    dialect = "mysql"

    def __init__(self, server: MariaDBServer) -> None:
        self.server = server
        self.name = f"guard{os.getpid()}_{next(_NUMBERS)}"
        super().__init__()

    def _make(self) -> None:
        self.server.create_database(self.name, *SHOP, "CREATE SEQUENCE order_numbers")
        self.server.execute(
            f"CREATE USER {self.name}@'%' IDENTIFIED BY 'x'", f"GRANT SELECT ON `{self.name}`.* TO {self.name}@'%'"
        )

    def _options(self) -> dict[str, Any]:
        return {"url": self.server.url(self.name, user=self.name, password="x")}

    def _database(self) -> dict[str, Any]:
        import pymysql

        session = pymysql.connect(
            host=self.server.host,
            port=self.server.port,
            user=self.server.user,
            password=self.server.password,
            database=self.name,
            charset="utf8mb4",
        )
        with session, session.cursor() as cursor:
            found: dict[str, Any] = {}
            for name, sql in _MYSQL_STATE.items():
                cursor.execute(sql)
                found[name] = cursor.fetchall()
            return found


_MYSQL_STATE = {
    "customers": "SELECT * FROM customers ORDER BY id",
    "orders": "SELECT * FROM orders ORDER BY id",
    "sequence": "SELECT next_not_cached_value FROM order_numbers",
    "relations": "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
    "users": "SELECT user, host FROM mysql.user ORDER BY 1, 2",
    "locks": "SELECT IS_USED_LOCK('ktx'), IS_USED_LOCK('a1'), IS_USED_LOCK('a2')",
    "settings": "SELECT @@global.general_log, @@global.read_only",
}
