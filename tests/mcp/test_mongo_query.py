"""`mongo_query`: where it is offered, what it answers, and that it shows nothing that is hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.scan.snapshot import manifest_text, table_file
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef
from tests.mcp.conftest import Company
from tests.warehouses.mongo_server import READING, MongoEmulator, emulator

MANIFEST = """\
tables:
  orders:
    table: shop.orders
    columns:
      - {name: _id, type: number, pk: true}
      - {name: status, type: string}
      - {name: email, type: string}
      - {name: address.city, type: string}
      - {name: address.street, type: string}
  orders__items:
    table: shop.orders__items
    columns:
      - {name: _parent_id, type: number}
      - {name: sku, type: string}
      - {name: cost, type: number}
  staff:
    table: shop.staff
    columns: [{name: _id, type: number}, {name: pay, type: number}]
"""
SCANNED = {
    "orders": ("_id", "status", "email", "address.city", "address.street"),
    "orders__items": ("_parent_id", "_index", "sku", "cost"),
    "staff": ("_id", "pay"),
    "all_orders": ("_id",),
}
HIDING = {
    "orders": "column_overrides: [{name: email, visibility: hidden}, {name: address.street, visibility: hidden}]",
    "orders__items": "column_overrides: [{name: cost, visibility: hidden}]",
    "staff": "policies: [{name: own, filter: '_id = {{ user.id }}'}]",
}
ONE = [{"$count": "n"}]
BY_ID = {"localField": "n", "foreignField": "_id"}
BY_EMAIL = {"localField": "n", "foreignField": "email"}
COUNT = [{"$group": {"_id": "$status", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]


@pytest.fixture(scope="module")
def server() -> Iterator[MongoEmulator]:
    with emulator() as running:
        orders = [
            {"_id": 1, "status": "paid", "email": "ada@example.com", "address": {"city": "Oslo", "street": "Ada 1"}},
            {"_id": 2, "status": "paid", "items": [{"sku": "a", "cost": 5}]},
            {"_id": 3, "status": "open"},
        ]
        running.client["shop"]["orders"].insert_many(orders)
        running.client["shop"]["staff"].insert_one({"_id": 1, "pay": 9})
        running.client["shop"]["unseen"].insert_one({"_id": 1, "email": "bo@example.com"})
        running.views["shop", "all_orders"] = ("orders", [])
        yield running
        assert running.sent() <= READING


@pytest.fixture
def mongo(server: MongoEmulator, tmp_path: Path) -> Iterator[Company]:
    made = Company(tmp_path / "mongo")
    settings = {"driver": "mongodb", **server.settings("shop")}
    made.write("ktx.yaml", json.dumps({"connections": {"shop": settings}}))
    made.write("semantic-layer/shop/_schema/shop.yaml", MANIFEST)
    files = []
    for name, names in SCANNED.items():
        kind = TableKind.VIEW if name == "all_orders" else TableKind.TABLE
        columns = tuple(Column(each, "VARCHAR", SemanticType.STRING) for each in names)
        files.append(table_file(Table(TableRef("shop", name), kind, columns)))
    for each in files:
        made.write(f"raw-sources/shop/live-database/{each.path}", each.content.decode())
    listing = manifest_text("shop", "mongodb", {each.path: each.sha256 for each in files})
    made.write("raw-sources/shop/live-database/manifest.yaml", listing)
    yield made
    made.close()


def hide(company: Company) -> None:
    for name, text in HIDING.items():
        company.source(name, f"name: {name}\n{text}\n")


async def _tools(client: Any) -> set[str]:
    return {each.name for each in (await client.list_tools()).tools}


def test_it_is_offered_where_a_connection_runs_pipelines(mongo: Company, company: Company) -> None:
    for profile in Profile:
        assert "mongo_query" in mongo.client(_tools, profile=profile)
        assert "mongo_query" not in company.client(_tools, profile=profile)
    error = company.call("mongo_query", {"collection": "orders", "pipeline": []}).error
    assert error is not None and "no connection with aggregation pipelines" in error["message"]
    error = company.call("mongo_query", {"collection": "orders", "pipeline": [], "connection": "shop"}).error
    assert error is not None and "(sqlite) has no aggregation pipelines" in error["message"]


def test_an_answer(mongo: Company) -> None:
    found = mongo.call("mongo_query", {"collection": "orders", "pipeline": COUNT})
    assert found.error is None
    assert {key: found.data[key] for key in ("connection", "collection", "columns", "rows", "row_count", "cut")} == {
        "connection": "shop",
        "collection": "orders",
        "columns": ["_id", "n"],
        "rows": [["open", 1], ["paid", 2]],
        "row_count": 2,
        "cut": None,
    }
    asked = {"collection": "shop.orders", "pipeline": [{"$sort": {"_id": 1}}], "max_rows": 1}
    found = mongo.call("mongo_query", asked)
    assert (found.data["cut"], found.data["rows"][0][2]) == ("rows", "ada@example.com")


def test_pages(mongo: Company) -> None:
    asked = {"collection": "orders", "pipeline": [{"$project": {"_id": 1}}, {"$sort": {"_id": 1}}]}
    found = mongo.call("mongo_query", {**asked, "offset": 2})
    assert found.data["rows"] == [[3]]


@pytest.mark.parametrize(
    "pipeline",
    [
        [{"$out": "x"}],
        [{"$merge": {"into": "x"}}],
        [{"$match": {"$where": "1"}}],
        [{"$lookup": {"from": "gone", "as": "x"}}],
    ],
)  # fmt: skip
def test_what_is_refused(pipeline: list[Any], mongo: Company, server: MongoEmulator) -> None:
    server.commands.clear()
    found = mongo.call("mongo_query", {"collection": "orders", "pipeline": pipeline})
    assert found.error is not None and found.error["hint"]
    assert "aggregate" not in server.sent()


def test_the_policy_of_a_connection_applies(mongo: Company, server: MongoEmulator) -> None:
    settings = {"driver": "mongodb", **server.settings("shop"), "query_policy": "semantic-layer-only"}
    mongo.write("ktx.yaml", json.dumps({"connections": {"shop": settings}}))
    error = mongo.call("mongo_query", {"collection": "orders", "pipeline": COUNT}).error
    assert error is not None and "semantic-layer-only" in error["message"]


@pytest.mark.parametrize(
    ("collection", "pipeline"),
    [
        ("orders", []),
        ("shop.orders", []),
        ("ORDERS", []),
        ("orders", [{"$limit": 1}]),
        ("orders", [{"$project": {"email": 1}}]),
        ("orders", [{"$project": {"EMAIL": 1}}]),
        ("orders", [{"$project": {"x": "$email"}}]),
        ("orders", [{"$project": {"status": 0}}]),
        ("orders", [{"$project": {"address": {"city": 0}}}]),
        ("orders", [{"$project": {"line": {"x": 1, "y": 0.0}}}]),
        ("orders", [{"$match": {"email": {"$gt": "b"}}}, {"$count": "n"}]),
        ("orders", [{"$match": {"$expr": {"$eq": ["$email", "x"]}}}, {"$count": "n"}]),
        ("orders", [{"$sort": {"email": 1}}, {"$project": {"_id": 1}}]),
        ("orders", [{"$group": {"_id": "$email"}}]),
        ("orders", [{"$group": {"_id": None, "x": {"$push": "$$ROOT"}}}]),
        ("orders", [{"$addFields": {"x": "$email"}}, {"$project": {"x": 1}}]),
        ("orders", [{"$project": {"address": 1}}]),
        ("orders", [{"$project": {"address.street": 1}}]),
        ("orders", [{"$match": {"address": {"$gt": {}}}}, {"$count": "n"}]),
        ("orders", [{"$match": {"address.street.x": 1}}, {"$count": "n"}]),
        ("orders", [{"$project": {"items": 1}}]),
        ("orders", [{"$project": {"items.cost": 1}}]),
        ("orders", [{"$match": {"items.0.cost": 5}}, {"$count": "n"}]),
        ("orders", [{"$unwind": "$items"}, {"$group": {"_id": "$items.cost"}}]),
        ("orders", [{"$facet": {"a": [{"$limit": 1}]}}]),
        ("orders", [{"$count": "n"}, {"$lookup": {"from": "orders", **BY_ID, "as": "x"}}]),
        ("orders", [{"$count": "n"}, {"$lookup": {"from": "staff", "pipeline": ONE, "as": "x"}}]),
        ("orders", [{"$project": {"_id": 1}}, {"$unionWith": "orders"}]),
        ("orders", [{"$count": "n"}, {"$unionWith": {"coll": "orders", "pipeline": [{"$project": {"email": 1}}]}}]),
        ("orders", [{"$count": "n"}, {"$lookup": {"from": "orders", **BY_EMAIL, "pipeline": ONE, "as": "x"}}]),
        ("staff", [{"$count": "n"}]),
        ("all_orders", [{"$count": "n"}]),
        ("unseen", [{"$count": "n"}]),
        ("unseen", []),
    ],
)  # fmt: skip
def test_hidden_data_stays_hidden(collection: str, pipeline: list[Any], mongo: Company, server: MongoEmulator) -> None:
    hide(mongo)
    server.commands.clear()
    found = mongo.call("mongo_query", {"collection": collection, "pipeline": pipeline})
    assert found.error is not None, found.text
    assert found.error["code"] == "hidden", found.error
    assert "aggregate" not in server.sent() and "ada@" not in found.text


@pytest.mark.parametrize(
    "pipeline",
    [
        COUNT,
        [{"$match": {"status": "paid"}}, {"$count": "n"}],
        [{"$project": {"status": 1, "address.city": 1, "items.sku": 1}}],
        [{"$project": {"status": 1}}, {"$addFields": {"x": "$$ROOT"}}],
        [{"$facet": {"a": [{"$count": "n"}], "b": [{"$group": {"_id": "$status"}}]}}],
    ],
)
def test_what_is_not_hidden_can_be_read(pipeline: list[Any], mongo: Company) -> None:
    hide(mongo)
    found = mongo.call("mongo_query", {"collection": "orders", "pipeline": pipeline})
    assert found.error is None, found.error
    assert "ada@" not in found.text


def test_a_broken_file_closes_its_collection(mongo: Company) -> None:
    mongo.source("orders", "name: orders\ntable: shop.orders\ncolumns: [{name: email, visibility: hiddn}]\n")
    found = mongo.call("mongo_query", {"collection": "orders", "pipeline": []})
    assert found.error is not None and found.error["code"] == "hidden"


def test_with_privacy_only_counts_are_returned(mongo: Company) -> None:
    found = mongo.call("mongo_query", {"collection": "orders", "pipeline": COUNT}, privacy=True)
    assert found.data["rows"] == [["(hidden)", 1], ["(hidden)", 2]]
    found = mongo.call("mongo_query", {"collection": "orders", "pipeline": []}, privacy=True)
    assert (found.data["rows"], found.data["row_count"]) == ([], 3)
    assert "Oslo" not in found.text and "ada@" not in found.text
    unwound = [{"$unwind": "$items"}, {"$count": "n"}]
    error = mongo.call("mongo_query", {"collection": "orders", "pipeline": unwound}, privacy=True).error
    assert error is not None and error["code"] == "hidden"


def test_a_statement_with_sql_obeys_the_same_rules(mongo: Company) -> None:
    hide(mongo)
    assert mongo.call("sql_execution", {"sql": "SELECT email FROM shop.orders"}).error is not None
    assert mongo.call("sql_execution", {"sql": "SELECT * FROM shop.orders"}).error is not None
    assert mongo.call("sql_execution", {"sql": 'SELECT "address.street" FROM shop.orders'}).error is not None
    assert mongo.call("sql_execution", {"sql": "SELECT cost FROM shop.orders__items"}).error is not None
    assert mongo.call("sql_execution", {"sql": "SELECT sku FROM shop.orders__items"}).data["rows"] == [["a"]]


CHANGED = {
    "a text instead of a document": {"_id": 9, "address": "Ada 1"},
    "numbers instead of documents": {"_id": 9, "items": [1]},
    "a list of documents": {"_id": 9, "address": [{"street": "Ada 1"}]},
    "a key with a dot": {"_id": 9, "address": {"a.b": 1, "street": "Ada 1"}},
    "a new field": {"_id": 9, "note": "Ada 1"},
}


@pytest.mark.parametrize("document", CHANGED.values(), ids=CHANGED)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT address FROM orders",
        "SELECT ADDRESS FROM shop.orders",
        "SELECT address::VARCHAR AS x FROM orders",
        "SELECT o.address FROM orders AS o",
        "SELECT (o).address FROM orders AS o",
        "SELECT count(*) FROM orders WHERE address = 'x'",
        "SELECT items FROM orders",
        "SELECT items FROM orders JOIN orders__items AS items ON true",
        "SELECT json_extract(items, '$[0].cost') FROM orders",
        'SELECT "items.0.cost" FROM orders',
        'SELECT "address.street.x" FROM orders',
        "SELECT note FROM orders",
        "SELECT note AS note FROM orders",
        "SELECT n FROM (SELECT note AS n FROM orders)",
        'SELECT "cost.x" FROM orders__items',
        "SELECT orders FROM orders",
        "FROM orders",
    ],
)
def test_documents_that_change_show_nothing_hidden(
    sql: str, document: dict[str, Any], mongo: Company, server: MongoEmulator
) -> None:
    """A parent of hidden columns, and a column that no scan found, are refused, whatever the documents are."""
    hide(mongo)
    orders = server.client["shop"]["orders"]
    orders.insert_one(dict(document))
    try:
        found = mongo.call("sql_execution", {"sql": sql})
    finally:
        orders.delete_one({"_id": 9})
    assert found.error is not None and found.error["code"] == "hidden", found.text
    assert "Ada 1" not in found.text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT status, count(*) AS n FROM orders GROUP BY status ORDER BY n DESC, status",
        'SELECT "address.city" FROM orders ORDER BY _id',
        "SELECT items.sku, o.status FROM orders AS o JOIN orders__items AS items ON items._parent_id = o._id",
        "WITH c AS (SELECT status AS s FROM orders) SELECT s FROM c",
        "SELECT count(*) FROM orders",
    ],
)
def test_columns_beside_hidden_ones_can_be_read(sql: str, mongo: Company) -> None:
    hide(mongo)
    found = mongo.call("sql_execution", {"sql": sql})
    assert found.error is None, found.error


def test_a_hidden_array_hides_its_table(mongo: Company) -> None:
    manifest = MANIFEST.replace("      - {name: email", "      - {name: items, type: string}\n      - {name: email")
    mongo.write("semantic-layer/shop/_schema/shop.yaml", manifest)
    mongo.source("orders", "name: orders\ncolumn_overrides: [{name: items, visibility: hidden}]\n")
    assert mongo.call("sql_execution", {"sql": "SELECT sku FROM orders__items"}).error is not None


@pytest.mark.parametrize("flag", [{"$numberDecimal": "0"}, {"$numberDecimal": "1"}, {"$numberDouble": "NaN"}, None])
def test_a_projection_needs_clear_flags(flag: Any, mongo: Company, server: MongoEmulator) -> None:
    """MongoDB understands a Decimal128 of 0 as an exclusion, which returns all other fields."""
    server.commands.clear()
    inner = [{"$project": {"address": {"city": flag}}}]
    for pipeline in ([{"$project": {"status": flag}}], inner, [{"$facet": {"a": inner}}]):
        found = mongo.call("mongo_query", {"collection": "orders", "pipeline": pipeline})
        assert found.error is not None and found.error["hint"].startswith("use 1 to keep"), found.error
    assert "aggregate" not in server.sent()
