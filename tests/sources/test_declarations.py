"""What LookML, Metabase and a query history declare about tables."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from ktx_cli.documents import RawFile, Snapshot
from ktx_cli.scan import Declarations, DeclaredJoin
from ktx_cli.sources.lookml.source import LookMlSource
from ktx_cli.sources.metabase.fetch import database_document
from ktx_cli.sources.metabase.source import MetabaseSource
from ktx_cli.sources.query_history.source import QueryHistorySource


def snapshot(files: dict[str, str]) -> Snapshot:
    contents = {path: text.encode() for path, text in files.items()}
    return Snapshot({
        path: RawFile(path, hashlib.sha256(content).hexdigest(), len(content), content.__bytes__)
        for path, content in contents.items()
    })  # fmt: skip


def both(child: str, own: str, parent: str, theirs: str) -> set[DeclaredJoin]:
    one = DeclaredJoin(child, tuple(own.split()), parent, tuple(theirs.split()))
    return {one, DeclaredJoin(one.parent, one.parent_columns, one.child, one.child_columns)}


VIEWS = """\
view: orders {
  sql_table_name: shop.fct_orders ;;
  dimension: id { primary_key: yes sql: ${TABLE}.order_id ;; }
  dimension: customer { sql: ${TABLE}."customer_id" ;; }
  dimension: region { sql: upper(${TABLE}.region) ;; }
  dimension: shop {}
}
view: customers { dimension: id { primary_key: yes } dimension: region {} }
view: top { derived_table: { sql: select 1 ;; } dimension: id { primary_key: yes } }
"""
EXPLORES = {
    "join: customers { sql_on: ${orders.customer} = ${customers.id} ;; }": ("customer_id", "id"),
    "join: customers { sql_on: ${customers.id}=${orders.customer} ;; type: inner }": ("customer_id", "id"),
    "join: buyers { from: customers sql_on: ${orders.customer} = ${buyers.id} ;; }": ("customer_id", "id"),
    "join: customers { foreign_key: customer }": ("customer_id", "id"),
    "join: customers { foreign_key: orders.shop }": ("shop", "id"),
    "join: customers { sql_on: ${orders.customer} = ${customers.id} AND ${orders.shop} = ${customers.region} ;; }": (
        "customer_id shop", "id region",
    ),
    "join: customers { sql_on: ${orders.region} = ${customers.region} ;; }": None,
    "join: customers { sql_on: ${orders.customer} > ${customers.id} ;; }": None,
    "join: customers { sql_on: (${orders.customer} = ${customers.id}) ;; }": ("customer_id", "id"),
    "join: customers { sql_on: NOT (${orders.customer} = ${customers.id}) ;; }": None,
    "join: customers { sql_on: ${orders.customer} = ${customers.id} OR 1 = 1 ;; }": None,
    "join: customers { sql_on: ${orders.customer} = ${customers.id} + 5 ;; }": None,
    "join: customers { sql_on: ${orders.customer} = ${customers.id} AND ${orders.shop} = 'x' ;; }": None,
    "join: customers { relationship: many_to_many sql_on: ${orders.customer} = ${customers.id} ;; }": None,
    "join: top { sql_on: ${orders.customer} = ${top.id} ;; }": None,
    "join: nowhere { sql_on: ${orders.customer} = ${nowhere.id} ;; }": None,
    "join: customers { type: cross }": None,
}  # fmt: skip


@pytest.mark.table(("join", "expected"), EXPLORES.items())
def test_joins_of_explores(join: str, expected: tuple[str, str] | None) -> None:
    text = f"{VIEWS}explore: orders {{ {join} }}\n"
    found = LookMlSource().declarations(None, snapshot({"shop.lkml": text}))
    assert set(found.joins) == (set() if expected is None else both("orders", expected[0], "customers", expected[1]))


def test_views_are_tables_with_keys() -> None:
    found = LookMlSource().declarations(None, snapshot({"shop.lkml": VIEWS})).tables
    assert {name: (each.schema, each.name, each.keys) for name, each in found.items()} == {
        "orders": ("shop", "fct_orders", (("order_id",),)),
        "customers": ("", "customers", (("id",),)),
    }


def test_foreign_keys_in_metabase() -> None:
    fields = {
        1: [{"id": 10, "name": "id"}, {"id": 11, "name": "customer_id", "fk_target_field_id": 20}],
        2: [{"id": 20, "name": "key"}, {"id": 21, "name": "gone", "fk_target_field_id": 99}],
        3: [{"id": 30, "name": "old", "fk_target_field_id": 20, "active": False}],
    }
    names = {1: "orders", 2: "customers", 3: "items"}
    tables = [{"id": id, "name": names[id], "schema": "shop", "fields": each} for id, each in fields.items()]
    document = json.dumps(database_document({"id": 7, "name": "Shop"}, "warehouse", tables))
    found = MetabaseSource().declarations(None, snapshot({"databases/7.json": document, "cards/1.json": "{}"}))
    assert found.joins == (DeclaredJoin("1", ("customer_id",), "2", ("key",)),)
    assert (found.tool, found.tables["2"].name, found.tables["2"].schema) == ("metabase", "customers", "shop")


def history(*tables: tuple[str, str | None, list[tuple[str, list[list[str]]]]]) -> Declarations:
    documents: dict[str, Any] = {
        f"tables/{name}.json": {
            "table": name, "source": source,
            "joins": [{"with": other, "source": other, "on": on, "frequency": "low"} for other, on in joins],
        }
        for name, source, joins in tables
    }  # fmt: skip
    files = {path: json.dumps(document) for path, document in documents.items()}
    return QueryHistorySource().declarations(None, snapshot({**files, "patterns/x.json": "{}"}))


def test_joins_in_queries() -> None:
    found = history(
        ("shop.orders", "orders", [("shop.customers", [["customer_id", "id"]]), ("crm.people", [["mail", "mail"]])]),
        ("shop.customers", "customers", []),
        ("crm.people", None, []),
    )
    assert found.joins == (DeclaredJoin("shop.orders", ("customer_id",), "shop.customers", ("id",)),)
    assert {name: (each.schema, each.name) for name, each in found.tables.items()} == {
        "shop.orders": ("shop", "orders"), "shop.customers": ("shop", "customers"),
    }  # fmt: skip
