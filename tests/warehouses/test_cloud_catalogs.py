"""The catalog statements of Snowflake, BigQuery, Databricks and Trino: each parsed as what it is, and executed.

DuckDB stands in for the warehouse: the tables of its catalog are made with the columns its documentation names, and
sqlglot writes the statement for DuckDB. What SHOW answers is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.warehouses.bigquery.connector import BigQueryCatalog, unquoted
from ktx_cli.warehouses.cloud import Catalog, ClientError, assemble, require_query
from ktx_cli.warehouses.databricks.connector import DatabricksCatalog, grants_sql, members_sql
from ktx_cli.warehouses.port import ForeignKey, ObjectProblem, SemanticType, Table, TableKind, TableRef, UniqueKey
from ktx_cli.warehouses.server import PartReader
from ktx_cli.warehouses.snowflake.connector import IDENTITY, ROLES, SHOWN_ROWS, SnowflakeCatalog, shown
from ktx_cli.warehouses.trino.connector import TrinoCatalog, privileges_sql

ODD = "it's a \"b`"
REFUSED = ClientError("Access Denied: no rights", type("Refused", (Exception,), {"code": 403})())


class Warehouse:
    """Runs the statements of one dialect on DuckDB; `broken` names tables that may not be read."""

    def __init__(self, dialect: str, tables: Mapping[str, tuple[str, list[tuple[Any, ...]]]], **shows: Any) -> None:
        self.dialect = dialect
        self.shows = {name.replace("_", " ").upper(): rows for name, rows in shows.items()}
        self.broken: set[str] = set()
        self.statements: list[str] = []
        self.database = duckdb.connect()
        for name, (columns, rows) in tables.items():
            self.database.execute(f'CREATE TABLE "{name}" ({columns})')
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self.database.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)

    def __call__(self, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        self.statements.append(sql)
        if sql.startswith("SHOW"):
            return self._show(sql)
        require_query(sql, self.dialect, "here")
        (tree,) = sqlglot.parse(sql, read=self.dialect)
        assert isinstance(tree, exp.Query)
        for table in tree.find_all(exp.Table):
            name = self._name(table)
            if name in self.broken:
                raise REFUSED
            table.replace(exp.alias_(exp.to_table(f'"{name}"'), table.alias or None, table=True))
        return self.database.execute(tree.sql("duckdb")).fetchall()

    def _show(self, sql: str) -> list[tuple[Any, ...]]:
        (tree,) = sqlglot.parse(sql, read=self.dialect)
        assert isinstance(tree, exp.Show) or (isinstance(tree, exp.Command) and tree.name == "SHOW"), sql
        words = sql.split(" IN ")[0]
        if words in self.broken:
            raise REFUSED
        rows = self.shows[words]
        return rows(sql) if callable(rows) else rows

    def _name(self, table: exp.Table) -> str:
        parts = [part.name for part in table.parts]
        if self.dialect == "bigquery":
            parts = [part for each in parts for part in each.split(".")]
            return f"{parts[1]}.{parts[-1].lower()}"
        assert parts[0] in ("Cat", "system") or "FLATTEN" in table.sql().upper(), parts
        return parts[-1].lower()


def read_all(
    warehouse: Warehouse, make: Callable[..., Catalog], *place: Any
) -> tuple[dict[str, Table], list[ObjectProblem]]:
    parts = PartReader(warehouse, ClientError)
    catalog = make(warehouse, parts, *place)
    drafts = catalog.relations()
    problems = assemble(drafts, warehouse.dialect, catalog)
    return {str(ref): draft.finish() for ref, draft in drafts.items()}, [*problems, *parts.problems]


SNOWFLAKE_KEYS = [("mart", "parent", "pk", "id", 2), ("mart", "parent", "pk", "region", 1)]


def snowflake() -> Warehouse:
    column = "table_schema text, table_name text, column_name text, ordinal_position int, data_type text, "
    column += "numeric_precision int, numeric_scale int, is_nullable text, comment text, column_default text"
    return Warehouse(
        "snowflake",
        {
            "tables": (
                "table_schema text, table_name text, table_type text, comment text, row_count bigint, "
                "created timestamp, last_altered timestamp",
                [
                    ("mart", "parent", "BASE TABLE", "All parents", 12, "2024-01-01", "2024-01-02 03:04:05.678"),
                    ("mart", "child", "BASE TABLE", "", 30, "2024-01-01", "2024-01-01"),
                    ("mart", "v", "VIEW", None, None, "2024-01-01", "2024-01-01"),
                    ("mart", "m", "MATERIALIZED VIEW", None, None, "2024-01-01", "2024-01-01"),
                    (ODD, ODD, "EXTERNAL TABLE", None, None, "2024-01-01", "2024-01-01"),
                    ("INFORMATION_SCHEMA", "TABLES", "VIEW", None, None, "2024-01-01", "2024-01-01"),
                ],
            ),
            "columns": (
                column,
                [
                    ("mart", "parent", "id", 2, "NUMBER", 38, 0, "NO", "The id", "1"),
                    ("mart", "parent", "region", 1, "TEXT", None, None, "NO", None, None),
                    ("mart", "child", "region", 1, "TEXT", None, None, "YES", None, None),
                    ("mart", "child", "parent_id", 2, "NUMBER", 10, 2, "YES", None, None),
                    ("mart", "child", "data", 3, "VARIANT", None, None, "YES", None, None),
                    ("mart", "v", "at", 1, "TIMESTAMP_NTZ", None, None, "YES", None, None),
                    ("mart", "m", "at", 1, "DATE", None, None, "YES", None, None),
                    (ODD, ODD, ODD, 1, "BOOLEAN", None, None, "YES", None, None),
                ],
            ),
            "views": (
                "table_schema text, table_name text, view_definition text",
                [("mart", "v", "create view v as select 1")],
            ),
        },
        show_primary_keys=SNOWFLAKE_KEYS,
        show_unique_keys=[("mart", "child", "u", "parent_id", 1)],
        show_imported_keys=[
            ("mart", "child", "fk", "parent_id", "Cat", "mart", "parent", "id", 2),
            ("mart", "child", "fk", "region", "Cat", "mart", "parent", "region", 1),
            ("mart", "child", "away", "region", "Other", "mart", "parent", "region", 1),
        ],
        show_materialized_views=[("mart", "m", "create materialized view m as select 1")],
    )


def information_schema(dialect: str, kinds: list[tuple[Any, ...]], columns: list[tuple[Any, ...]]) -> dict[str, Any]:
    """The tables Databricks and Trino have in common; `columns`: schema, table, name, position, type."""
    return {
        "tables": ("table_schema text, table_name text, table_type text, comment text, table_owner text", kinds),
        "columns": (
            "table_schema text, table_name text, column_name text, ordinal_position int, data_type text, "
            "full_data_type text, is_nullable text, comment text, column_default text, is_generated text, "
            "generation_expression text",
            columns,
        ),
        "views": (
            "table_schema text, table_name text, view_definition text",
            [("mart", "v", "SELECT 1"), ("mart", "secret", None)],
        ),
    }


def trino() -> Warehouse:
    tables = information_schema(
        "trino",
        [
            ("mart", "parent", "BASE TABLE", None, None),
            ("mart", "v", "VIEW", None, None),
            ("mart", "m", "BASE TABLE", None, None),
            (ODD, ODD, "BASE TABLE", None, None),
            ("information_schema", "tables", "BASE TABLE", None, None),
        ],
        [
            ("mart", "parent", "id", 2, "bigint", None, "NO", "The id", "1", None, None),
            ("mart", "parent", "tags", 1, "array(bigint)", None, "YES", None, None, None, None),
            ("mart", "v", "at", 1, "timestamp(3) with time zone", None, "YES", None, None, None, None),
            ("mart", "m", "price", 1, "decimal(10,2)", None, "YES", None, None, None, None),
            (ODD, ODD, ODD, 1, "boolean", None, "YES", None, None, None, None),
        ],
    )
    tables["materialized_views"] = (
        "catalog_name text, schema_name text, name text, definition text",
        [("Cat", "mart", "m", "SELECT 2"), ("other", "mart", "parent", "SELECT 3")],
    )
    tables["table_comments"] = (
        "catalog_name text, schema_name text, table_name text, comment text",
        [("Cat", "mart", "parent", "All parents"), ("other", "mart", "v", "no"), ("Cat", "gone", "x", "no")],
    )
    return Warehouse("trino", tables)


def databricks() -> Warehouse:
    tables = information_schema(
        "databricks",
        [
            ("mart", "parent", "MANAGED", "All parents", "ann"),
            ("mart", "child", "EXTERNAL", None, "ann"),
            ("mart", "v", "VIEW", None, "ann"),
            ("mart", "m", "MATERIALIZED_VIEW", None, "ann"),
            (ODD, ODD, "FOREIGN", None, "owners"),
            ("information_schema", "tables", "VIEW", None, "System"),
        ],
        [
            ("mart", "parent", "id", 2, "LONG", "bigint", "NO", "The id", "1", "NO", None),
            ("mart", "parent", "region", 1, "STRING", "string", "NO", None, None, "NO", None),
            ("mart", "child", "region", 1, "STRING", "string", "YES", None, None, "NO", None),
            ("mart", "child", "parent_id", 2, "LONG", "bigint", "YES", None, None, "NO", None),
            ("mart", "child", "twice", 3, "DECIMAL", "decimal(10,2)", "YES", None, None, "YES", "parent_id * 2"),
            ("mart", "v", "at", 1, "TIMESTAMP", "timestamp", "YES", None, None, "NO", None),
            ("mart", "m", "data", 1, "STRUCT", "struct<a:int>", "YES", None, None, "NO", None),
            (ODD, ODD, ODD, 1, "BOOLEAN", "boolean", "YES", None, None, "NO", None),
        ],
    )
    constraint = "constraint_catalog text, constraint_schema text, constraint_name text"
    tables["table_constraints"] = (
        f"{constraint}, table_schema text, table_name text, constraint_type text",
        [("Cat", "mart", "pk", "mart", "parent", "PRIMARY KEY"), ("Cat", "mart", "fk", "mart", "child", "FOREIGN KEY")],
    )
    tables["key_column_usage"] = (
        f"{constraint}, table_schema text, table_name text, column_name text, ordinal_position int, "
        "position_in_unique_constraint int",
        [
            ("Cat", "mart", "pk", "mart", "parent", "id", 2, None),
            ("Cat", "mart", "pk", "mart", "parent", "region", 1, None),
            ("Cat", "mart", "fk", "mart", "child", "parent_id", 1, 2),
            ("Cat", "mart", "fk", "mart", "child", "region", 2, 1),
        ],
    )
    tables["referential_constraints"] = (
        f"{constraint}, unique_constraint_catalog text, unique_constraint_schema text, unique_constraint_name text",
        [("Cat", "mart", "fk", "Cat", "mart", "pk")],
    )
    tables["table_privileges"] = (
        "grantee text, table_schema text, privilege_type text",
        [("ann", "mart", "SELECT"), ("editors", "mart", "MODIFY"), ("bob", "else", "MODIFY")],
    )
    tables["schema_privileges"] = (
        "grantee text, schema_name text, privilege_type text",
        [("ann", "mart", "USE SCHEMA")],
    )
    return Warehouse("databricks", tables)


def bigquery() -> Warehouse:
    constraint = "constraint_name text, table_schema text, table_name text"
    tables: dict[str, Any] = {}
    for dataset, kinds in {
        "mart": [("parent", "BASE TABLE"), ("child", "BASE TABLE"), ("v", "VIEW"), ("m", "MATERIALIZED VIEW")],
        "raw": [("files", "EXTERNAL")],
        "us": [("sales", "BASE TABLE")],
    }.items():
        ddl = "CREATE MATERIALIZED VIEW `p.mart.m`\nOPTIONS(x=1)\nAS SELECT 3"
        tables[f"{dataset}.tables"] = (
            "table_schema text, table_name text, table_type text, ddl text",
            [(dataset, name, kind, ddl) for name, kind in kinds],
        )
        tables[f"{dataset}.table_options"] = (
            "table_schema text, table_name text, option_name text, option_value text",
            [(dataset, kinds[0][0], "description", r'"All \"x\" \u00e9"'), (dataset, kinds[0][0], "labels", "[]")],
        )
        tables[f"{dataset}.__tables__"] = (
            "dataset_id text, table_id text, row_count bigint, type int, creation_time bigint, "
            "last_modified_time bigint, size_bytes bigint",
            [(dataset, name, 12, 1 if kind == "BASE TABLE" else 2, 1, 1700000000000, 64) for name, kind in kinds],
        )
        tables[f"{dataset}.columns"] = (
            "table_schema text, table_name text, column_name text, ordinal_position int, data_type text, "
            "is_nullable text, column_default text, is_generated text, is_hidden text",
            [
                row
                for name, _ in kinds
                for row in (
                    (dataset, name, "region", 2, "STRING", "YES", "NULL", "NEVER", "NO"),
                    (dataset, name, "id", 1, "INT64", "NO", "1", "NEVER", "NO"),
                    (dataset, name, "tags", 3, "ARRAY<INT64>", "YES", "NULL", "NEVER", "NO"),
                    (dataset, name, "twice", 4, "BIGNUMERIC", "YES", "NULL", "ALWAYS", "NO"),
                    (dataset, name, "_PARTITIONTIME", None, "TIMESTAMP", "YES", "NULL", "NEVER", "YES"),
                )
            ],
        )
        tables[f"{dataset}.column_field_paths"] = (
            "table_schema text, table_name text, column_name text, field_path text, description text",
            [(dataset, "parent", "id", "id", "The id"), (dataset, "parent", "id", "id.x", "no")],
        )
        tables[f"{dataset}.views"] = (
            "table_schema text, table_name text, view_definition text",
            [(dataset, "v", "SELECT 2")],
        )
        tables[f"{dataset}.table_constraints"] = (f"{constraint}, constraint_type text", [])
        tables[f"{dataset}.constraint_column_usage"] = (f"{constraint}, column_name text", [])
        tables[f"{dataset}.key_column_usage"] = (
            f"{constraint}, column_name text, ordinal_position int, position_in_unique_constraint int",
            [],
        )
    tables["mart.table_constraints"] = (
        f"{constraint}, constraint_type text",
        [
            ("parent.pk$", "mart", "parent", "PRIMARY KEY"),
            ("child.fk", "mart", "child", "FOREIGN KEY"),
            ("child.away", "mart", "child", "FOREIGN KEY"),
            ("child.lost", "mart", "child", "FOREIGN KEY"),
        ],
    )
    tables["mart.key_column_usage"] = (
        f"{constraint}, column_name text, ordinal_position int, position_in_unique_constraint int",
        [
            ("parent.pk$", "mart", "parent", "region", 2, None),
            ("parent.pk$", "mart", "parent", "id", 1, None),
            ("child.fk", "mart", "child", "region", 1, 2),
            ("child.fk", "mart", "child", "id", 2, 1),
            ("child.away", "mart", "child", "id", 1, 1),
            ("child.lost", "mart", "child", "id", 1, 1),
            ("child.lost", "mart", "child", "region", 2, 2),
        ],
    )
    tables["mart.constraint_column_usage"] = (
        f"{constraint}, column_name text",
        [
            ("parent.pk$", "mart", "parent", "id"),
            ("child.fk", "mart", "parent", "id"),
            ("child.fk", "mart", "parent", "region"),
            ("child.away", "raw", "files", "key"),
            ("child.lost", "raw", "files", "a"),
            ("child.lost", "raw", "files", "b"),
        ],
    )
    return Warehouse("bigquery", tables)


DATASETS = {"mart": "EU", "raw": "EU", "us": "US"}


def test_snowflake() -> None:
    tables, problems = read_all(snowflake(), SnowflakeCatalog, "Cat")
    assert problems == []
    assert list(tables) == ["mart.parent", "mart.child", "mart.v", "mart.m", f"{ODD}.{ODD}"]
    assert [table.kind.value for table in tables.values()] == ["table", "table", "view", "materialized_view", "foreign"]
    parent, child, view, materialized, odd = tables.values()
    assert (parent.comment, parent.row_estimate, parent.primary_key) == ("All parents", 12, ("region", "id"))
    assert [(c.name, c.native_type, c.nullable, c.comment, c.default) for c in parent.columns] == [
        ("region", "TEXT", False, None, None),
        ("id", "NUMBER(38,0)", False, "The id", "1"),
    ]
    assert (child.comment, child.unique_keys) == (None, (UniqueKey(("parent_id",), "u"),))
    assert child.foreign_keys == (ForeignKey(("region", "parent_id"), parent.ref, ("region", "id"), "fk"),)
    assert [column.type.value for column in child.columns] == ["string", "number", "string"]
    assert (view.view_sql, view.columns[0].type) == ("create view v as select 1", SemanticType.TIME)
    assert materialized.view_sql == "create materialized view m as select 1"
    assert [column.name for column in odd.columns] == [ODD]


def test_snowflake_shows_schema_by_schema_what_is_cut_off() -> None:
    warehouse = snowflake()
    row = ("else", "parent", "pk", "id", 1)
    answers = {'SHOW PRIMARY KEYS IN SCHEMA "Cat"."mart"': SNOWFLAKE_KEYS}
    warehouse.shows["SHOW PRIMARY KEYS"] = lambda sql: answers.get(sql, [row] * SHOWN_ROWS)
    tables, problems = read_all(warehouse, SnowflakeCatalog, "Cat")
    assert tables["mart.parent"].primary_key == ("region", "id")
    (problem,) = problems
    assert (problem.what, "10,000" in problem.message, ODD in problem.message) == ("constraints", True, True)


def test_snowflake_takes_columns_of_show_by_name() -> None:
    assert shown('SHOW PRIMARY KEYS IN DATABASE "x"') == (
        "schema_name", "table_name", "constraint_name", "column_name", "key_sequence",
    )  # fmt: skip
    assert shown("SELECT 1") is None


def test_trino() -> None:
    tables, problems = read_all(trino(), TrinoCatalog, "Cat")
    assert problems == []
    assert [(name, table.kind.value) for name, table in tables.items()] == [
        ("mart.parent", "table"), ("mart.v", "view"), ("mart.m", "materialized_view"), (f"{ODD}.{ODD}", "table"),
    ]  # fmt: skip
    parent, view, materialized, odd = tables.values()
    assert (parent.comment, view.comment) == ("All parents", None)
    assert [(c.name, c.native_type, c.type.value, c.nullable, c.comment, c.default) for c in parent.columns] == [
        ("tags", "array(bigint)", "string", True, None, None),
        ("id", "bigint", "number", False, "The id", "1"),
    ]
    assert (view.view_sql, materialized.view_sql, parent.view_sql) == ("SELECT 1", "SELECT 2", None)
    assert view.columns[0].type is SemanticType.TIME
    assert odd.columns[0].name == ODD


def test_databricks() -> None:
    tables, problems = read_all(databricks(), DatabricksCatalog, "Cat")
    assert problems == []
    kinds = ["table", "table", "view", "materialized_view", "foreign"]
    assert [table.kind.value for table in tables.values()] == kinds
    parent, child, view, materialized, odd = tables.values()
    assert (parent.comment, parent.primary_key) == ("All parents", ("region", "id"))
    assert [(c.name, c.native_type, c.type.value, c.nullable, c.comment, c.default) for c in parent.columns] == [
        ("region", "string", "string", False, None, None),
        ("id", "bigint", "number", False, "The id", "1"),
    ]
    assert child.foreign_keys == (ForeignKey(("parent_id", "region"), parent.ref, ("id", "region"), "fk"),)
    assert [column.generated for column in child.columns] == [False, False, True]
    assert (view.view_sql, materialized.columns[0].type) == ("SELECT 1", SemanticType.STRING)
    assert odd.columns[0].name == ODD


def test_databricks_grants() -> None:
    assert sorted(databricks()(grants_sql("Cat", ["mart"]))) == [
        ("ann", "OWNERSHIP"), ("ann", "SELECT"), ("ann", "USE SCHEMA"), ("editors", "MODIFY"),
    ]  # fmt: skip
    assert members_sql(["a", "it's"]) == "SELECT is_account_group_member('a'), is_account_group_member('it\\'s')"


def test_bigquery() -> None:
    warehouse = bigquery()
    tables, problems = read_all(warehouse, BigQueryCatalog, "my-project", DATASETS)
    assert [(name, table.kind.value, table.row_estimate) for name, table in tables.items()] == [
        ("mart.parent", "table", 12), ("mart.child", "table", 12), ("mart.v", "view", None),
        ("mart.m", "materialized_view", None), ("raw.files", "foreign", None), ("us.sales", "table", 12),
    ]  # fmt: skip
    parent, child, view, materialized, *_ = tables.values()
    assert (parent.comment, parent.primary_key, child.comment) == ('All "x" é', ("id", "region"), None)
    assert [(c.name, c.type.value, c.nullable, c.comment, c.default, c.generated) for c in parent.columns] == [
        ("id", "number", False, "The id", "1", False),
        ("region", "string", True, None, None, False),
        ("tags", "string", True, None, None, False),
        ("twice", "number", True, None, None, True),
    ]
    assert child.foreign_keys == (
        ForeignKey(("id",), TableRef("raw", "files"), ("key",), "child.away"),
        ForeignKey(("region", "id"), parent.ref, ("region", "id"), "child.fk"),
    )
    (problem,) = problems
    assert (problem.ref, problem.what, "child.lost" in problem.message) == (child.ref, "foreign key", True)
    assert (view.view_sql, materialized.view_sql) == ("SELECT 2", "SELECT 3")


def test_bigquery_sends_one_statement_for_each_location_and_kind() -> None:
    warehouse = bigquery()
    read_all(warehouse, BigQueryCatalog, "my-project", DATASETS)
    kinds = ["tables", "table comments", "row counts", "column comments", "columns", "keys", "foreign keys", "views"]
    assert len(warehouse.statements) == 2 * len(kinds)
    assert warehouse.statements[0] == (
        "SELECT table_schema, table_name, table_type, IF(table_type = 'MATERIALIZED VIEW', ddl, NULL) AS ddl\n"
        "FROM `my-project`.`mart`.INFORMATION_SCHEMA.TABLES\nUNION ALL\n"
        "SELECT table_schema, table_name, table_type, IF(table_type = 'MATERIALIZED VIEW', ddl, NULL) AS ddl\n"
        "FROM `my-project`.`raw`.INFORMATION_SCHEMA.TABLES"
    )
    assert "`us`" in warehouse.statements[1]


def test_a_closed_dataset_costs_only_itself() -> None:
    warehouse = bigquery()
    warehouse.broken = {"raw.tables", "mart.key_column_usage"}
    tables, problems = read_all(warehouse, BigQueryCatalog, "my-project", DATASETS)
    assert list(tables) == ["mart.parent", "mart.child", "mart.v", "mart.m", "us.sales"]
    assert [(problem.ref, problem.what, problem.message) for problem in problems] == [
        (None, "schema", "dataset `raw`: Access Denied: no rights"),
        (None, "constraints", "dataset `mart`: Access Denied: no rights"),
        (None, "foreign keys", "dataset `mart`: Access Denied: no rights"),
    ]


def test_a_lost_connection_is_no_closed_dataset() -> None:
    def lost(sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        raise ClientError("gone", ConnectionError())

    with pytest.raises(ClientError):
        BigQueryCatalog(lost, PartReader(lost, ClientError), "p", DATASETS).relations()


@pytest.mark.table(
    ("make", "catalog", "place", "parts"),
    [
        (snowflake, SnowflakeCatalog, ("Cat",),
         {"SHOW PRIMARY KEYS": "constraints", "SHOW IMPORTED KEYS": "foreign keys", "views": "view definitions"}),
        (databricks, DatabricksCatalog, ("Cat",),
         {"table_constraints": "constraints", "referential_constraints": "foreign keys",
          "views": "view definitions"}),
        (trino, TrinoCatalog, ("Cat",),
         {"materialized_views": "materialized views", "table_comments": "table comments",
          "views": "view definitions"}),
        (bigquery, BigQueryCatalog, ("p", DATASETS),
         {"mart.table_options": "table comments", "mart.__tables__": "row counts", "mart.views": "view definitions"}),
    ],
)  # fmt: skip
def test_a_part_that_cannot_be_read_costs_only_itself(
    make: Callable[[], Warehouse], catalog: Any, place: tuple[Any, ...], parts: dict[str, str]
) -> None:
    warehouse = make()
    whole = make()
    warehouse.broken = set(parts)
    tables, problems = read_all(warehouse, catalog, *place)
    assert {problem.what for problem in problems if problem.ref is None} == set(parts.values())
    assert list(tables) == list(read_all(whole, catalog, *place)[0])
    assert all(table.columns for table in tables.values())


@pytest.mark.table("make", [snowflake, databricks, trino])
def test_a_table_without_columns_is_a_problem_of_its_own(make: Callable[[], Warehouse]) -> None:
    warehouse = make()
    warehouse.database.execute("DELETE FROM columns WHERE table_name = 'v'")
    catalog = {"snowflake": SnowflakeCatalog, "databricks": DatabricksCatalog, "trino": TrinoCatalog}
    tables, problems = read_all(warehouse, catalog[warehouse.dialect], "Cat")
    assert "mart.v" not in tables
    assert [(str(problem.ref), problem.what) for problem in problems] == [("mart.v", TableKind.VIEW.value)]


@pytest.mark.table(
    ("dialect", "sql"),
    [
        ("snowflake", IDENTITY), ("snowflake", ROLES), ("trino", privileges_sql("Cat")),
        ("databricks", members_sql(["a"])),
    ],
)  # fmt: skip
def test_other_statements_of_ours_read_too(dialect: str, sql: str) -> None:
    require_query(sql, dialect, "here")


@pytest.mark.table(
    ("literal", "text"),
    [
        ('"plain"', "plain"), ("'single'", "single"), (r'"a\"b\\c"', 'a"b\\c'), (r'"a\nb\tc"', "a\nb\tc"),
        (r'"\x41\u00e9\U0001F600\101"', "Aé😀A"), (r"'it\'s'", "it's"), ('""', ""), (r'"\?\`"', "?`"),
    ],
)  # fmt: skip
def test_a_string_of_googlesql_is_read(literal: str, text: str) -> None:
    assert unquoted(literal) == text


def test_what_says_that_tables_have_changed() -> None:
    warehouse = snowflake()
    found = SnowflakeCatalog(warehouse, PartReader(warehouse, ClientError), "Cat").changes()
    texts = {(schema, name): text for schema, name, text in found}
    assert set(texts) == {("mart", "parent"), ("mart", "child")}, "a file of an external table changes unnoticed"
    assert texts["mart", "parent"] == "1704067200000000000 1704164645678000000 12", "in no form that a parameter sets"
    assert len(warehouse.statements) == 1
    warehouse = bigquery()
    catalog = BigQueryCatalog(
        warehouse, PartReader(warehouse, ClientError), "p", {"mart": "EU", "raw": "EU", "us": "US"}
    )
    texts = {(schema, name): text for schema, name, text in catalog.changes()}
    assert set(texts) == {("mart", "parent"), ("mart", "child"), ("us", "sales")}
    assert texts["us", "sales"] == "1 1700000000000 12 64"
    assert len(warehouse.statements) == 2, "one for each location"
