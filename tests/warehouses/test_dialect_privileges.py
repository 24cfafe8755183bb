"""What a role may not read, and the GRANT that is named for it."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.project.config.connections import Database, model_of
from ktx_cli.warehouses.dialect import NAMED_TABLES, access_gap
from ktx_cli.warehouses.port import ConnectionTest, TableRef

A, B = TableRef("public", "a"), TableRef("Sales", "b")
PG = {"driver": "postgres", "url": "env:U"}
MYSQL = {"driver": "mysql", "url": "env:U"}
KINDS = {driver: model_of(driver) for driver in ("postgres", "mysql", "sqlserver", "sqlite")}


def gap(fields: dict[str, Any], tables: int, closed: tuple[TableRef, ...], user: str = "reader") -> Any:
    entry: Database = KINDS[fields["driver"]].model_validate(fields)
    return access_gap("w", entry, ConnectionTest(1.0, "1", tables, user=user, closed=closed, database="shop"))


@pytest.mark.parametrize(
    ("fields", "tables", "closed"),
    [(PG, 2, ()), (PG, 3, (A, B)), (MYSQL, 1, ()), ({"driver": "sqlite", "path": "a"}, 1, ())],
)
def test_no_gap(fields: dict[str, Any], tables: int, closed: tuple[TableRef, ...]) -> None:
    assert gap(fields, tables, closed) is None


@pytest.mark.parametrize(
    ("fields", "tables", "closed", "nothing", "hint"),
    [
        (
            PG,
            2,
            (A, B),
            True,
            'GRANT USAGE ON SCHEMA "public", "Sales" TO "reader"; '
            'GRANT SELECT ON ALL TABLES IN SCHEMA "public", "Sales" TO "reader"',
        ),
        (
            {**PG, "enabled_tables": ["public.a", "c"]},
            2,
            (A,),
            False,
            'GRANT USAGE ON SCHEMA "public" TO "reader"; GRANT SELECT ON "public"."a" TO "reader"',
        ),
        (
            {**PG, "enabled_tables": ["public.a"]},
            1,
            (A,),
            True,
            'GRANT USAGE ON SCHEMA "public" TO "reader"; GRANT SELECT ON "public"."a" TO "reader"',
        ),
        (PG, 0, (), True, "create a table, or point connections.w to another database"),
        ({**PG, "schemas": ["x"], "include": ["y*"]}, 0, (), True, "check `schemas`, `include` of connections.w"),
    ],
)
def test_gap(fields: dict[str, Any], tables: int, closed: tuple[TableRef, ...], nothing: bool, hint: str) -> None:
    found = gap(fields, tables, closed)
    assert found.nothing is nothing
    assert hint in found.hint
    assert all(f"`{ref}`" in found.message for ref in closed)


@pytest.mark.parametrize(
    ("fields", "tables", "closed", "hint"),
    [
        (MYSQL, 1, (A,), "GRANT SELECT ON `public`.* TO 'me'@'%'"),
        ({**MYSQL, "enabled_tables": ["a", "b"]}, 2, (A, B), "SELECT ON `public`.`a` TO 'me'@'%'; GRANT SELECT ON"),
        (MYSQL, 0, (), "GRANT SELECT ON `shop`.* TO 'me'@'%'"),
        ({**MYSQL, "exclude": ["x"]}, 0, (), "check `exclude` of connections.w in ktx.yaml, or as an administrator"),
    ],
)
def test_gap_of_mysql(fields: dict[str, Any], tables: int, closed: tuple[TableRef, ...], hint: str) -> None:
    assert hint in gap(fields, tables, closed, "me@%").hint


def test_gap_of_sql_server_names_no_right_on_a_schema_that_it_does_not_have() -> None:
    fields = {"driver": "sqlserver", "url": "env:U"}
    assert gap(fields, 1, (A,), "me").hint == "run as the owner of the tables: GRANT SELECT ON SCHEMA::[public] TO [me]"
    named = gap({**fields, "enabled_tables": ["public.a"]}, 1, (A,), "me")
    assert named.hint == "run as the owner of the tables: GRANT SELECT ON [public].[a] TO [me]"


def test_names_are_quoted() -> None:
    assert '"a""b"."c.d" TO "o\'x"' in gap({**PG, "enabled_tables": ["x"]}, 1, (TableRef('a"b', "c.d"),), "o'x").hint
    assert "`a``b`.* TO 'o''x'@'h'" in gap(MYSQL, 1, (TableRef("a`b", "c"),), "o'x@h").hint


def test_many_tables_are_granted_by_schema() -> None:
    closed = tuple(TableRef("s", f"t{number}") for number in range(NAMED_TABLES + 1))
    assert "ALL TABLES IN SCHEMA" in gap({**PG, "enabled_tables": ["x"]}, len(closed), closed).hint
