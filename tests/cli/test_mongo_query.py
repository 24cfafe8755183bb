"""A project on MongoDB: scanned, asked by SQL, by the semantic layer and by pipelines, and ingested."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from bson import Decimal128, ObjectId

from ktx_cli.core import yaml
from tests.warehouses.mongo_server import READING, MongoEmulator, emulator

Run = Callable[..., Any]
COUNT = '[{"$group": {"_id": "$status", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]'


@pytest.fixture
def server() -> Iterator[MongoEmulator]:
    with emulator() as running:
        ids = [ObjectId(f"{number:024x}") for number in range(1, 31)]
        customers = [
            {"_id": each, "country": ("DE", "NO", None)[place % 3], "contact": {"email": f"a{place}@example.com"}}
            for place, each in enumerate(ids)
        ]
        orders = [
            {
                "_id": number,
                "customer_id": ids[number % 30],
                "status": "paid" if number % 3 else "open",
                "amount": Decimal128(f"{number}.50"),
                "placed_at": datetime(2026, 1 + number % 6, 1),
                "items": [{"sku": f"s{place}", "quantity": place + 1} for place in range(number % 3)],
            }
            for number in range(300)
        ]
        running.client["shop"]["customers"].insert_many(customers)
        running.client["shop"]["orders"].insert_many(orders)
        yield running
        assert running.sent() <= READING, "ktx sent another command"


@pytest.fixture
def project(server: MongoEmulator, work: Path) -> Path:
    settings = {"driver": "mongodb", **server.settings("shop")}
    config = {"connections": {"shop": settings}, "storage": {"git": {"author": "ktx <ktx@example.com>"}}}
    (work / "ktx.yaml").write_text(yaml.dump(config))
    return work


def test_a_project_on_it(ktx: Run, project: Path) -> None:
    scanned = ktx("scan", "shop", "--depth", "profile", "--json")
    assert scanned.code == 0, scanned
    manifest = yaml.load((project / "semantic-layer/shop/_schema/shop.yaml").read_bytes(), where="")["tables"]
    assert set(manifest) == {"customers", "orders", "orders__items"}
    joins = {(join["to"], join["on"], join["source"]) for join in manifest["orders"]["joins"]}
    assert joins == {
        ("customers", "customer_id = customers._id", "inferred"),
        ("orders__items", "_id = orders__items._parent_id", "formal"),
    }
    overlay = project / "semantic-layer" / "shop" / "orders.yaml"
    overlay.write_text("name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount)}\n")
    asked = ktx("sl", "query", "-m", "orders.revenue", "-d", "customers.country", "--verify", "--json")
    assert asked.code == 0, asked
    sums = {country: sum(n + 0.5 for n in range(300) if (n % 30) % 3 == place)
            for place, country in enumerate(("DE", "NO", None))}  # fmt: skip
    assert {row[0]: float(row[1]) for row in asked.data["rows"]} == sums
    assert asked.data["receipt"]["verified"]["mismatches"] == []
    counted = ktx("sql", "SELECT count(*) AS n FROM shop.orders__items WHERE quantity = 2", "--json")
    assert counted.data["rows"] == [[100]]
    again = ktx("ingest", "--no-llm", "--json")
    assert (again.code, again.data["connections"][0]["status"]) == (0, "unchanged"), again
    assert ktx("connection", "test", "shop").code == 0


def test_a_pipeline(ktx: Run, project: Path) -> None:
    answer = ktx("mongo-query", "orders", COUNT, "--json")
    assert answer.code == 0, answer
    assert answer.envelope["schema"] == "ktx/mongo-query/v1"
    assert answer.data == {
        "connection": "shop",
        "collection": "orders",
        "pipeline": json.loads(COUNT),
        "columns": ["_id", "n"],
        "rows": [["open", 100], ["paid", 200]],
        "row_count": 2,
        "truncated": False,
        "cut": None,
    }
    (project / "count.json").write_text(COUNT)
    for words in (["--file", "count.json"], ["-f", "count.json", "-c", "shop"]):
        assert ktx("mongo-query", "orders", *words, "--format", "csv").out == "_id,n\nopen,100\npaid,200\n"
    assert ktx("mongo-query", "orders", "-", "--format", "csv", input=COUNT).out == "_id,n\nopen,100\npaid,200\n"
    cut = ktx("mongo-query", "orders", "[]", "--max-rows", "2", "--json")
    assert (len(cut.data["rows"]), cut.data["cut"]) == (2, "rows")
    assert cut.envelope["warnings"][0]["code"] == "truncated"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["orders"], 2, "a pipeline is required"),
        (["orders", "[]", "--file", "x.json"], 2, "cannot be used together"),
        (["orders", "[{]"], 1, "not valid JSON"),
        (["orders", '[{"$out": "x"}]'], 1, "the stage `$out` is not allowed"),
        (["orders", '[{"$lookup": {"from": "gone", "as": "x"}}]'], 1, "`shop.gone` does not exist"),
        (["gone", "[]"], 1, "`shop.gone` does not exist"),
        (["orders", "[]", "-c", "nowhere"], 2, "nowhere"),
    ],
)
def test_what_is_refused(
    words: list[str], code: int, told: str, ktx: Run, project: Path, server: MongoEmulator
) -> None:
    answer = ktx("mongo-query", *words, "--json")
    assert answer.code == code, answer
    assert told in answer.envelope["error"]["message"]
    assert answer.envelope["error"]["hint"]
    assert "aggregate" not in server.sent()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["orders", '{"paid": true}'], """for example: '[{"$match": {"paid": true}}]'"""),
        (["orders", "[{paid: true}]"], "write keys and texts in double quotes"),
        (["orders__items", "[]"], 'use {"$unwind": "$items"} on `orders`'),
        (["ordrs", "[]"], "did you mean `orders`?"),
        (["nothing", "[]"], "collections: customers, orders"),
    ],
)
def test_hints(words: list[str], hint: str, ktx: Run, project: Path) -> None:
    answer = ktx("mongo-query", *words, "--json")
    assert answer.code == 1, answer
    assert hint in answer.envelope["error"]["hint"]


@pytest.mark.parametrize(
    ("sql", "told", "hint"),
    [
        ("SELECT * FROM nothing", "the collection `nothing` does not exist", "collections: customers, orders"),
        ("SELECT * FROM ordrs", "the collection `ordrs` does not exist", "did you mean `orders`?"),
        ("SELECT contact.email FROM customers", "`contact.email`", '"contact.email"'),
        ("SELECT c.contact.email FROM customers c", "`contact.email`", '"contact.email"'),
        ("SELECT items FROM orders", "`items` is not a column", "SELECT from `orders__items`"),
        ("SELECT status + 1 FROM orders WHERE placed_at > 3", "", "MongoDB"),
        ("SELECT statsu FROM orders", "the column `statsu` does not exist", "did you mean `status`?"),
        ('SELECT "contact.email", contry FROM customers', "the column `contry` does not", "did you mean `country`?"),
        ("SELECT o.status, o.items AS i FROM orders AS o", "`items` is not a column", "SELECT from `orders__items`"),
        ("SELECT xyz FROM orders", "the column `xyz` does not exist", "columns: _id, customer_id, status"),
    ],
)
def test_hints_of_sql(sql: str, told: str, hint: str, ktx: Run, project: Path) -> None:
    answer = ktx("sql", sql, "--json")
    assert answer.code == 1, answer
    assert told in answer.envelope["error"]["message"]
    assert hint in answer.envelope["error"]["hint"], answer.envelope["error"]
    assert "duckdb" not in answer.envelope["error"]["hint"]


def test_a_skipped_key_is_a_note(ktx: Run, project: Path, server: MongoEmulator) -> None:
    server.client["shop"]["orders"].insert_one({"_id": -1, "A": 1, "a": 2})
    for _ in range(2):
        scanned = ktx("scan", "shop")
        assert scanned.code == 0
        assert "note: connection `shop`: 1 field skipped" in scanned.err, scanned
        assert "exclude" not in scanned.err and "warning" not in scanned.err


def test_an_unknown_parameter_of_a_url_is_named(ktx: Run, project: Path, server: MongoEmulator) -> None:
    url = f"mongodb://127.0.0.1:{server.port}/shop?readPref=x"
    answer = ktx("connection", "add", "other", "--driver", "mongodb", "--url", url, "--json")
    assert answer.code != 0, answer
    assert "unknown parameter `readpref`" in json.dumps(answer.envelope["error"])


def test_a_large_collection_is_refused_with_the_command_that_works(ktx: Run, project: Path) -> None:
    assert ktx("config", "set", "connections.shop.max_documents", "100").code == 0
    for words in (("sql", "SELECT sum(amount) FROM orders"), ("sql", "SELECT status FROM orders WHERE _id = 1")):
        answer = ktx(*words, "--json")
        assert answer.code == 1
        assert "SQL reads at most 100 documents" in answer.envelope["error"]["message"]
        assert "ktx mongo-query" in answer.envelope["error"]["hint"]
    assert ktx("sql", "SELECT count(*) AS n FROM orders", "--json").data["rows"] == [[300]]
    assert ktx("scan", "shop", "--depth", "profile").code == 0
    (project / "semantic-layer/shop/orders.yaml").write_text(
        "name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount)}\n"
    )
    asked = ktx("sl", "query", "-m", "orders.revenue", "--json")
    assert asked.code == 1
    assert "ktx mongo-query" in asked.envelope["error"]["hint"]


def test_a_profile_of_a_large_collection_rests_on_a_sample(ktx: Run, project: Path) -> None:
    assert ktx("config", "set", "connections.shop.max_documents", "100").code == 0
    assert ktx("config", "set", "scan.relationships.profileSampleRows", "50").code == 0
    scanned = ktx("scan", "shop", "--depth", "profile", "--json")
    assert scanned.code == 0, scanned
    shown = ktx("scan", "relationships", "--status", "all", "--json")
    joins = [each for each in shown.data["relationships"] if each["from"]["table"].endswith("orders")]
    assert all("all values" not in json.dumps(each) for each in joins), joins


def test_a_connection_without_pipelines(ktx: Run, work: Path) -> None:
    (work / "ktx.yaml").write_text("connections:\n  shop: {driver: files, path: .}\n")
    answer = ktx("mongo-query", "orders", "[]", "--json")
    assert answer.code == 2
    assert "no connection with aggregation pipelines" in answer.envelope["error"]["message"]
    answer = ktx("mongo-query", "orders", "[]", "-c", "shop", "--json")
    assert "has no aggregation pipelines" in answer.envelope["error"]["message"]
