"""Data contracts as a source: what becomes of each part, which table it is about, and files that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ktx_cli.core import KtxError, yaml
from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.project.layout import Layout
from ktx_cli.scan.relationships.declarations import DeclaredJoin, DeclaredTable
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.odcs import OdcsConnection
from ktx_cli.sources.odcs.contracts import declarations_of, why_no_contract
from ktx_cli.sources.odcs.projection import NO_TABLE
from ktx_cli.sources.odcs.source import OdcsSource
from ktx_cli.sources.port import FetchContext
from tests.sources.git_server import ENVIRON
from tests.sources.projecting import OTHER, OTHER_SHARD, SHARD, SHOP, Project, kept, lost, snapshot

OVERLAY = "semantic-layer/shop/orders.yaml"


def entry(folder: str = "x", **more: Any) -> Any:
    return OdcsConnection.model_validate({"driver": "odcs", "source_dir": folder, **more})


def contract(*objects: Mapping[str, Any], **more: Any) -> str:
    """Return a contract about tables of the schema `shop`."""
    head = {"kind": "DataContract", "apiVersion": "v3.1.0", "id": "c", "version": "1.0.0", "status": "active"}
    servers = [{"server": "main", "type": "postgres", "database": "dwh", "schema": "shop"}]
    return yaml.dump({**head, "servers": servers, "schema": [dict(each) for each in objects], **more})


def prop(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def orders(*properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "orders", "properties": [dict(each) for each in properties], **more}


def ran(*objects: Mapping[str, Any], **more: Any) -> tuple[Project, Any]:
    made = Project({SHARD: SHOP})
    return made, made.run(OdcsSource(), {"a.yaml": contract(*objects, **more)}, entry())


def test_a_contract_becomes_texts_rules_and_labels() -> None:
    sales = {
        "name": "Sales",
        "physicalName": "orders",
        "businessName": "Orders of the shop",
        "dataGranularityDescription": "one row for each order",
        "tags": ["finance"],
        "properties": [
            prop("number", physicalName="id", primaryKey=True, businessName="Order number"),
            prop("status", description="Where the order stands.", enum=[{"value": "open"}, {"value": "paid"}]),
            prop("amount", required=True, quality=[{"metric": "duplicateValues", "mustBe": 0}]),
        ],
    }
    shared = {"purpose": "What people bought.", "usage": "Count paid orders.", "limitations": "Without returns."}
    latency = {"property": "latency", "value": 4, "unit": "d", "element": "Sales.status"}
    made, projection = ran(sales, description=shared, slaProperties=[latency], tags=["core"])
    found = made.entry("orders")
    assert found["descriptions"]["odcs"] == (
        "What people bought.\nGranularity: one row for each order\nUsage: Count paid orders.\n"
        "Limitations: Without returns."
    )
    assert found["descriptions"]["user"] == "What people bought"
    assert (found["tags"], found["freshness"]) == ({"odcs": ["core", "finance"]}, {"odcs": {"latency": "4 d"}})
    assert made.column("orders", "id")["constraints"] == {"odcs": {"not_null": True, "unique": True}}
    assert made.column("orders", "amount")["constraints"] == {"odcs": {"not_null": True, "unique": True}}
    assert made.column("orders", "status") == {
        "name": "status",
        "type": "string",
        "descriptions": {"odcs": "Where the order stands."},
        "enum_values": {"odcs": ["open", "paid"]},
    }
    assert made.data(OVERLAY) == {
        "name": "orders",
        "label": "Orders of the shop",
        "column_overrides": [{"name": "id", "label": "Order number"}],
    }
    assert made.errors() == [] and projection.warnings == () and set(projection.handled) == {"a.yaml"}
    before = dict(made.files)
    made.run(
        OdcsSource(), {"a.yaml": contract(sales, description=shared, slaProperties=[latency], tags=["core"])}, entry()
    )
    assert dict(made.files) == before, "an unchanged contract changes nothing"
    made.run(OdcsSource(), {"a.yaml": contract({"name": "orders"})}, entry())
    assert made.data(SHARD) == yaml.load(SHOP, where=""), "what is gone from the contract is taken out"
    assert set(made.files) == {SHARD}


QUALITY = {"name": "daily", "type": "sql", "query": "SELECT 1", "mustBe": 0}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (orders(prop("id", logicalType="integer")), "`logicalType` of column `orders.id`: the database knows it"),
        (orders(prop("nope", description="x")), "column `orders.nope`: the table `shop/orders` has no such column"),
        (
            orders(quality=[QUALITY]),
            "quality rule `daily` of table `orders`: ktx does not run the quality rules of contracts",
        ),
        (
            orders(prop("id", quality=[{"metric": "nullValues", "mustBeLessThan": 5}])),
            "quality rule `nullValues` of column `orders.id`: ktx does not run the quality rules of contracts",
        ),
        (
            orders(prop("status", classification="restricted")),
            "classification `restricted` of column `orders.status`: only `visibility` in the semantic layer restricts"
            " who sees a column",
        ),
        (orders(prop("status", tags=["x"])), "`tags` of column `orders.status`: ktx supports tags only on tables"),
        (
            orders(prop("status", enum=["robin.meier@acme-shop.de"])),
            "values of column `orders.status`: they look like personal data or a secret",
        ),
        (
            orders(prop("status", properties=[prop("inner")])),
            "`properties` of column `orders.status`: ktx describes columns, not the fields inside their values",
        ),
        (
            orders(prop("id", relationships=[{"to": "nowhere.id"}])),
            "relationship of `orders.id`: its `to` names no columns of one table in these contracts",
        ),
        (
            orders(
                prop("id"),
                prop("status"),
                relationships=[{"from": ["orders.id"], "to": ["orders.id", "orders.status"]}],
            ),
            "relationship of `orders`: `from` and `to` name different numbers of columns",
        ),
        (orders(quality={"a": 1}), "`quality` of table `orders`: it is not a list"),
        (orders({"description": "x"}), "`properties[0]` of table `orders`: it has no name"),
        ({"name": "nothing"}, "table `nothing`: no scanned database has its table"),
    ],
)
def test_what_has_no_place_is_reported(table: Mapping[str, Any], expected: str) -> None:
    _, projection = ran(table)
    assert expected in [line.split(" ", 1)[1] for line in lost(projection)]


@pytest.mark.parametrize(
    ("files", "owner"),
    [
        ({"a.yaml": {"version": "1.0.0"}, "b.yaml": {"version": "1.10.0"}}, "b.yaml"),
        ({"a.yaml": {"status": "draft"}, "b.yaml": {}}, "b.yaml"),
        ({"a.yaml": {"status": "retired"}, "b.yaml": {"status": "draft"}}, "b.yaml"),
        ({"a.yaml": {}, "b.yaml": {}}, "a.yaml"),
    ],
)
def test_one_contract_counts_for_a_table(files: Mapping[str, Mapping[str, str]], owner: str) -> None:
    made = Project({SHARD: SHOP})
    texts = {path: contract(orders(description=f"From {path}."), **more) for path, more in files.items()}
    made.run(OdcsSource(), texts, entry())
    assert made.entry("orders")["descriptions"]["odcs"] == f"From {owner}."


@pytest.mark.parametrize(
    ("servers", "table", "database", "expected"),
    [
        ([{"type": "postgres", "schema": "crm"}], "customers", None, "crm"),
        ([{"type": "postgres", "schema": "dev"}, {"schema": "crm", "environment": "prod"}], "customers", None, "crm"),
        ([{"type": "mysql", "database": "crm"}], "customers", None, "crm"),
        ([{"type": "bigquery", "project": "p", "dataset": "crm"}], "customers", None, "crm"),
        ([], "crm.customers", None, "crm"),
        ([], "customers", "crm", "crm"),
        ([], "customers", None, None),
        ([{"type": "postgres", "schema": "elsewhere"}], "customers", None, None),
    ],
)
def test_which_table_a_contract_is_about(servers: Any, table: str, database: str | None, expected: str | None) -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    text = contract({"name": "people", "physicalName": table, "description": "Who buys."}, servers=servers)
    projection = made.run(OdcsSource(), {"a.yaml": text}, entry(database=database))
    assert sorted(projection.artifacts) == ([] if expected is None else [OTHER_SHARD])
    assert [each.code for each in projection.warnings] == ([] if expected else ["no_table"])


def test_a_database_that_is_not_of_the_project() -> None:
    made = Project({SHARD: SHOP})
    projection = made.run(OdcsSource(), {"a.yaml": contract(orders(description="x"))}, entry(database="nope"))
    assert projection.warnings[0].hint == "use one of: shop" and not projection.artifacts


@pytest.mark.parametrize(
    ("count", "kind", "expected"),
    [(1, "table", 1), (20, None, 20), (23, "VIEW", 21), (1, "materialized view", 1), (3, "topic", 0)],
)
def test_tables_that_nobody_scanned_fill_no_screen(count: int, kind: str | None, expected: int) -> None:
    _, projection = ran(*({"name": f"t{number}", "physicalType": kind} for number in range(count)))
    assert [each.code for each in projection.warnings] == ["no_table"] * expected
    assert len([line for line in lost(projection) if NO_TABLE in line]) == count and projection.left == ()
    if count > expected > 0:
        assert projection.warnings[-1].message == "and 3 more tables of contracts that no scanned database has"


def test_a_contract_without_a_scanned_table_leaves_nothing_else() -> None:
    column = prop("id", description="x", relationships=[{"to": "t.other"}, {"to": "nowhere.id"}])
    other = prop("other", quality=[QUALITY])
    made, projection = ran({"name": "t", "properties": [column, other]}, team=[{"username": "ada"}])
    (only,) = projection.report
    assert (only.what, only.why, projection.left, projection.handled) == ("table `t`", NO_TABLE, (), {"a.yaml"})
    assert made.data(SHARD) == yaml.load(SHOP, where="")


def test_restricted_columns_that_queries_can_read_are_listed() -> None:
    columns = (prop("status", classification="Confidential", enum=["a"]), prop("amount", classification="public"))
    made, projection = ran(orders(*columns))
    (warning,) = projection.warnings
    assert warning.code == "classified"
    assert warning.message.endswith("the contract restricts status of `shop/orders`, but queries can read it")
    assert "enum_values" not in made.column("orders", "status")
    hidden = "name: orders\ncolumn_overrides:\n  - {name: status, visibility: hidden}\n"
    guarded = Project({SHARD: SHOP, OVERLAY: hidden})
    text = contract(orders(prop("status", classification="restricted", businessName="State of the order")))
    assert guarded.run(OdcsSource(), {"a.yaml": text}, entry()).warnings == ()
    (override,) = guarded.data(OVERLAY)["column_overrides"]
    assert override == {"name": "status", "visibility": "hidden", "label": "State of the order"}
    guarded.run(OdcsSource(), {"b.yaml": contract(orders())}, entry())
    assert guarded.data(OVERLAY) == yaml.load(hidden, where="")
    (declared,) = declarations_of({"a.yaml": contract(orders(*columns, prop("id")))}).tables.values()
    assert declared.restricted == ("status",)


def test_a_label_of_people_stays() -> None:
    made = Project({SHARD: SHOP, OVERLAY: "name: orders\nlabel: Purchases\n"})
    projection = made.run(OdcsSource(), {"a.yaml": contract(orders(businessName="Sales"))}, entry())
    assert made.data(OVERLAY)["label"] == "Purchases" and projection.warnings == ()
    assert "a.yaml:14 `businessName` of table `orders`: it already has the label `Purchases`" in lost(projection)


PEOPLE = {"name": "customers", "id": "people", "properties": [prop("id", id="key", unique=True), prop("region")]}
CHILD, PARENT = "a.yaml:orders@shop", "a.yaml:customers@shop"
JOIN = DeclaredJoin(CHILD, ("customer_id",), PARENT, ("id",))


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("customers.id", (JOIN,)),
        ("schema/people/properties/key", (JOIN,)),
        ("/schema/people/properties/key", (JOIN,)),
        ("#customers.id", (JOIN,)),
        ("./a.yaml#schema/people/properties/key", (JOIN,)),
        (["customers.id"], (JOIN,)),
        ("b.yaml#customers.id", ()),
        ("customers.nope", ()),
        ("orders.customer_id", ()),
        (None, ()),
        ({"a": 1}, ()),
    ],
)
def test_references(to: Any, expected: tuple[DeclaredJoin, ...]) -> None:
    text = contract(orders(prop("customer_id", relationships=[{"to": to}])), PEOPLE)
    assert declarations_of({"a.yaml": text}).joins == expected


def test_keys_and_composite_references_are_declared() -> None:
    lines = {
        "name": "lines",
        "physicalName": "dwh.shop.order_lines",
        "properties": [
            prop("line", primaryKey=True, primaryKeyPosition=2),
            prop("order", physicalName="order_id", primaryKey=True, primaryKeyPosition=1),
            prop("note", required=True),
        ],
        "relationships": [{"from": ["lines.order", "lines.line"], "to": ["parts.order_id", "parts.line"]}],
    }
    parts = {"name": "parts", "properties": [prop("order_id"), prop("line")]}
    found = declarations_of({"x/a.yaml": contract(lines), "b.yaml": contract(parts)})
    assert found.joins == ()
    lines["relationships"][0]["to"] = ["../b.yaml#parts.order_id", "../b.yaml#parts.line"]
    found = declarations_of({"x/a.yaml": contract(lines), "b.yaml": contract(parts)})
    table = found.tables["x/a.yaml:lines@shop"]
    assert table == DeclaredTable(
        "order_lines", "shop", keys=(("order_id", "line"),), filled=("line", "order_id", "note")
    )
    (join,) = found.joins
    assert (join.child_columns, join.parent, join.parent_columns) == (
        ("order_id", "line"),
        "b.yaml:parts@shop",
        ("order_id", "line"),
    )


def test_the_older_standard() -> None:
    text = """\
kind: DataContract
apiVersion: v2.2.2
uuid: c
datasetDomain: sales
database: dwh.shop
password: hunter2
description: {purpose: What people bought., limitations: null}
dataset:
  - table: orders
    dataGranularity: one order
    columns:
      - {column: id, isPrimary: true, businessName: Order number, isNullable: false}
      - {column: status, isNullable: false, sampleValues: [open], clusterStatus: false}
"""
    made = Project({SHARD: SHOP})
    projection = made.run(OdcsSource(), {"a.yml": text}, entry())
    assert made.entry("orders")["descriptions"]["odcs"] == "What people bought.\nGranularity: one order"
    assert made.column("orders", "status")["constraints"] == {"odcs": {"not_null": True}}
    assert "description of table `orders`" in kept(projection.report)
    assert declarations_of({"a.yml": text}).tables["a.yml:orders@shop"].keys == (("id",),)


def test_what_is_left_is_a_unit() -> None:
    text = contract(orders(description="x", quality=[QUALITY]), team=[{"username": "ada", "role": "Owner"}])
    files = {"a.yaml": text, "b.yaml": contract({"name": "customers", "description": "Who buys."})}
    made = Project({SHARD: SHOP})
    projection = made.run(OdcsSource(), files, entry())
    assert projection.left == ("a.yaml: 2 parts that rules could not place",)
    assert projection.handled == {"b.yaml"}
    (unit,) = OdcsSource().units(entry(), snapshot(files), Changes(added=tuple(files)), projection)
    assert unit.files == ("a.yaml",) and "quality rule `daily`" in unit.notes and "ada" not in unit.notes


def fetched(folder: Path, last: Snapshot | None = None) -> Snapshot:
    layout = Layout(folder.parent / "project")
    previous = {path: file.sha256 for path, file in last.files.items()} if last is not None else {}
    context = FetchContext("analytics", layout, ENVIRON, RawStore(layout.raw_store), previous=previous)
    return OdcsSource().fetch(entry(str(folder)), context)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: Chart\n", "it is not a data contract: its `kind` is not `DataContract`"),
        ("models: []\n", "it is not a data contract: it has no `kind: DataContract`"),
        ("- 1\n", "it is not a data contract: it has no `kind: DataContract`"),
        ("", "it is not a data contract: it has no `kind: DataContract`"),
        (
            "kind: DataContract\napiVersion: v4.0.0\n",
            "its `apiVersion` is not v3 or v2.2 of the Open Data Contract Standard",
        ),
    ],
)
def test_other_files_are_skipped(text: str, why: str, tmp_path: Path) -> None:
    folder = tmp_path / "contracts"
    folder.mkdir()
    (folder / "a.yaml").write_text(contract(orders()))
    (folder / "b.yaml").write_text(text)
    found = fetched(folder)
    assert list(found.files) == ["a.yaml"] and found.complete
    assert [(each.what, each.reason) for each in found.skipped] == [("b.yaml", why)]
    (folder / "a.yaml").unlink()
    with pytest.raises(KtxError, match="no data contracts at") as refused:
        fetched(folder)
    assert refused.value.hint


def test_a_broken_file_keeps_its_previous_copy(tmp_path: Path) -> None:
    folder = tmp_path / "contracts"
    folder.mkdir()
    text = contract(orders(description="What people bought."))
    (folder / "a.yaml").write_text(text)
    first = fetched(folder)
    (folder / "a.yaml").write_text("kind: [DataContract\n")
    second = fetched(folder, first)
    assert second.files["a.yaml"].text() == text and second.fetched == 0 and second.complete
    assert second.skipped[0].reason.endswith("; ktx keeps its previous copy")
    with pytest.raises(KtxError):
        fetched(folder)
    (folder / "b.yaml").write_text(contract({"name": "customers"}))
    third = fetched(folder)
    assert list(third.files) == ["b.yaml"] and not third.complete, "a new clone has no previous copy"
    assert [each.reason.split(":")[0] for each in third.skipped] == ["line 2"]
    (folder / "a.yaml").write_text("{{ template }}: [\n")
    assert fetched(folder).complete, "it was never a contract"


def test_what_a_lost_contract_defined_stays() -> None:
    made = Project({SHARD: SHOP})
    text = contract(orders(prop("id", unique=True, businessName="Order number"), description="What people bought."))
    made.run(OdcsSource(), {"a.yaml": text}, entry())
    shard, overlay = made.data(SHARD), made.data(OVERLAY)
    edited = made.files[SHARD].replace(b"What people bought.", b"Edited by somebody.")
    made.files[SHARD] = edited
    rest = {"b.yaml": contract({"name": "customers", "description": "Who buys."})}
    projection = made.run(OdcsSource(), rest, entry(), complete=False)
    assert [each.code for each in projection.warnings] == ["not_written", "kept"]
    assert made.data(OVERLAY) == overlay and made.column("orders", "id") == shard["tables"]["orders"]["columns"][0]
    assert made.entry("orders")["descriptions"]["odcs"] == "Edited by somebody."
    assert made.entry("customers")["descriptions"] == {"odcs": "Who buys."}
    assert made.run(OdcsSource(), rest, entry()).warnings == ()
    assert OVERLAY not in made.files and "constraints" not in made.column("orders", "id")
    assert made.entry("orders")["descriptions"]["odcs"] == "Edited by somebody."


@pytest.mark.parametrize(
    "written",
    [
        "password: hunter2",
        'password: "hunter2"',
        "{type: postgres, password: hunter2}",
        "password: |\n      hunter2\n      and hunter2",
        "token: {value: hunter2}",
    ],
)
def test_passwords_are_not_stored(written: str, tmp_path: Path) -> None:
    folder = tmp_path / "contracts"
    folder.mkdir()
    text = f"kind: DataContract\napiVersion: v3.1.0\nservers:\n  - {written}\n    \n# end\nid: c\n"
    (folder / "a.yaml").write_text(text)
    found = fetched(folder).files["a.yaml"].text()
    assert "hunter2" not in found and found.count("\n") == text.count("\n")
    assert yaml.load(found, where="")["id"] == "c"


KEYS = (
    "name", "physicalName", "description", "businessName", "properties", "relationships", "to", "from", "type",
    "quality", "metric", "mustBe", "arguments", "validValues", "enum", "tags", "classification", "primaryKey",
    "primaryKeyPosition",
    "unique", "required", "servers", "schema", "database", "slaProperties", "property", "value", "element", "status",
    "version", "team", "purpose", "usage", "dataset", "columns", "table", "column",
)  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(),
    st.sampled_from(("orders", "id", "orders.id", "a.yaml#orders.id")),
    st.text(st.characters(codec="utf-8"), max_size=12),
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.sampled_from(KEYS), below, max_size=8),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
@example({"schema": [{"name": "orders", "properties": [{"name": "id", "relationships": [{"to": ["orders.id"]}]}]}]})
def test_no_mapping_raises_anything_but_errors_of_ktx(document: dict[str, Any]) -> None:
    text = yaml.dump({**document, "kind": "DataContract", "apiVersion": "v3.1.0"})
    made = Project({SHARD: SHOP})
    try:
        projection = made.run(OdcsSource(), {"a.yaml": text}, entry())
        declarations_of({"a.yaml": text})
    except KtxError:
        return
    assert made.errors() == []
    assert all(each.place.line >= 1 for each in projection.report)
    before = dict(made.files)
    made.run(OdcsSource(), {"a.yaml": text}, entry())
    assert dict(made.files) == before


@given(VALUES)
def test_any_document_is_a_contract_or_not(document: Any) -> None:
    assert why_no_contract(document) is None or isinstance(why_no_contract(document), str)
