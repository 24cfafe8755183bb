"""MongoDB, on an emulator of its protocol: what becomes a table, what SQL reads, limits, and documents that do harm."""

from __future__ import annotations

import struct
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, ObjectId

from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.warehouses.mongodb.client import database_of, nodes_of, record_of
from ktx_cli.warehouses.mongodb.connector import MongoConnector
from ktx_cli.warehouses.mongodb.documents import MixedError, infer
from ktx_cli.warehouses.mongodb.statements import readings
from ktx_cli.warehouses.port import ConnectionSpec, Scope, SemanticType, TableKind, TableRef
from ktx_cli.warehouses.registry import connect
from ktx_cli.warehouses.sampling import SampleLimits, SampleMethod, read_sample
from tests.warehouses.mongo_server import READING, MongoEmulator, emulator

PASSWORD = "c4n4ry-hunter2"


@pytest.fixture(scope="module")
def server() -> Iterator[MongoEmulator]:
    with emulator() as running:
        yield running
        assert running.sent() <= READING


@pytest.fixture
def shop(server: MongoEmulator) -> Iterator[Callable[..., Any]]:
    """`shop(orders=[...], max_documents=9)`: an open connection to a database with these collections."""
    opened: list[MongoConnector] = []

    def make(_settings: dict[str, Any] | None = None, **collections: list[dict[str, Any]]) -> MongoConnector:
        database = server.new_database()
        for name, documents in collections.items():
            server.client[database][name].insert_many(documents)
        connector = connect(ConnectionSpec("shop", "mongodb", server.settings(database, **(_settings or {}))))
        assert isinstance(connector, MongoConnector)
        opened.append(connector)
        return connector

    yield make
    for each in opened:
        each.close()


def tables(connector: MongoConnector) -> dict[str, Any]:
    return {each.ref.name: each for each in connector.introspect(Scope()).tables}


def columns(connector: MongoConnector, table: str) -> dict[str, str]:
    return {each.name: each.native_type for each in tables(connector)[table].columns}


UUID = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("values", "native", "read"),
    [
        ([1, 2], "BIGINT", [1, 2]),
        ([Int64(2**60), 1], "BIGINT", [2**60, 1]),
        ([1, 1.5], "DOUBLE", [1.0, 1.5]),
        ([Decimal128("1.50"), Decimal128("2.125")], "DECIMAL(38, 3)", [Decimal("1.500"), Decimal("2.125")]),
        ([Decimal128("1.5"), 2], "DECIMAL(38, 1)", [Decimal("1.5"), Decimal("2.0")]),
        ([Decimal128("NaN"), Decimal128("1E+6000")], "DOUBLE", ["nan", "inf"]),
        ([float("inf"), float("-inf")], "DOUBLE", ["inf", "-inf"]),
        (["a", "b\0c"], "VARCHAR", ["a", "b\0c"]),
        ([True, False], "BOOLEAN", [True, False]),
        ([datetime(2026, 1, 5, 10, 30, 0, 123000)], "TIMESTAMP", [datetime(2026, 1, 5, 10, 30, 0, 123000)]),
        ([ObjectId("6b0dfb5dff72e23468fa5934")], "VARCHAR", ["6b0dfb5dff72e23468fa5934"]),
        ([b"\x00\xff"], "BLOB", [b"\x00\xff"]),
        ([[1, "a"], []], "JSON", ['[1, "a"]', "[]"]),
        ([{}, {}], "JSON", ["{}", "{}"]),
        ([1, "a", True], "VARCHAR", ["1", "a", "true"]),
        ([1, [2]], "JSON", ["1", "[2]"]),
        ([{"b": 1}, "text"], "JSON", ['{"b": 1}', '"text"']),
        ([None, None], "VARCHAR", [None, None]),
    ],
)
def test_a_column_has_the_type_of_its_values(
    values: list[Any], native: str, read: list[Any], shop: Callable[..., Any]
) -> None:
    connector = shop(t=[{"_id": place, "v": value} for place, value in enumerate(values)])
    assert columns(connector, "t")["v"] == native
    found = [row[0] for row in connector.query("SELECT v FROM t ORDER BY _id").rows]
    assert [str(each) if isinstance(each, float) and not isinstance(want, float) else each
            for each, want in zip(found, read, strict=True)] == read  # fmt: skip


def test_mixed_types_are_named(shop: Callable[..., Any]) -> None:
    (_, mixed) = tables(shop(t=[{"_id": 1, "v": 1}, {"_id": 2, "v": "a"}]))["t"].columns
    assert mixed.comment == "Values have different BSON types: int, string."
    assert mixed.type is SemanticType.STRING


def test_nested_documents_become_dotted_columns(shop: Callable[..., Any]) -> None:
    connector = shop(t=[{"_id": 1, "a": {"b": {"c": 2}}}, {"_id": 2, "a": None}, {"_id": 3, "a": {"d": "x"}}])
    assert columns(connector, "t") == {"_id": "BIGINT", "a.b.c": "BIGINT", "a.d": "VARCHAR"}
    assert connector.query('SELECT _id, "a.b.c", "a.d" FROM t ORDER BY _id').rows == (
        (1, 2, None),
        (2, None, None),
        (3, None, "x"),
    )


def test_arrays_of_documents_become_tables(shop: Callable[..., Any]) -> None:
    items = [{"sku": "a", "tags": ["x"]}, {"sku": "b", "price": {"eur": 2}}]
    connector = shop(orders=[{"_id": 7, "items": items}, {"_id": 8, "items": []}, {"_id": 9}])
    found = tables(connector)
    assert set(found) == {"orders", "orders__items"}
    assert [each.name for each in found["orders"].columns] == ["_id"], "their JSON would show hidden columns"
    child = found["orders__items"]
    assert child.primary_key == ("_parent_id", "_index")
    (key,) = child.foreign_keys
    assert (key.columns, key.target, key.target_columns) == (("_parent_id",), found["orders"].ref, ("_id",))
    assert connector.query('SELECT _parent_id, _index, sku, tags, "price.eur" FROM orders__items ORDER BY 2').rows == (
        (7, 0, "a", '["x"]', None),
        (7, 1, "b", None, 2),
    )
    assert connector.query("SELECT count(*) FROM orders__items").rows == ((2,),)


def test_a_collection_with_the_name_of_a_child_table_comes_first(shop: Callable[..., Any]) -> None:
    connector = shop(orders=[{"_id": 1, "items": [{"a": 1}]}], orders__items=[{"_id": 5}])
    schema = connector.introspect(Scope())
    assert {each.ref.name: len(each.columns) for each in schema.tables} == {"orders": 1, "orders__items": 1}
    assert "`orders__items` already exists" in schema.notes[0].message
    assert connector.query("SELECT _id FROM orders__items").rows == ((5,),)


def test_indexes_and_validators_are_declared_facts(server: MongoEmulator, shop: Callable[..., Any]) -> None:
    connector = shop(t=[{"_id": 1, "email": "a", "status": "new", "city": "x", "tags": ["a"]}])
    database = connector.server.database
    collection = server.client[database]["t"]
    collection.create_index("email", unique=True)
    collection.create_index([("status", 1), ("city", -1)])
    collection.create_index("tags", unique=True)
    collection.create_index("city", unique=True, partialFilterExpression={"status": "new"})
    collection.create_index("gone", unique=True)
    rules = {
        "required": ["email"],
        "properties": {
            "email": {"bsonType": "string", "description": "How to reach them."},
            "status": {"enum": ["new", "done"]},
            "later": {"bsonType": "date"},
        },
    }
    server.options[database, "t"] = {"validator": {"$jsonSchema": rules}}
    table = tables(connector)["t"]
    by_name = {each.name: each for each in table.columns}
    assert table.primary_key == ("_id",)
    assert [each.columns for each in table.unique_keys] == [("email",)]
    assert [each.columns for each in table.indexes] == [("status", "city")]
    assert (by_name["email"].nullable, by_name["email"].comment) == (False, "How to reach them.")
    assert by_name["status"].values == ("new", "done")
    assert by_name["later"].type is SemanticType.TIME
    server.options[database, "t"]["validationAction"] = "warn"
    assert {each.name: each.nullable for each in tables(connector)["t"].columns}["email"], "nothing enforces it"


def test_views_are_views(server: MongoEmulator, shop: Callable[..., Any]) -> None:
    connector = shop(t=[{"_id": 1, "a": 1, "items": [{"b": 1}]}, {"_id": 2, "a": 2, "items": []}])
    server.views[connector.server.database, "v"] = ("t", [{"$match": {"a": 2}}])
    server.views[connector.server.database, "w"] = ("t", [{"$match": {"a": 1}}])
    found = tables(connector)
    assert {name: found[name].kind for name in ("t", "v", "w__items")} == {
        "t": TableKind.TABLE,
        "v": TableKind.VIEW,
        "w__items": TableKind.VIEW,
    }
    assert (found["v"].primary_key, found["w__items"].foreign_keys) == ((), ())
    assert connector.query("SELECT _id FROM v").rows == ((2,),)


def test_databases_and_system_collections(server: MongoEmulator) -> None:
    one, two = server.new_database(), server.new_database()
    for database in (one, two):
        server.client[database]["t"].insert_one({"a": 1})
    server.client[one]["system.profile"].insert_one({"a": 1})
    settings = {"host": "127.0.0.1", "port": server.port, "databases": [one, two]}
    with connect(ConnectionSpec("shop", "mongodb", settings)) as connector:
        schema = connector.introspect(Scope(enabled_tables=(f"{one}.t", f"{two}.t")))
        assert [str(each.ref) for each in schema.tables] == [f"{one}.t", f"{two}.t"]
        assert schema.problems == ()
        assert connector.query(f"SELECT count(*) FROM {one}.t a JOIN {two}.t b ON a.a = b.a").rows == ((1,),)


# What a statement reads.

ORDERS = TableRef("shop", "orders")


@pytest.mark.parametrize(
    ("sql", "mode", "names"),
    [
        ("SELECT amount FROM orders", "all", {"amount"}),
        ("SELECT * FROM orders", "all", None),
        ("SELECT count(*) FROM orders", "count", set()),
        ("SELECT count(*) AS n FROM shop.orders", "count", set()),
        ("SELECT count(*) FROM orders WHERE paid", "all", {"paid"}),
        ("SELECT count(*), count(*) FROM orders", "all", set()),
        ("SELECT amount FROM orders LIMIT 5", "first", {"amount"}),
        ("SELECT amount FROM orders LIMIT 5 OFFSET 2", "all", {"amount"}),
        ("SELECT amount FROM orders LIMIT 10%", "all", {"amount"}),
        ("SELECT amount FROM orders LIMIT 10 PERCENT", "all", {"amount"}),
        ("SELECT count(*) FROM orders LIMIT 10%", "all", set()),
        ("SELECT amount FROM orders ORDER BY amount LIMIT 5", "all", {"amount"}),
        ("SELECT DISTINCT amount FROM orders LIMIT 5", "all", {"amount"}),
        ("SELECT max(amount) FROM orders LIMIT 5", "all", {"amount"}),
        ("SELECT amount, count(*) OVER () FROM orders LIMIT 5", "all", {"amount"}),
        ("SELECT unnest(tags) FROM orders LIMIT 5", "all", {"tags"}),
        ("SELECT strange(amount) FROM orders LIMIT 5", "all", {"amount"}),
        ("SELECT amount FROM orders QUALIFY row_number() OVER () = 1 LIMIT 5", "all", {"amount"}),
        ("SELECT amount FROM (SELECT amount FROM orders LIMIT 5)", "all", {"amount"}),
        ("SELECT amount FROM orders UNION ALL SELECT 1 LIMIT 5", "all", {"amount"}),
        ("SELECT a.amount FROM orders a, orders b LIMIT 5", "all", {"amount"}),
        ("SELECT amount FROM orders TABLESAMPLE reservoir(9 ROWS) REPEATABLE (3) LIMIT 9", "sample", {"amount"}),
        ("SELECT amount FROM orders TABLESAMPLE 10%", "all", {"amount"}),
        ("SELECT sum(amount) FROM orders TABLESAMPLE reservoir(9 ROWS)", "all", {"amount"}),
        ("SELECT orders FROM orders", "all", None),
        ("SELECT o FROM orders o", "all", None),
        ("SELECT COLUMNS('a.*') FROM orders", "all", None),
        ("SELECT #1 FROM orders", "all", None),
        ("SELECT 1 FROM orders NATURAL JOIN orders", "all", None),
        ("SUMMARIZE orders", "all", None),
        ("EXPLAIN SELECT amount FROM orders", "structure", None),
        ("DELETE FROM orders", "", None),
        ("SELECT 1; SELECT amount FROM orders", "", None),
        ("SELECT (", "", None),
        ("CREATE TABLE t AS SELECT * FROM orders", "", None),
    ],
)
def test_what_a_statement_reads(sql: str, mode: str, names: set[str] | None) -> None:
    found = readings(sql, lambda schema, name: ORDERS if (schema or "shop", name) == ("shop", "orders") else None)
    assert [each.mode for each in found] == ([mode] if mode else [])
    if found:
        shown = None if found[0].columns is None else found[0].columns & {"amount", "paid", "tags", "id"}
        assert shown == names


def test_only_the_needed_fields_are_read(server: MongoEmulator, shop: Callable[..., Any]) -> None:
    connector = shop(t=[{"_id": 1, "a": 1, "b": {"c": 2, "d": 3}}])
    connector.introspect(Scope())
    server.commands.clear()
    assert connector.query('SELECT sum("b.c") FROM t').rows == ((2,),)
    (found,) = [command for name, command in server.commands if name == "find" and command.get("projection")]
    assert found["projection"] == {"_id": 0, "b": 1}
    assert found["maxTimeMS"] > 0
    server.commands.clear()
    connector.query('SELECT max("b.c") FROM t')
    assert server.sent() & {"find", "aggregate"} == set(), "the copy answers"


# Limits.

MANY = [{"_id": place, "a": place, "items": [{"b": 1}] if place > 40 else []} for place in range(50)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(a) FROM t",
        "SELECT count(*) FROM t WHERE a > 1",
        "SELECT count(*) FROM t__items",
        "SELECT a FROM t ORDER BY a LIMIT 1",
        "SELECT a FROM t LIMIT 30000",
        "SELECT * FROM (SELECT a FROM t LIMIT 3)",
        "WITH x AS (SELECT * FROM t) SELECT a FROM x LIMIT 3",
    ],
)
def test_a_part_never_answers_for_the_whole(sql: str, shop: Callable[..., Any]) -> None:
    connector = shop({"max_documents": 20}, t=MANY)
    with pytest.raises(SourceError) as caught:
        connector.query(sql)
    assert caught.value.code == "query"
    assert "SQL reads at most 20 documents" in caught.value.message
    assert "ktx mongo-query t PIPELINE -c shop" in (caught.value.hint or "")
    assert "mongo_query" in (caught.value.hint or "")


def test_counts_and_samples_have_no_limit(shop: Callable[..., Any]) -> None:
    connector = shop({"max_documents": 20}, t=MANY)
    assert connector.query("SELECT count(*) FROM t").rows == ((50,),)
    assert len(connector.query("SELECT a FROM t LIMIT 7").rows) == 7
    assert len(connector.query("SELECT a FROM t LIMIT 60").rows) == 50
    assert len(connector.query("SELECT b FROM t__items LIMIT 5").rows) == 5, "the first documents have no items"
    assert len(connector.query("SELECT b FROM t__items LIMIT 30").rows) == 9
    found = {each.ref.name: each for each in connector.introspect(Scope()).tables}
    first, second = (read_sample(connector, found["t"], SampleLimits(rows=20), seed=3) for _ in range(2))
    assert (first.method, first.row_count, first.complete) == (SampleMethod.BLOCKS, 50, False)
    assert 10 <= first.rows <= 20
    assert first.values == second.values
    whole = read_sample(connector, found["t"], SampleLimits(rows=100), seed=3)
    assert (whole.complete, whole.rows) == (True, 50)


def test_bytes_are_limited(shop: Callable[..., Any]) -> None:
    connector = shop({"max_megabytes": 1}, t=[{"_id": place, "v": "x" * 300_000} for place in range(8)])
    with pytest.raises(SourceError, match="SQL reads at most 1 MiB"):
        connector.query("SELECT count(v) FROM t")
    part = connector.query("SELECT v FROM t LIMIT 8")
    assert part.truncated and len(part.rows) < 8, "a result that was cut says so"
    assert connector.query("SELECT count(_id) FROM t").rows == ((8,),)


def test_statistics_refuse_a_large_collection_before_it_is_read(
    server: MongoEmulator, shop: Callable[..., Any]
) -> None:
    connector = shop(t=[{"_id": 1, "a": 1}])
    server.pretended[connector.server.database, "t"] = 12_000_000
    with pytest.raises(SourceError, match="about 12,000,000"):
        connector.query("SELECT sum(a) FROM t")


@pytest.mark.parametrize(
    ("late", "sql", "told"),
    [
        ({"v": "text"}, "SELECT sum(v) FROM t", "`v` of `{}.t` has a value of the type string"),
        ({"items": [3]}, "SELECT count(*) FROM t__items", "`items` of `{}.t__items` has a value of the type int"),
        ({"items": {"b": 1}}, "SELECT sum(b) FROM t__items", "of the type object"),
        (
            {"at": "Oslo"},
            'SELECT count(*) FROM t WHERE "at.city" IS NULL',
            "`at` of `{}.t` has a value of the type string",
        ),
        ({"at": [{"city": 1}]}, 'SELECT sum("at.city") FROM t', "`at` of `{}.t` has a value of the type array"),
        ({"at": {"in": 1}}, 'SELECT sum("at.in.x") FROM t', "`at.in` of `{}.t` has a value of the type int"),
        ({"at": 1}, "SELECT count(*) FROM t__at__all", "`at` of `{}.t__at__all` has a value of the type int"),
    ],
)
def test_a_value_that_the_sample_lacks_is_an_error(
    late: dict[str, Any], sql: str, told: str, shop: Callable[..., Any]
) -> None:
    at = {"city": 1, "in": {"x": 1}, "all": [{"y": 1}]}
    documents = [{"_id": place, "v": place, "items": [{"b": 1}], "at": at} for place in range(100)]
    documents[33] |= late
    connector = shop({"sample_documents": 10}, t=documents)
    with pytest.raises(SourceError) as caught:
        connector.query(sql)
    assert told.format(connector.server.database) in caught.value.message
    assert "connections.shop.sample_documents" in (caught.value.hint or "")
    assert connector.query("SELECT max(_id) FROM t").rows == ((99,),), "other columns can be read"


def test_nothing_remains_of_a_part_or_of_a_failure(shop: Callable[..., Any]) -> None:
    connector = shop({"max_documents": 20}, t=MANY, u=[{"_id": 1}])
    inside = "SELECT table_name FROM information_schema.tables ORDER BY 1"
    connector.query("SELECT a FROM t LIMIT 7")
    assert connector.query(inside).rows == ()
    with pytest.raises(SourceError):
        connector.query("SELECT sum(a) FROM t")
    assert connector.query(inside).rows == ()
    connector.query("SELECT max(_id) FROM u")
    connector.query("SELECT _id FROM u LIMIT 1")
    assert {row[0] for row in connector.query(inside).rows} == {"u"}, "a copy answers further statements"


def test_a_copy_is_read_again_after_a_while(
    server: MongoEmulator, shop: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = shop(t=[{"_id": 1}])
    moment = [1000.0]
    for module in ("connector", "client", "writer"):
        monkeypatch.setattr(f"ktx_cli.warehouses.mongodb.{module}.monotonic", lambda: moment[0])
    assert connector.query("SELECT max(_id) FROM t").rows == ((1,),)
    server.client[connector.server.database]["t"].insert_one({"_id": 2})
    moment[0] += 59
    assert connector.query("SELECT max(_id) FROM t").rows == ((1,),)
    moment[0] += 2
    assert connector.query("SELECT max(_id) FROM t").rows == ((2,),)


def test_numbers_get_wider(shop: Callable[..., Any]) -> None:
    documents: list[dict[str, Any]] = [{"_id": place, "a": 1, "b": 1} for place in range(100)]
    documents[33] |= {"a": 0.5, "b": Decimal128("0.125")}
    connector = shop({"sample_documents": 10}, t=documents)
    assert connector.query("SELECT sum(a), sum(b) FROM t").rows == ((99.5, Decimal("99.125")),)


def test_a_missing_parent_is_null(shop: Callable[..., Any]) -> None:
    documents: list[dict[str, Any]] = [{"_id": place, "at": {"city": 1}} for place in range(100)]
    documents[33], documents[34] = {"_id": 33}, {"_id": 34, "at": None}
    connector = shop({"sample_documents": 10}, t=documents)
    assert connector.query('SELECT count(*) FROM t WHERE "at.city" IS NULL').rows == ((2,),)


def test_a_share_of_the_documents(shop: Callable[..., Any]) -> None:
    connector = shop(t=[{"_id": place} for place in range(300)])
    assert len(connector.query("SELECT _id FROM t LIMIT 10%").rows) == 30


def test_decimals_keep_all_digits(shop: Callable[..., Any]) -> None:
    given = ["1234567890123456789012345678901.234", "1234567890123456789012345678901.235", "-0.5", "1E+3"]
    connector = shop(t=[{"_id": place, "v": Decimal128(each)} for place, each in enumerate(given)])
    assert columns(connector, "t")["v"] == "DECIMAL(38, 3)"
    assert connector.query("SELECT v FROM t ORDER BY _id").rows == tuple((Decimal(each),) for each in given)


@pytest.mark.parametrize("precise", [2**53 + 1, -(2**53) - 1, Int64(2**63 - 1), Decimal128("0.12345678901234567")])
@pytest.mark.parametrize("late", [3, 97])
def test_numbers_that_doubles_cannot_represent(precise: Any, late: int, shop: Callable[..., Any]) -> None:
    """They would become equal to others if one other value of the column is a double."""
    documents: list[dict[str, Any]] = [{"_id": place, "v": 1} for place in range(100)]
    documents[50]["v"], documents[late]["v"] = precise, 0.5
    connector = shop({"sample_documents": 10}, t=documents)
    with pytest.raises(SourceError, match="cannot represent all of its values exactly") as caught:
        connector.query("SELECT count(DISTINCT v) FROM t")
    assert "ktx mongo-query t" in (caught.value.hint or "")
    documents[50]["v"] = 2**60
    assert shop(t=documents).query("SELECT max(v) FROM t").rows == ((float(2**60),),)


# Documents that do harm.


def raw_document(*elements: bytes) -> bytes:
    content = b"".join(elements)
    return struct.pack("<i", len(content) + 5) + content + b"\0"


def raw_text(key: bytes, value: bytes) -> bytes:
    return b"\x02" + key + b"\0" + struct.pack("<i", len(value) + 1) + value + b"\0"


def raw_int(key: bytes, value: int) -> bytes:
    return b"\x10" + key + b"\0" + struct.pack("<i", value)


def deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"end": 1}
    for _ in range(levels):
        found = {"d": found}
    return found


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([raw_document(raw_int(b"_id", 1), raw_text(b"v", b"a\xff\xfeb"))], {"_id", "v"}),
        ([raw_document(raw_int(b"_id", 1), raw_int(b"v", 1), raw_int(b"v", 2))], {"_id", "v"}),
        ([raw_document(raw_int(b"_id", 1), raw_int(b"a.b", 1), raw_int(b"$c", 1), raw_int(b"", 1))], {"_id"}),
        ([raw_document(raw_int(b"_id", 1), raw_int(b"Name", 1), raw_int(b"name", 2))], {"_id", "Name"}),
        ([bson.encode({"_id": 1, "a": {"x.y": 1, "z": 2}})], {"_id", "a"}),
        ([bson.encode({"_id": 1, **deep(90)})], {"_id", "d.d.d.d.d.d"}),
        ([bson.encode({"_id": 1, "m": {f"k{each}": each for each in range(200)}})], {"_id", "m"}),
        ([bson.encode({f"k{each}": each for each in range(5000)})], 500),
        ([bson.encode({"_id": 1, 'say "hi"\n; DROP': 1})], {"_id", 'say "hi"\n; DROP'}),
    ],
)
def test_a_harmful_document(
    documents: list[bytes], expected: set[str] | int, server: MongoEmulator, shop: Callable[..., Any]
) -> None:
    connector = shop()
    server.raw[connector.server.database, "t"] = documents
    found = columns(connector, "t")
    assert (len(found) if isinstance(expected, int) else set(found)) == expected
    (row,) = connector.query("SELECT * FROM t").rows
    assert len(row) == len(found)


def test_keys_that_are_no_columns_are_reported(server: MongoEmulator, shop: Callable[..., Any]) -> None:
    connector = shop()
    document = raw_document(raw_int(b"_id", 1), raw_int(b"a.b", 1), raw_int(b"Name", 1), raw_int(b"name", 2))
    server.raw[connector.server.database, "t"] = [document]
    schema = connector.introspect(Scope())
    assert schema.problems == (), "the collection itself was read"
    told = [each.message for each in schema.notes]
    assert [each.split(":")[0] for each in told] == ["`a.b` is not a column", "`name` is not a column"]


def test_a_document_that_is_not_bson_is_skipped_in_samples_and_refused_in_whole(
    server: MongoEmulator, shop: Callable[..., Any]
) -> None:
    connector = shop()
    broken = raw_document(raw_int(b"_id", 2), b"\x63v\0\x01")
    server.raw[connector.server.database, "t"] = [bson.encode({"_id": 1, "v": 1}), broken]
    schema = connector.introspect(Scope())
    assert [each.ref.name for each in schema.tables] == ["t"]
    assert "not valid BSON" in schema.problems[0].message
    with pytest.raises(SourceError, match="not valid BSON"):
        connector.query("SELECT sum(v) FROM t")


def test_names_that_differ_in_case_are_one_table(shop: Callable[..., Any]) -> None:
    schema = shop(Orders=[{"a": 1}], orders=[{"b": 1}]).introspect(Scope())
    assert [each.ref.name for each in schema.tables] == ["Orders"]
    assert "in other case" in schema.problems[0].message


def test_an_empty_collection_is_reported(server: MongoEmulator, shop: Callable[..., Any]) -> None:
    connector = shop(t=[{"a": 1}])
    server.options[connector.server.database, "empty"] = {}
    schema = connector.introspect(Scope())
    assert [each.ref.name for each in schema.tables] == ["t"]
    assert "it has no documents" in schema.problems[0].message


def test_child_rows_are_documents() -> None:
    shape = infer([{"_id": 1, "items": [{"a": 1}]}], {}).children[("items",)]
    with pytest.raises(MixedError):
        list(shape.rows({"_id": 1, "items": [{"a": 1}, None]}))


# Sessions.


def test_a_running_operation_is_killed(server: MongoEmulator, shop: Callable[..., Any]) -> None:
    connector = shop(t=[{"_id": 1, "a": 1}])
    connector.introspect(Scope())
    server.slow.add("t")
    server.started.clear()
    server.killed.clear()
    failed: list[SourceError] = []

    def run() -> None:
        try:
            connector.query("SELECT sum(a) FROM t")
        except SourceError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert server.started.wait(10)
        connector.interrupt()
        thread.join(10)
    finally:
        server.slow.clear()
    assert [each.code for each in failed] == ["timeout"]
    assert len(server.killed) == 1
    assert connector.query("SELECT sum(a) FROM t").rows == ((1,),)


def test_the_time_limit_is_the_servers_too(server: MongoEmulator, shop: Callable[..., Any]) -> None:
    connector = shop({"query_timeout_ms": 200}, t=[{"_id": 1, "a": 1}])
    connector.introspect(Scope())
    server.slow.add("t")
    try:
        with pytest.raises(SourceError) as caught:
            connector.aggregate(TableRef(None, "t"), [{"$limit": 1}])
    finally:
        server.slow.clear()
    assert caught.value.code == "timeout"
    ((_, command),) = [each for each in server.commands if each[0] == "aggregate"][-1:]
    assert command["maxTimeMS"] <= 200 and command["allowDiskUse"] is False


def test_a_login_that_fails_shows_no_password(server: MongoEmulator) -> None:
    for settings in (
        {"host": "127.0.0.1", "port": server.port, "username": "reader", "password": PASSWORD},
        {"url": f"mongodb://reader:{PASSWORD}@127.0.0.1:{server.port}/shop"},
    ):
        with pytest.raises(SourceError) as caught:
            connect(ConnectionSpec("shop", "mongodb", settings))
        assert (caught.value.code, PASSWORD in f"{caught.value.message}{caught.value.hint}") == ("connection", False)
        assert "Authentication failed" in caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://reader:" + PASSWORD + "@h/shop?tlsCertificateKeyFile=/etc/passwd",
        "mongodb://reader:" + PASSWORD + "@h/shop?authMechanism=MONGODB-AWS",
        "mongodb://reader:" + PASSWORD + "@h/shop?proxyHost=elsewhere",
        "mongodb://reader:" + PASSWORD + "@@h/shop",
        "mongodb://",
    ],
)
def test_a_url_that_does_more_than_connect_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(ConnectionSpec("shop", "mongodb", {"url": url}))
    assert PASSWORD not in f"{caught.value.message}{caught.value.hint}"


def test_rights_are_told(server: MongoEmulator, shop: Callable[..., Any]) -> None:
    connector = shop(t=[{"a": 1}])
    resource = {"db": connector.server.database, "collection": ""}
    try:
        server.privileges = [{"resource": resource, "actions": ["find", "listCollections"]}]
        found = connector.test(Scope())
        assert (found.can_write, found.user) == (False, "reader")
        assert found.privileges == (f"find on {connector.server.database}.*",)
        server.privileges = [{"resource": resource, "actions": ["find", "insert"]}]
        assert connector.test(Scope()).can_write is True
    finally:
        server.privileges = None
    assert connector.test(Scope()).privileges == ("the server has no access control",)


def test_a_url_of_a_dns_record_names_it_and_shows_nothing_else() -> None:
    spec = ConnectionSpec("shop", "mongodb", {"url": f"mongodb+srv://reader:{PASSWORD}@cluster.example.com/shop"})
    assert (nodes_of(spec), record_of(spec), database_of(spec)) == ([], "cluster.example.com", "shop")
    several = ConnectionSpec("shop", "mongodb", {"url": "mongodb://a:1,b:2/shop?replicaSet=rs0"})
    assert nodes_of(several) == [("a", 1), ("b", 2)]
