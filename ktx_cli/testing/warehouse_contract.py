"""The contract of a warehouse: the requirements for every connector, as tests for its author to run.

Subclass `WarehouseContract` in a test module and add a fixture `database`: a database with the tables of the contract,
which `statements` creates in plain SQL. The tests only read the database.

    class TestQuackBase(WarehouseContract):
        @pytest.fixture(scope="class")
        @classmethod
        def database(cls, tmp_path_factory):
            path = tmp_path_factory.mktemp("pond") / "pond.duckdb"
            with duckdb.connect(path) as session:
                for statement in statements():
                    session.execute(statement)
            return PreparedDatabase("quackbase", {"path": str(path)}, schema="main")
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from ktx_cli.core import SourceError, json_value, yaml
from ktx_cli.project import WAREHOUSES, Database, check_connection, settings_of
from ktx_cli.warehouses import (
    SKETCH_SIZE,
    Column,
    ConnectionSpec,
    Connector,
    Interruptible,
    Sample,
    SampleLimits,
    Scope,
    SemanticType,
    SketchedColumn,
    StatementPolicy,
    StatementRefusedError,
    TableKind,
    TableRef,
    column_list,
    connect,
    dialect_named,
    estimate_statement,
    hashed_kind,
    read_sample,
    scope_from_options,
    sketch_statement,
    table_path,
)

Row = tuple[Any, ...]

TYPES: Final = {
    "id": "INTEGER",
    "text": "VARCHAR(40)",
    "amount": "DECIMAL(10, 2)",
    "ratio": "DOUBLE PRECISION",
    "date": "DATE",
    "moment": "TIMESTAMP",
    "flag": "BOOLEAN",
}
"""The types of the contract's columns; `statements` accepts other names for them."""

_SEMANTIC: Final = {
    "id": SemanticType.NUMBER,
    "text": SemanticType.STRING,
    "amount": SemanticType.NUMBER,
    "ratio": SemanticType.NUMBER,
    "date": SemanticType.TIME,
    "moment": SemanticType.TIME,
    "flag": SemanticType.BOOLEAN,
}


@dataclass(frozen=True, slots=True)
class ContractTable:
    """One table: its columns by name, each with a type from `TYPES`, its rows, and the column that refers to a
    table.
    """

    name: str
    columns: Mapping[str, str]
    rows: tuple[Row, ...]
    key: str = ""
    refers: tuple[str, str] | None = None


ODD_NAMES: Final = ("select", "a.b", 'say "hi"', "back`tick", "it's", "Größe", "per%cent", "CamelCase")
"""Column names of the table `Order Details`."""

TABLES: Final = (
    ContractTable(
        "customers",
        {"id": "id", "name": "text", "country": "text"},
        ((1, "Ada", "DE"), (2, "Grace", "US"), (3, "Größe & Söhne", None)),
        key="id",
    ),
    ContractTable(
        "orders",
        {
            "id": "id",
            "customer_id": "id",
            "amount": "amount",
            "ratio": "ratio",
            "placed_on": "date",
            "placed_at": "moment",
            "paid": "flag",
        },
        (
            (1, 1, Decimal("19.90"), 0.5, date(2026, 1, 5), datetime(2026, 1, 5, 10, 30), True),
            (2, 1, Decimal("5.10"), 0.25, date(2026, 1, 31), datetime(2026, 1, 31, 23, 59, 59), False),
            (3, 2, Decimal("1234567.89"), 1.5, date(2026, 2, 1), datetime(2026, 2, 1), True),
            (4, 3, Decimal("-3.00"), 0.0, date(2025, 12, 31), datetime(2025, 12, 31, 12, 0), None),
        ),
        key="id",
        refers=("customer_id", "customers"),
    ),
    ContractTable("Order Details", dict.fromkeys(ODD_NAMES, "id"), (tuple(range(len(ODD_NAMES))),)),
    ContractTable(
        "events",
        {"id": "id", "kind": "text"},
        tuple((number, f"kind {number % 7}") for number in range(2000)),
        key="id",
    ),
)
"""The tables of a prepared database, in addition to the view `totals`: the sum of each customer's orders."""

SAMPLE_ROWS: Final = 100


def statements(
    *,
    quote: Callable[[str], str] | None = None,
    types: Mapping[str, str] | None = None,
    keys: bool = True,
    names: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the statements that create the contract's tables and its view.

    `quote`: quotes a name; double quotes by default. `types`: the database's own names for those in `TYPES`. `keys`:
    whether to declare primary and foreign keys. `names`: the names of tables that the database does not allow.
    """
    named = quote or _double_quoted
    renamed = names or {}
    written = {**TYPES, **(types or {})}
    made: list[str] = []
    for table in TABLES:
        parts = [f"{named(name)} {written[kind]}" for name, kind in table.columns.items()]
        if keys and table.key:
            parts.append(f"PRIMARY KEY ({named(table.key)})")
        if keys and table.refers:
            column, target = table.refers
            parts.append(f"FOREIGN KEY ({named(column)}) REFERENCES {named(target)} ({named('id')})")
        name = named(renamed.get(table.name, table.name))
        made.append(f"CREATE TABLE {name} ({', '.join(parts)})")
        for start in range(0, len(table.rows), 500):
            rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in table.rows[start : start + 500])
            made.append(f"INSERT INTO {name} VALUES {rows}")
    customer, amount = named("customer_id"), named("amount")
    made.append(
        f"CREATE VIEW {named('totals')} AS SELECT {customer}, SUM({amount}) AS {named('total')} "
        f"FROM {named('orders')} GROUP BY {customer}"
    )
    return made


def _double_quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, int | float | Decimal):
        return str(value)
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class PreparedDatabase:
    """A database with the contract's tables.

    `options`: the fields of a connection to it as in `ktx.yaml`, without `driver`. `schema`: the schema of the tables,
    or None if there are no schemas. `keys`, `views`: whether the database stores declared keys and views.
    `loose_types`: kinds in `TYPES` that it does not distinguish from others. `refused`: statements of its own that
    write, access files or change the session. `endless`: a statement that runs for more than a minute. `missing`: the
    fields of a connection to a database that does not exist. `added`: the columns that the database itself puts before
    those of each table. `names`: the names of tables that the database does not allow, as given to `statements`.
    """

    driver: str
    options: Mapping[str, Any]
    schema: str | None = None
    keys: bool = True
    views: bool = True
    loose_types: frozenset[str] = frozenset()
    refused: tuple[str, ...] = ()
    endless: str = ""
    missing: Mapping[str, Any] | None = None
    added: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def open(self, **options: Any) -> Connector:
        """Open a connection named `shop`."""
        return connect(ConnectionSpec("shop", self.driver, {**self.options, **options}))

    @property
    def scope(self) -> Scope:
        """The relations selected by the options."""
        return scope_from_options(self.options)


WRITES: Final = (
    "INSERT INTO {t} VALUES (9, 'x', 'DE')",
    "UPDATE {t} SET name = 'x'",
    "DELETE FROM {t}",
    "CREATE TABLE {u} (a int)",
    "CREATE TEMPORARY TABLE u (a int)",
    "CREATE VIEW {u} AS SELECT 1",
    "DROP TABLE {t}",
    "ALTER TABLE {t} ADD b int",
    "TRUNCATE TABLE {t}",
    "SELECT 1; INSERT INTO {t} VALUES (9, 'x', 'DE')",
    "/* note */ INSERT INTO {t} VALUES (9, 'x', 'DE')",
    "-- note\nDELETE FROM {t}",
    "( INSERT INTO {t} VALUES (9, 'x', 'DE') )",
    "BEGIN",
    "COMMIT",
    "EXPLAIN ANALYZE INSERT INTO {t} VALUES (9, 'x', 'DE')",
    "WITH x AS (INSERT INTO {t} VALUES (9, 'x', 'DE') RETURNING id) SELECT id FROM x",
    "WITH x AS (SELECT 1) DELETE FROM {t}",
    "GRANT ALL ON {t} TO PUBLIC",
    "",
    ";",
)
"""Statements that no session may run. `{t}` is the table `customers`, `{u}` one that does not exist."""


class WarehouseContract:
    """The tests. A subclass has a fixture `database` with the scope `class` that returns a `PreparedDatabase`."""

    @pytest.fixture(scope="class")
    @classmethod
    def connector(cls, database: PreparedDatabase) -> Iterator[Connector]:
        """An open connection for the tests that only read."""
        with database.open() as opened:
            yield opened

    def test_the_driver_is_registered(self, database: PreparedDatabase, connector: Connector) -> None:
        """The settings accept the options, setup asks only for settings, and the SQL has a dialect."""
        import sqlglot

        warehouse = WAREHOUSES.find(database.driver)
        assert warehouse is not None, f"no installed package has the entry point `{database.driver}`"
        model = WAREHOUSES.refer(database.driver, "settings")
        assert issubclass(model, Database)
        assert (model.__doc__ or "").strip(), "setup and the schema show the docstring of the settings"
        check_connection("shop", {"driver": database.driver, **database.options})
        for question in warehouse.questions:
            assert not question.key or question.key.partition(".")[0] in settings_of(model), question
        assert connector.dialect == warehouse.dialect
        assert sqlglot.parse_one("SELECT 1", dialect=warehouse.dialect).sql(warehouse.dialect) == "SELECT 1"

    def test_a_connection_test_tells_the_facts(self, database: PreparedDatabase, connector: Connector) -> None:
        """`ktx connection test` counts the relations in scope and reports the version."""
        found = connector.test(database.scope)
        assert found.tables == len(TABLES) + database.views
        assert found.latency_ms > 0
        assert any(character.isdigit() for character in found.server_version)
        assert found.closed == ()

    def test_the_structure_is_read(self, database: PreparedDatabase, connector: Connector) -> None:
        """Tables, columns in order, types and keys are returned as declared, with verbatim names."""
        schema = connector.introspect(database.scope)
        assert schema.problems == ()
        assert schema.server_version
        tables = {table.ref.name: table for table in schema.tables}
        named = {declared.name: database.names.get(declared.name, declared.name) for declared in TABLES}
        assert set(tables) == {*named.values()} | ({"totals"} if database.views else set())
        assert [table.ref for table in schema.tables] == sorted(table.ref for table in schema.tables)
        for declared in TABLES:
            table = tables[named[declared.name]]
            assert table.ref == TableRef(database.schema, named[declared.name])
            assert table.kind is TableKind.TABLE
            assert [column.name for column in table.columns] == [*database.added, *declared.columns]
            for column, kind in zip(table.columns[len(database.added) :], declared.columns.values(), strict=True):
                assert kind in database.loose_types or column.type is _SEMANTIC[kind], column
                assert column.native_type
            if database.keys:
                assert table.primary_key == ((declared.key,) if declared.key else ())
        if database.keys:
            (key,) = tables["orders"].foreign_keys
            assert (key.columns, key.target, key.target_columns) == (("customer_id",), tables["customers"].ref, ("id",))
        if database.views:
            assert tables["totals"].kind is TableKind.VIEW
            assert "select" in (tables["totals"].view_sql or "").lower()

    def test_the_structure_is_the_same_every_time(self, database: PreparedDatabase, connector: Connector) -> None:
        """Two introspections give the same result."""
        assert connector.introspect(database.scope) == connector.introspect(database.scope)

    def test_the_scope_is_applied_and_what_matches_nothing_is_named(
        self, database: PreparedDatabase, connector: Connector
    ) -> None:
        """`enabled_tables` and `exclude` select; a name that matches nothing is reported as a problem."""
        scope = Scope(
            schemas=database.scope.schemas, enabled_tables=("orders", "events", "missing"), exclude=("events",)
        )
        schema = connector.introspect(scope)
        assert [table.ref.name for table in schema.tables] == ["orders"]
        (problem,) = schema.problems
        assert (problem.ref, problem.what) == (None, "scope")
        assert "`missing`" in problem.message
        assert connector.test(scope).tables == 1

    def test_names_are_quoted(self, database: PreparedDatabase, connector: Connector) -> None:
        """Every name can be queried in the form that `table_path` and `column_list` return."""
        (table,) = (each for each in TABLES if each.name == "Order Details")
        columns = column_list(ODD_NAMES, connector.dialect)
        found = connector.query(f"SELECT {columns} FROM {self.path(database, connector, table.name)}")
        assert found.columns == ODD_NAMES
        assert [tuple(map(int, row)) for row in found.rows] == list(table.rows)

    def test_rows_are_cut_where_they_are_too_many(self, database: PreparedDatabase, connector: Connector) -> None:
        """`max_rows` limits a result, and the result is marked as limited."""
        events = f"SELECT id FROM {self.path(database, connector, 'events')}"
        found = connector.query(f"{events} ORDER BY id", max_rows=2)
        assert (found.columns, [int(row[0]) for row in found.rows], found.truncated) == (("id",), [0, 1], True)
        found = connector.query(f"{events} WHERE id < 3 ORDER BY id", max_rows=3)
        assert ([int(row[0]) for row in found.rows], found.truncated) == ([0, 1, 2], False)
        found = connector.query(f"{events} WHERE id < 0", max_rows=1)
        assert (found.columns, found.rows, found.truncated) == (("id",), (), False)

    def test_parameters_are_bound_not_pasted(self, database: PreparedDatabase, connector: Connector) -> None:
        """A parameter is a value, whatever its content; a percent sign without parameters is literal."""
        mark = getattr(connector, "placeholder", "?")
        customers = self.path(database, connector, "customers")
        by_name = f"SELECT id FROM {customers} WHERE name = {mark}"
        assert [int(row[0]) for row in connector.query(by_name, ["Ada"]).rows] == [1]
        assert connector.query(by_name, ["Ada' OR '1' = '1"]).rows == ()
        assert connector.query(f"SELECT '%s' AS mark, id FROM {customers} WHERE name LIKE 'A%'").rows[0][0] == "%s"

    def test_values_become_json(self, database: PreparedDatabase, connector: Connector) -> None:
        """Every value can be written as JSON and equals the stored one."""
        (table,) = (each for each in TABLES if each.name == "orders")
        columns = column_list(table.columns, connector.dialect)
        found = connector.query(f"SELECT {columns} FROM {self.path(database, connector, 'orders')} ORDER BY id")
        shown = json.loads(json.dumps([[json_value(value) for value in row] for row in found.rows]))
        for row, stored in zip(shown, table.rows, strict=True):
            for value, expected, kind in zip(row, stored, table.columns.values(), strict=True):
                assert _same(value, expected), f"{kind}: {value!r} is not {expected!r}"

    def test_samples_are_bounded_and_the_same_every_time(
        self, database: PreparedDatabase, connector: Connector
    ) -> None:
        """A sample has at most the requested number of rows, has every column, and is repeatable."""
        for table in connector.introspect(database.scope).tables:
            first, second = (read_sample(connector, table, SampleLimits(rows=SAMPLE_ROWS), seed=7) for _ in range(2))
            assert _rows(first) == _rows(second), table.ref
            assert first.failed == {}
            assert 0 < first.rows <= SAMPLE_ROWS
            assert set(first.columns) | set(first.opaque) == {column.name for column in table.columns}
            assert first.statements <= 3, "a sample takes one statement, or a few more if the first fails"

    def test_sketches_of_columns_are_comparable(self, database: PreparedDatabase, connector: Connector) -> None:
        """Equal values have equal hashes, and all rows are counted, also if only some hashes are looked at.

        A dialect without `text_hash` has no sketches, and one without `distinct_estimate` no estimates.
        """
        dialect = dialect_named(connector.dialect)
        if not dialect.text_hash:
            pytest.skip("the dialect has no hashes")
        tables = {table.ref.name: table for table in connector.introspect(database.scope).tables}

        def sketched(name: str, *columns: SketchedColumn) -> list[list[tuple[Any, int, int]]]:
            statement = sketch_statement(tables[name], columns, connector.dialect)
            rows = connector.query(statement, max_rows=len(columns) * (SKETCH_SIZE + 1)).rows
            found: list[list[tuple[Any, int, int]]] = [[] for _ in columns]
            for position, hash_, count, filled in rows:
                found[int(position)].append((hash_, int(count), int(filled)))
            return found

        def column(table: str, name: str) -> Column:
            return next(each for each in tables[table].columns if each.name == name)

        identifier, customer = column("customers", "id"), column("orders", "customer_id")
        assert hashed_kind(identifier, connector.dialect) is hashed_kind(customer, connector.dialect) is not None
        ids, names, countries = sketched(
            "customers", *(SketchedColumn(column("customers", name)) for name in ("id", "name", "country"))
        )
        (references,) = sketched("orders", SketchedColumn(customer))
        assert sorted((count, filled) for _, count, filled in references) == [(1, 4), (1, 4), (2, 4)]
        assert {digits for digits, *_ in references} == {digits for digits, *_ in ids}
        assert [len(names), len(countries), countries[0][2]] == [3, 2, 2], "NULL is not a value"
        (others,) = sketched("orders", SketchedColumn(customer, excluded=2))
        assert {digits for digits, *_ in others} < {digits for digits, *_ in ids}
        whole, part = sketched("events", *(SketchedColumn(column("events", "id"), share) for share in (1.0, 0.1)))
        (rest,) = [count for digits, count, _ in part if not digits]
        least = sorted(digits for digits, *_ in whole)[: len(part) - 1]
        assert sorted(digits for digits, *_ in part if digits) == least
        assert (rest, {filled for *_, filled in (*whole, *part)}) == (2000 - len(least), {2000})
        estimate = estimate_statement(tables["events"], tables["events"].columns, connector.dialect)
        if estimate is not None:
            (counts,) = connector.query(estimate).rows
            filled, distinct = map(int, counts[-4:-2])
            assert filled == 2000
            assert abs(distinct / filled - 1) < 5 * dialect.distinct_error

    def test_a_session_writes_nothing(self, database: PreparedDatabase) -> None:
        """The session itself refuses statements that write, without the guard."""
        with database.open() as connector:
            before = connector.introspect(database.scope).tables
            rows = self.rows(database, connector, "customers")
            names = {"t": self.path(database, connector, "customers"), "u": self.path(database, connector, "not_there")}
            for statement in (*(text.format(**names) for text in WRITES), *database.refused):
                with pytest.raises(SourceError) as caught:
                    connector.query(statement)
                assert caught.value.code in ("read_only", "query"), statement
                assert "does not exist" not in caught.value.message, f"{statement}: refused for another reason"
            assert self.rows(database, connector, "customers") == rows
            assert connector.introspect(database.scope).tables == before

    def test_the_guard_knows_the_dialect(self, database: PreparedDatabase, connector: Connector) -> None:
        """The guard passes a query in a form that the database runs, and refuses anything more than a query."""
        policy = StatementPolicy("shop")
        orders = self.path(database, connector, "orders")
        asked = f"SELECT customer_id, COUNT(*) AS n FROM {orders} GROUP BY customer_id ORDER BY customer_id"
        checked = policy.check(asked, connector.dialect, max_rows=2)
        found = connector.query(checked.sql, max_rows=2)
        assert [tuple(map(int, row)) for row in found.rows] == [(1, 2), (2, 1)]
        for statement in (f"DELETE FROM {orders}", f"{asked}; {asked}", "SELECT no_such_function_of_ktx(1)"):
            with pytest.raises(StatementRefusedError):
                policy.check(statement, connector.dialect, max_rows=2)

    def test_a_plan_can_be_asked_for(self, database: PreparedDatabase, connector: Connector) -> None:
        """EXPLAIN passes the guard, executes nothing and returns rows."""
        orders = self.path(database, connector, "orders")
        try:
            checked = StatementPolicy("shop").check(f"EXPLAIN SELECT id FROM {orders}", connector.dialect, max_rows=9)
        except StatementRefusedError:
            pytest.skip("the guard allows no EXPLAIN in this dialect")
        assert checked.explains
        assert connector.query(checked.sql).rows

    def test_a_wrong_statement_says_what_is_wrong_and_the_session_goes_on(
        self, database: PreparedDatabase, connector: Connector
    ) -> None:
        """An error is one line with the connection's name, and affects only the statement."""
        orders = self.path(database, connector, "orders")
        missing = self.path(database, connector, "not_there")
        for statement in (f"SELECT no_such_column FROM {orders}", f"SELECT id FROM {missing}", "SELECT ("):
            with pytest.raises(SourceError) as caught:
                connector.query(statement)
            assert (caught.value.code, caught.value.exit_code) == ("query", 1), statement
            assert "`shop`" in caught.value.message
            assert "\n" not in caught.value.message
            shown = "".join(traceback.format_exception(caught.value))
            password = str(database.options.get("password") or "")
            assert not password or password not in shown
        assert [int(row[0]) for row in connector.query("SELECT 1 AS one").rows] == [1]

    def test_a_statement_that_runs_on_is_stopped(self, database: PreparedDatabase) -> None:
        """`query_timeout_ms` ends a statement, and the connection remains usable."""
        if not database.endless:
            pytest.skip("the database has no statement that runs for a minute")
        with database.open(query_timeout_ms=300) as connector:
            with pytest.raises(SourceError) as caught:
                connector.query(database.endless)
            assert caught.value.code == "timeout"
            assert "0.3 seconds" in caught.value.message
            assert [int(row[0]) for row in connector.query("SELECT 1 AS one").rows] == [1]

    def test_a_database_that_is_not_there_is_an_error_that_says_so(self, database: PreparedDatabase) -> None:
        """Opening a database that does not exist fails with the code `connection` and a hint."""
        if database.missing is None:
            pytest.skip("no options of a missing database given")
        with pytest.raises(SourceError) as caught:
            connect(ConnectionSpec("shop", database.driver, dict(database.missing)))
        assert (caught.value.code, caught.value.exit_code) == ("connection", 4)
        assert "`shop`" in caught.value.message
        assert caught.value.hint

    def test_it_is_closed_twice_and_opened_twice(self, database: PreparedDatabase) -> None:
        """Closing twice is harmless, and two connections do not affect each other."""
        with database.open() as first, database.open() as second:
            assert self.rows(database, first, "customers") == self.rows(database, second, "customers")
            first.close()
            assert len(self.rows(database, second, "customers")) == 3
            if isinstance(second, Interruptible):
                second.interrupt()
                assert len(self.rows(database, second, "customers")) == 3
        first.close()

    def test_a_project_on_it_is_scanned_and_asked(self, database: PreparedDatabase, tmp_path: Path) -> None:
        """`ktx scan` writes the semantic layer of the database, and `ktx sl query` returns correct numbers."""
        settings = {
            "connections": {"shop": {"driver": database.driver, **database.options}},
            "storage": {"git": {"author": "ktx <ktx@example.com>"}},
        }
        (tmp_path / "ktx.yaml").write_text(yaml.dump(settings), encoding="utf-8")
        _ktx(tmp_path, "scan", "shop", "--depth", "profile")
        overlay = tmp_path / "semantic-layer" / "shop" / "orders.yaml"
        overlay.write_text("name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount)}\n", encoding="utf-8")
        _ktx(tmp_path, "sl", "validate")
        asked = ("-m", "orders.revenue", "-d", "customers.country", "-d", "orders.placed_on:month")
        answer = _ktx(tmp_path, "sl", "query", *asked, "--verify")
        assert {(row[0], str(row[1])[:7]): Decimal(str(row[2])) for row in answer["rows"]} == _revenue()
        assert answer["receipt"]["verified"]["mismatches"] == []

    def path(self, database: PreparedDatabase, connector: Connector, name: str) -> str:
        """Return the name of one of the contract's tables as SQL writes it."""
        return table_path(TableRef(database.schema, database.names.get(name, name)), connector.dialect)

    def rows(self, database: PreparedDatabase, connector: Connector, name: str) -> Sequence[Row]:
        """Return a table's rows by `id`."""
        return connector.query(f"SELECT * FROM {self.path(database, connector, name)} ORDER BY id").rows


def _ktx(folder: Path, *words: str) -> Any:
    """Run a command in this process and return its data."""
    from ktx_cli.cli.app import app

    result = CliRunner().invoke(app, [*words, "--project-dir", str(folder), "--json"], prog_name="ktx")
    assert result.exit_code == 0, f"ktx {' '.join(words)}: {result.output}"
    return json.loads(result.stdout)["data"]


def _revenue() -> dict[tuple[str | None, str], Decimal]:
    """Return the sum of the contract's orders by customer country and month."""
    tables = {table.name: table.rows for table in TABLES}
    country = {row[0]: row[2] for row in tables["customers"]}
    orders = sorted(((str(country[row[1]]), row[4].isoformat()[:7]), row[2]) for row in tables["orders"])
    totals = {key: sum((amount for _, amount in rows), Decimal()) for key, rows in groupby(orders, lambda row: row[0])}
    return {(None if name == "None" else name, month): total for (name, month), total in totals.items()}


def _rows(sample: Sample) -> list[str]:
    """Return the rows of a sample as sorted texts, because a view returns them in any order."""
    return sorted(map(repr, zip(*sample.values, strict=True)))


def _same(value: Any, expected: Any) -> bool:
    """Return whether a JSON value equals the stored one, whatever form the database stores it in."""
    if expected is None or isinstance(expected, str):
        return bool(value == expected)
    if isinstance(expected, bool):
        return value in (expected, int(expected), str(expected).lower())
    if isinstance(expected, int | float | Decimal):
        return abs(Decimal(str(value)) - Decimal(str(expected))) < Decimal("0.000001")
    text = expected.isoformat()
    return str(value).replace(" ", "T").startswith(text)
