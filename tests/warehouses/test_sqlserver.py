"""SQL Server: a scripted double stands at pymssql's edge and plays the sys views."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.warehouses.port import Connector, ForeignKey, Index, Scope, TableKind, TableRef, UniqueKey
from ktx_cli.warehouses.sqlserver import connector as catalog
from ktx_cli.warehouses.sqlserver import connector as sqlserver
from ktx_cli.warehouses.sqlserver.connector import BEGIN, END, SESSION, checked_certificate, error_parts, native_type

pymssql = pytest.importorskip("pymssql")

Open = Callable[..., Connector]
Rows = list[tuple[Any, ...]]
CANARY = "c4n4ry-hunter2"

RELATIONS: Rows = [
    (1, "dbo", "orders", "U", "about orders", 25, 1, 0, 0, 0),
    (2, "dbo", "customers", "U", None, 7, 1, 0, 0, 0),
    (3, "sales", "lines", "U", "", 9, 0, 0, 0, 0),
    (4, "dbo", "seen", "V", None, None, 1, 0, 0, 0),
    (5, "dbo", "stored", "M", None, 3, 1, 0, 0, 0),
    (6, "dbo", "away", "X", None, None, 1, None, None, None),
]
COLUMNS: Rows = [
    (1, "id", "int", "int", 4, 10, 0, False, True, False, None, "about id"),
    (1, "name", "nvarchar", "nvarchar", 80, 0, 0, True, False, False, "('x')", None),
    (1, "body", "varchar", "varchar", -1, 0, 0, True, False, False, None, None),
    (1, "amount", "decimal", "decimal", 9, 10, 2, True, False, False, None, None),
    (1, "at", "datetime2", "datetime2", 8, 27, 3, True, False, False, None, None),
    (1, "yes", "bit", "bit", 1, 1, 0, True, False, False, None, None),
    (1, "seen", "timestamp", "timestamp", 8, 0, 0, False, False, False, None, None),
    (1, "phone", "Phone", "nvarchar", 40, 0, 0, True, False, False, None, None),
    (1, "price", "Price", "money", 8, 19, 4, True, False, False, None, None),
    (1, "twice", "money", "money", 8, 19, 4, True, False, True, None, None),
    (1, "place", "geography", "geography", -1, 0, 0, True, False, False, None, None),
    (2, "a", "int", "int", 4, 10, 0, False, False, False, None, None),
    (2, "b", "int", "int", 4, 10, 0, False, False, False, None, None),
    (99, "else", "int", "int", 4, 10, 0, False, False, False, None, None),
]
INDEXES: Rows = [
    (1, "PK", True, True, False, "id"),
    (1, "plain", False, False, False, "name"),
    (1, "plain", False, False, False, "at"),
    (1, "UQ", False, True, False, "phone"),
    (1, "some", False, True, True, "yes"),
    (2, "PK", True, True, False, "b"),
    (2, "PK", True, True, False, "a"),
]
FOREIGN_KEYS: Rows = [
    (1, "FK_pair", "dbo", "customers", "yes", "b"),
    (1, "FK_pair", "dbo", "customers", "id", "a"),
    (1, "FK_other", "sales", "lines", "id", "order_id"),
]
WHO: Rows = [("reader", "shop", "16.0.4135.4", "Developer Edition (64-bit)", 0, 0, 0)]


class FakeServer:
    """Answers statements by what they begin with; remembers what it was sent and how it was reached."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.parameters: list[Any] = []
        self.arguments: dict[str, Any] = {}
        self.configuration = ""
        self.open = 0
        self.rows: dict[str, Rows | Exception] = {
            sqlserver.WHO: WHO,
            catalog.RELATIONS: RELATIONS,
            catalog.COLUMNS: COLUMNS,
            catalog.INDEXES: INDEXES,
            catalog.FOREIGN_KEYS: FOREIGN_KEYS,
            catalog.VIEWS: [(4, "CREATE VIEW dbo.seen AS SELECT 1 AS one"), (5, None)],
            "SELECT 1": [(1,)],
        }

    def connect(self, **arguments: Any) -> FakeSession:
        self.arguments = arguments
        path = os.environ.get("FREETDSCONF")
        self.configuration = Path(path).read_text() if path else ""
        if isinstance(answer := self.rows.get("connect"), Exception):
            raise answer
        self.statements += arguments["conn_properties"]
        return FakeSession(self)

    def answer(self, sql: str) -> Rows:
        self.statements.append(sql)
        text = sql.removeprefix("/* ktx */ ")
        found = next((rows for key, rows in self.rows.items() if text.startswith(key.partition("{schemas}")[0])), [])
        if isinstance(found, Exception):
            raise found
        return found


class FakeSession:
    """A pymssql connection; what pymssql keeps of the wire is `_conn`."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.connected = True
        server.open += 1

    @property
    def _conn(self) -> FakeSession:
        if not self.connected:
            raise pymssql.InterfaceError("Connection is closed.")
        return self

    def cursor(self) -> FakeCursor:
        return FakeCursor(self)

    def close(self) -> None:
        self.server.open -= self.connected
        self.connected = False


class FakeCursor:
    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.rows: Iterator[tuple[Any, ...]] = iter(())
        self.description: list[tuple[Any, ...]] | None = None

    def execute(self, sql: str, parameters: Any = None) -> None:
        self.session.server.parameters.append(parameters)
        rows = self.session.server.answer(sql)
        self.rows = iter(rows)
        self.description = [(f"c{number}",) for number in range(len(rows[0]))] if rows else None

    def fetchall(self) -> Rows:
        return list(self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self.rows

    def __enter__(self) -> FakeCursor:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing is held."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    server = FakeServer()
    monkeypatch.setattr(pymssql, "connect", server.connect)
    monkeypatch.delenv("FREETDSCONF", raising=False)
    return server


@pytest.fixture
def connector(server: FakeServer, opened: Open) -> Connector:
    return opened("sqlserver", host="db.example.com", database="shop", user="reader", password=CANARY)


def test_the_structure(connector: Connector) -> None:
    schema = connector.introspect(Scope())
    assert schema.problems == ()
    assert schema.server_version == "SQL Server 16.0.4135.4 (Developer Edition (64-bit))"
    tables = {table.ref.name: table for table in schema.tables}
    assert {name: table.kind for name, table in tables.items()} == {
        "away": TableKind.FOREIGN,
        "customers": TableKind.TABLE,
        "orders": TableKind.TABLE,
        "seen": TableKind.VIEW,
        "stored": TableKind.MATERIALIZED_VIEW,
    }
    orders = tables["orders"]
    assert (orders.comment, orders.row_estimate, orders.primary_key) == ("about orders", 25, ("id",))
    assert orders.unique_keys == (UniqueKey(("phone",), "UQ"),)
    assert orders.indexes == (Index(("name", "at"), "plain"),)
    assert orders.foreign_keys == (
        ForeignKey(("yes", "id"), TableRef("dbo", "customers"), ("b", "a"), "FK_pair"),
        ForeignKey(("id",), TableRef("sales", "lines"), ("order_id",), "FK_other"),
    )
    assert tables["customers"].primary_key == ("b", "a")
    assert tables["seen"].view_sql == "CREATE VIEW dbo.seen AS SELECT 1 AS one"
    assert (tables["stored"].row_estimate, tables["seen"].row_estimate, tables["away"].row_estimate) == (3, None, None)


def test_columns(connector: Connector) -> None:
    (table,) = connector.introspect(Scope(enabled_tables=("shop.dbo.orders",))).tables
    columns = {column.name: column for column in table.columns}
    assert {name: (column.native_type, column.type.value) for name, column in columns.items()} == {
        "id": ("int", "number"),
        "name": ("nvarchar(40)", "string"),
        "body": ("varchar(max)", "string"),
        "amount": ("decimal(10,2)", "number"),
        "at": ("datetime2(3)", "time"),
        "yes": ("bit", "boolean"),
        "seen": ("timestamp", "string"),
        "phone": ("Phone", "string"),
        "price": ("Price", "number"),
        "twice": ("money", "number"),
        "place": ("geography", "string"),
    }
    assert {name: column.default for name, column in columns.items() if column.default} == {
        "id": "IDENTITY",
        "name": "('x')",
    }
    assert [name for name, column in columns.items() if column.generated] == ["twice"]
    assert [name for name, column in columns.items() if not column.nullable] == ["id", "seen"]
    assert columns["id"].comment == "about id"


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (Scope(), ["dbo.away", "dbo.customers", "dbo.orders", "dbo.seen", "dbo.stored"]),
        (Scope(schemas=("sales",)), ["sales.lines"]),
        (Scope(enabled_tables=("sales.lines", "dbo.orders")), ["dbo.orders", "sales.lines"]),
        (Scope(include=("sales.*",)), ["sales.lines"]),
        (Scope(schemas=("dbo",), exclude=("*s*", "away")), []),
    ],
)
def test_scope(scope: Scope, found: list[str], connector: Connector) -> None:
    schema = connector.introspect(scope)
    assert [str(table.ref) for table in schema.tables] == found
    assert schema.problems == ()
    assert connector.test(scope).tables == len(found)


def test_schemas_are_parameters(connector: Connector, server: FakeServer) -> None:
    server.statements.clear()
    server.parameters.clear()
    connector.introspect(Scope(schemas=("dbo", "sales")))
    asked = [sql for sql, given in zip(server.statements, server.parameters, strict=True) if given == ("dbo", "sales")]
    assert len(asked) == 4
    assert all("s.name IN (%s, %s)" in sql for sql in asked)


@pytest.mark.parametrize(
    ("name", "what"), [("INDEXES", "indexes"), ("FOREIGN_KEYS", "foreign keys"), ("VIEWS", "view definitions")]
)
def test_a_failing_kind_of_metadata_costs_only_itself(
    name: str, what: str, connector: Connector, server: FakeServer
) -> None:
    server.rows[getattr(catalog, name)] = pymssql.OperationalError(229, b"The SELECT permission was denied")
    schema = connector.introspect(Scope())
    assert len(schema.tables) == 5
    (problem,) = schema.problems
    assert (problem.ref, problem.what) == (None, what)
    assert "permission was denied" in problem.message


@pytest.mark.parametrize(
    ("who", "writable", "facts"),
    [
        ((0, 0, 0), False, ("SELECT on 5 of 6 tables", "no SELECT on sales.lines")),
        ((1, 1, 1), True, ("SELECT on 5 of 6 tables", "no SELECT on sales.lines", "sysadmin", "db_owner")),
        ((0, 0, 1), True, ("SELECT on 5 of 6 tables", "no SELECT on sales.lines")),
        ((None, None, None), False, ("SELECT on 5 of 6 tables", "no SELECT on sales.lines")),
    ],
)
def test_privileges_are_told(
    who: tuple[int | None, ...], writable: bool, facts: tuple[str, ...], connector: Connector, server: FakeServer
) -> None:
    server.rows[sqlserver.WHO] = [(*WHO[0][:4], *who)]
    found = connector.test(Scope(schemas=("dbo", "sales")))
    assert (found.user, found.database, found.can_write, found.privileges) == ("reader", "shop", writable, facts)
    assert found.closed == (TableRef("sales", "lines"),)


def test_one_table_to_write_to_counts(connector: Connector, server: FakeServer) -> None:
    server.rows[catalog.RELATIONS] = [(*RELATIONS[0][:7], 0, 1, 0), *RELATIONS[1:]]
    assert connector.test(Scope()).can_write is True
    assert connector.test(Scope(schemas=("sales",))).can_write is False


def test_a_statement_is_rolled_back_and_capped(connector: Connector, server: FakeServer) -> None:
    server.rows["SELECT n"] = [(number,) for number in range(9)]
    server.statements.clear()
    found = connector.query("SELECT n FROM t", max_rows=3)
    assert (found.columns, found.rows, found.truncated) == (("c0",), ((0,), (1,), (2,)), True)
    assert server.statements == [f"/* ktx */ {sql}" for sql in (BEGIN.format(rows=4), "SELECT n FROM t", END)]
    connector.query("SELECT n FROM t WHERE a = %s AND b = '100%%' AND c = %s", [5, "it's %%s"])
    assert server.statements[-2].endswith("WHERE a = 5 AND b = '100%' AND c = N'it''s %%s'")
    connector.query("SELECT n FROM t WHERE b LIKE '%s%%'")
    assert server.statements[-2].endswith("LIKE '%s%%'")


@pytest.mark.parametrize(
    ("sql", "message"),
    [("SELECT 1", "no placeholder for 1 of its parameters"), ("SELECT %s, '%%', %s", "more placeholders")],
)
def test_parameters_without_a_place(sql: str, message: str, connector: Connector) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        connector.query(sql, [5])
    assert caught.value.code == "query"


def test_every_statement_names_ktx(connector: Connector, server: FakeServer) -> None:
    connector.test(Scope())
    connector.introspect(Scope())
    connector.query("SELECT 1")
    assert len(server.statements) > 15
    assert [each for each in server.statements if not each.startswith("/* ktx */ ")] == []


def test_a_statement_that_fails_is_rolled_back_and_the_session_kept(connector: Connector, server: FakeServer) -> None:
    server.rows["SELECT nope"] = pymssql.ProgrammingError(
        207, b"Invalid column name 'nope'.DB-Lib error message 20018, severity 16:\nGeneral SQL Server error"
    )
    with pytest.raises(SourceError) as caught:
        connector.query("SELECT nope")
    assert caught.value.code == "query"
    assert caught.value.message.endswith("Invalid column name 'nope'")
    assert server.statements[-1] == f"/* ktx */ {END}"
    assert server.open == 1


def test_a_session_that_broke_is_replaced(connector: Connector, server: FakeServer) -> None:
    class Broken(pymssql.OperationalError):
        """Breaks the session it is raised in."""

    def answer(sql: str) -> Rows:
        if "slow" in sql:
            session.close()
            raise Broken(20003, b"Adaptive Server connection timed out")
        return FakeServer.answer(server, sql)

    with connector._session(None) as session:
        pass
    server.answer = answer  # type: ignore[method-assign]
    with pytest.raises(SourceError) as caught:
        connector.query("SELECT slow")
    assert (caught.value.code, server.open) == ("timeout", 0)
    assert "stopped after 30 seconds" in caught.value.message
    assert connector.query("SELECT 1").rows == ((1,),)


@pytest.mark.parametrize(
    "sql", ["DELETE FROM t", "SELECT 1 DELETE FROM t", "SELECT 1; SELECT 2", "EXEC sp_who", "SELECT * INTO u FROM t"]
)
def test_what_does_more_than_read_is_not_sent(sql: str, connector: Connector, server: FakeServer) -> None:
    server.statements.clear()
    with pytest.raises(SourceError, match="ktx only reads"):
        connector.query(sql)
    assert server.statements == []


def test_how_a_session_begins(connector: Connector, server: FakeServer) -> None:
    given = server.arguments
    assert given["read_only"] is True
    assert given["autocommit"] is True
    assert (given["timeout"], given["login_timeout"], given["encryption"]) == (30, 10, "require")
    assert (given["server"], given["port"], given["appname"]) == ("db.example.com", "1433", "ktx")
    assert given["conn_properties"] == [f"/* ktx */ {each}" for each in SESSION]
    assert "SET LOCK_TIMEOUT 5000" in SESSION


ERRORS = [
    ((18456, b"Login failed for user 'reader'."), "connection", "Login failed", "connections.shop.password"),
    ((4060, b"Cannot open database \"shpo\""), "connection", "shpo", "connections.shop.database"),
    ((20009, b"Unable to connect: Adaptive Server is unavailable"), "connection", "Unable", "connections.shop.host"),
    ((20002, b"Adaptive Server connection failed"), "connection", "failed", "trustServerCertificate true"),
    ((1222, b"Lock request time out period exceeded."), "timeout", "locked by another session", "dm_tran_locks"),
    ((20003, b"Adaptive Server connection timed out"), "connection", "did not respond within 10 seconds", "firewall"),
    ((3906, b"Failed to update database: it is read-only."), "read_only", "ktx only reads", "SELECT"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "text", "hint"), ERRORS)
@pytest.mark.parametrize("nested", [True, False])
def test_errors(
    error: tuple[int, bytes], code: str, text: str, hint: str, nested: bool, server: FakeServer, opened: Open
) -> None:
    server.rows["connect"] = pymssql.OperationalError(error) if nested else pymssql.OperationalError(*error)
    with pytest.raises(SourceError, match="connection `shop`") as caught:
        opened("sqlserver", host="h", database="d", user="u", password=CANARY)
    assert caught.value.code == code
    assert text in caught.value.message
    assert hint in (caught.value.hint or "")


def test_no_password_in_an_error(server: FakeServer, opened: Open) -> None:
    server.rows["connect"] = pymssql.OperationalError(20002, f"cannot use {CANARY}".encode())
    with pytest.raises(SourceError) as caught:
        opened("sqlserver", url=f"mssql://u:{CANARY}@h/d")
    assert CANARY not in str(caught.value.to_json())


@pytest.mark.parametrize(
    ("options", "encryption", "checked"),
    [
        ({}, "require", True),
        ({"encrypt": True, "trustServerCertificate": True}, "require", False),
        ({"trustServerCertificate": False}, "require", True),
        ({"encrypt": False}, "request", False),
        ({"url": "mssql://h/d?encrypt=false"}, "request", False),
        ({"url": "mssql://h/d?trustServerCertificate=true"}, "require", False),
        ({"url": "mssql://h/d?trustServerCertificate=true", "trustServerCertificate": False}, "require", True),
    ],
)
def test_the_certificate_is_checked_unless_told_not_to(
    options: dict[str, Any], encryption: str, checked: bool, server: FakeServer, opened: Open, tmp_path: Path
) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.touch()
    opened("sqlserver", host="h", ca=str(trusted), **options)
    assert server.arguments["encryption"] == encryption
    assert (f"\tca file = {trusted}\n\tcheck certificate hostname = yes\n" in server.configuration) is checked
    assert "FREETDSCONF" not in os.environ


def test_no_certificates_to_trust(server: FakeServer, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ssl.get_default_verify_paths()._replace(cafile=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    with pytest.raises(ConfigError, match="no file with trusted certificates") as caught:
        opened("sqlserver", host="h")
    assert "ktx config set connections.shop.ca" in (caught.value.hint or "")


def test_the_variable_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREETDSCONF", "mine")
    with pytest.raises(ValueError, match="x"), checked_certificate("ca.pem"):
        assert os.environ["FREETDSCONF"] != "mine"
        raise ValueError("x")
    assert os.environ["FREETDSCONF"] == "mine"


def test_a_parameter_that_is_not_known(opened: Open) -> None:
    with pytest.raises(ConfigError, match="`encypt`"):
        opened("sqlserver", url="mssql://h/d?encypt=true")


@pytest.mark.table(
    ("name", "length", "precision", "scale", "spelled"),
    [
        ("nchar", 10, 0, 0, "nchar(5)"),
        ("varbinary", -1, 0, 0, "varbinary(max)"),
        ("numeric", 9, 18, 0, "numeric(18,0)"),
        ("time", 5, 16, 7, "time(7)"),
        ("float", 8, 53, 0, "float"),
        ("xml", -1, 0, 0, "xml"),
    ],
)
def test_native_types(name: str, length: int, precision: int, scale: int, spelled: str) -> None:
    assert native_type(name, length, precision, scale) == spelled


AWAY = b"DB-Lib error message 20009, severity 9:\nUnable to connect\nNet-Lib error during refused (111)\n" * 2
SPOKE = b"DB-Lib error message 20018, severity 14:\nGeneral\nDB-Lib error message 20002, severity 9:\nfailed\n"


@pytest.mark.table(
    ("error", "parts"),
    [
        (pymssql.OperationalError((18456, b"Login failed.DB-Lib error message 2:\nx")), (18456, "Login failed.")),
        (pymssql.OperationalError(208, b"Invalid object name 'x'."), (208, "Invalid object name 'x'.")),
        (pymssql.InterfaceError("Connection is closed."), (0, "Connection is closed.")),
        (pymssql.OperationalError((18456, AWAY)), (20009, "Unable to connect: Net-Lib error during refused (111)")),
        (pymssql.OperationalError((18456, SPOKE)), (18456, "the server returned error 18456")),
        (pymssql.Error(), (0, "")),
    ],
)
def test_error_parts(error: Exception, parts: tuple[int, str]) -> None:
    assert error_parts(error) == parts
