"""OpenMetadata's entities as a source: the forms in which they come, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import ConfigError, yaml
from ktx_cli.documents.raw import Snapshot
from ktx_cli.project.layout import Layout
from ktx_cli.scan.relationships.declarations import DeclaredJoin
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.openmetadata import OpenmetadataConnection
from ktx_cli.sources.openmetadata.export import parts_of
from ktx_cli.sources.openmetadata.source import OpenmetadataSource
from ktx_cli.sources.port import FetchContext, Projection
from tests.sources.catalog_exports import export, om_column, om_table, om_tags, om_term
from tests.sources.git_server import ENVIRON
from tests.sources.projecting import SHARD, SHOP, Project

ORDERS, CUSTOMERS, RAW = "prod.dwh.shop.orders", "prod.dwh.shop.customers", "lake.default.raw.orders"


def entry(folder: Any = "x", **more: Any) -> Any:
    return OpenmetadataConnection.model_validate({"driver": "openmetadata", "source_dir": str(folder), **more})


def fetched(folder: Path, files: dict[str, str], last: Snapshot | None = None) -> Snapshot:
    place = folder / "catalog"
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / name).write_text(text)
    previous = {} if last is None else {path: file.sha256 for path, file in last.files.items()}
    cursor = None if last is None else last.cursor
    store = RawStore(folder / "raw")
    context = FetchContext("catalog", Layout(folder), ENVIRON, store, cursor=cursor, previous=previous)
    return OpenmetadataSource().fetch(entry(place), context)


def read(folder: Path, files: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the entities of exports by their IDs."""
    return {(found := json.loads(file.read()))["id"]: found for file in fetched(folder, files).files.values()}


def projected(folder: Path, *values: Any, made: Project | None = None, **more: Any) -> tuple[Project, Projection]:
    made = made or Project({SHARD: SHOP})
    texts = {path: file.text() for path, file in fetched(folder, {"export.json": export(*values)}).files.items()}
    return made, made.run(OpenmetadataSource(), texts, entry(**more))


def lineage(*, by_id: bool) -> dict[str, Any]:
    ends = [{"id": f"id-of-{name}", "type": "table"} for name in (RAW, ORDERS)]
    columns = [{"fromColumns": [f"{RAW}.state"], "toColumn": f"{ORDERS}.status"}]
    source, target = ends if not by_id else [each["id"] for each in ends]
    return {"edge": {"fromEntity": source, "toEntity": target, "lineageDetails": {"columnsLineage": columns}}}


CATALOG = (
    om_table(
        ORDERS,
        [
            om_column("id", constraint="PRIMARY_KEY", description="Number of the order."),
            om_column("customer_id", constraint="NOT_NULL"),
            om_column("status", tags=[*om_tags("PII.Sensitive"), *om_tags("Money.Status", source="Glossary")]),
            om_column("amount", displayName="Order amount", children=[om_column("inner")]),
        ],
        displayName="Orders of the shop",
        description="<p>What people <b>bought</b>.</p><p>All of it.</p>",
        owners=[{"id": "t", "type": "team", "name": "finance", "displayName": "Finance"}],
        domains=[{"id": "d", "type": "domain", "name": "Sales", "fullyQualifiedName": "Sales"}],
        tags=om_tags("Tier.Tier1"),
        tableConstraints=[
            {"constraintType": "FOREIGN_KEY", "columns": ["customer_id"], "referredColumns": [f"{CUSTOMERS}.id"]},
            {"constraintType": "UNIQUE", "columns": ["customer_id", "amount"]},
        ],
    ),
    om_table(CUSTOMERS, [om_column("id")]),
    om_table(RAW, [om_column("state")], service="Mysql"),
    lineage(by_id=False),
    om_term("Money.Status", "Where an order stands.", synonyms=["state"], status="Approved",
            relatedTerms=[{"id": "r", "type": "glossaryTerm", "fullyQualifiedName": "Money.Refund"}]),
    om_term("Money.Refund", "Money that went back.", status="Deprecated"),
    {"name": "Sales", "fullyQualifiedName": "Sales", "domainType": "Source-aligned", "description": "All of selling."},
)  # fmt: skip


def test_what_becomes_of_a_catalog(tmp_path: Path) -> None:
    made, projection = projected(tmp_path, *CATALOG)
    found = made.entry("orders")
    assert found["descriptions"]["openmetadata"] == "What people bought.\nAll of it.\nOwners: Finance\nDomain: Sales"
    assert found["tags"] == {"openmetadata": ["Tier.Tier1"]}
    assert made.column("orders", "id")["constraints"] == {"openmetadata": {"not_null": True, "unique": True}}
    assert made.column("orders", "status")["descriptions"] == {
        "openmetadata": "Terms: Money.Status\nComputed from default.raw.orders.state."
    }
    assert made.data("semantic-layer/shop/orders.yaml") == {
        "name": "orders",
        "label": "Orders of the shop",
        "column_overrides": [{"name": "amount", "label": "Order amount"}],
    }
    page = made.files["wiki/global/analytics-status.md"].decode()
    assert "synonyms:\n  - state\n" in page and "- Related: [[analytics-refund]]" in page
    assert "- Deprecated" in made.files["wiki/global/analytics-refund.md"].decode()
    assert [each.code for each in projection.warnings] == ["classified"] and made.errors() == []
    projected(tmp_path, om_term("Money.Other", "x"), made=made)
    assert made.data(SHARD) == yaml.load(SHOP, where=""), "what is gone from the catalog is taken out"


def test_keys_joins_lineage_and_restricted_columns_are_declared(tmp_path: Path) -> None:
    declared = OpenmetadataSource().declarations(entry(), fetched(tmp_path, {"a.json": export(*CATALOG)}))
    orders = declared.tables[ORDERS]
    assert (orders.name, orders.schema, orders.databases) == ("orders", "shop", ("duckdb",))
    assert (orders.keys, orders.filled) == ((("id",), ("customer_id", "amount")), ("id", "customer_id"))
    assert (orders.restricted, orders.built_from) == (("status",), (RAW,))
    assert (declared.tables[RAW].schema, declared.tables[RAW].databases) == ("raw", ("mysql",))
    assert declared.joins == (DeclaredJoin(ORDERS, ("customer_id",), CUSTOMERS, ("id",)),)


@pytest.mark.parametrize(
    "edge",
    [
        lineage(by_id=False),
        lineage(by_id=True),
        {"from": {"fqn": RAW, "type": "table"}, "to": {"fqn": ORDERS, "type": "table"}},
        {
            "entity": {"id": f"id-of-{ORDERS}", "type": "table"},
            "nodes": [{"id": "other-id", "type": "table", "fullyQualifiedName": RAW}],
            "upstreamEdges": [{"fromEntity": "other-id", "toEntity": f"id-of-{ORDERS}"}],
            "downstreamEdges": [],
        },
        {
            "nodes": {RAW: {"entity": {"id": "other-id", "fullyQualifiedName": RAW}}},
            "upstreamEdges": {"x": {"fromEntity": {"id": "other-id"}, "toEntity": {"fullyQualifiedName": ORDERS}}},
        },
    ],
)
def test_forms_of_lineage(edge: Any, tmp_path: Path) -> None:
    found = read(tmp_path, {"a.json": export(om_table(ORDERS), om_table(RAW), edge)})
    assert found[ORDERS]["built_from"] == [RAW]


def test_requests_of_the_file_sink(tmp_path: Path) -> None:
    records = (
        {"name": "prod", "serviceType": "DuckDB", "connection": {"config": {"password": "hunter2-secret"}}},
        {"name": "dwh", "service": "prod"},
        {
            "name": "orders.old",
            "columns": [om_column("id")],
            "databaseSchema": "prod.dwh.shop",
            "tableConstraints": None,
        },
        {"name": "Revenue", "glossary": "Money", "parent": None, "description": "What came in."},
    )
    found = read(tmp_path, {"a.json": export(*records)})
    assert set(found) == {'prod.dwh.shop."orders.old"', "term:Money.Revenue"}
    table = found['prod.dwh.shop."orders.old"']
    assert (table["parts"], table["platform"]) == (["dwh", "shop", "orders.old"], "duckdb")
    stored = b"".join(path.read_bytes() for path in (tmp_path / "raw").rglob("*") if path.is_file())
    assert b"hunter2" not in stored


def test_csv_exports(tmp_path: Path) -> None:
    glossary = (
        "parent,name*,displayName,description,synonyms,relatedTerms,references,tags,reviewers,owner,glossaryStatus\n"
        ',Revenue,,"What, ""truly"", came in.",turnover;sales,Money.Refund,,,,user:ada@acme.com;team:Finance,Draft\n'
        "Money.Revenue,Net,Net revenue,Without taxes.,,,,,,,Approved\n"
    )
    tables = (
        "name*,displayName,description,owner,tags,glossaryTerms,tiers,domains,entityType*,fullyQualifiedName\n"
        f"orders,,What people bought.,team:Finance,,Money.Revenue,Tier.Tier1,Sales,table,{ORDERS}\n"
        f"status,,Where it stands.,,PII.Sensitive,,,,column,{ORDERS}.status\n"
        f"inner,,x,,,,,,column,{ORDERS}.status.inner\n"
    )
    columns = (
        "column.fullyQualifiedName*,column.displayName,column.description,column.tags,column.glossaryTerms\n"
        f"{ORDERS}.amount,Amount,In euros.,,Money.Revenue\n"
    )
    found = read(
        tmp_path, {"Money.csv": glossary, "tables.csv": tables, "columns.csv": columns, "other.csv": "a,b\n1,2\n"}
    )
    revenue, table = found["term:Money.Revenue"], found[ORDERS]
    assert (revenue["definition"], revenue["synonyms"]) == ('What, "truly", came in.', ["turnover", "sales"])
    assert (revenue["owners"], revenue["status"], revenue["related"]) == (
        ["ada", "Finance"],
        "Draft",
        ["term:Money.Refund"],
    )
    assert found["term:Money.Revenue.Net"]["path"] == ["Money", "Revenue"]
    assert (table["terms"], table["tags"], table["domains"]) == (
        ["term:Money.Revenue"],
        ["Tier.Tier1"],
        ["domain:Sales"],
    )
    assert {each["name"]: each["description"] for each in table["columns"]} == {
        "amount": "In euros.",
        "status": "Where it stands.",
    }
    assert table["nested"] == 1


def test_deleted_and_broken_entities_are_reported(tmp_path: Path) -> None:
    first = fetched(tmp_path, {"a.json": export(*CATALOG)})
    gone = fetched(tmp_path, {"a.json": export(om_table(ORDERS, deleted=True), *CATALOG[1:])}, first)
    assert gone.complete and len(gone.files) == len(first.files) - 1
    assert [each.reason for each in gone.skipped] == ["OpenMetadata marks 1 entity as deleted"]
    bad = {"columns": [om_column("id")], "databaseSchema": "prod.dwh.shop"}
    second = fetched(tmp_path, {"a.json": export(bad, om_table(CUSTOMERS, [{"dataType": "INT"}]), *CATALOG[4:])}, first)
    assert [each.reason for each in second.skipped] == [
        "record 1: the table has no `fullyQualifiedName`, or no `name` and `databaseSchema`",
        "record 2: a column of the table has no `name`",
    ]
    assert not second.complete and second.files.keys() == first.files.keys()


def test_files_of_other_data(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no export of OpenMetadata at"):
        fetched(tmp_path, {"package.json": '{"name": "x"}', "rows.csv": "a,b\n1,2\n"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.b.c", ["a", "b", "c"]),
        ('a.b."c.d"', ["a", "b", "c.d"]),
        ('a."say ""x"".y".c', ["a", 'say "x".y', "c"]),
        ("", []),
    ],
)
def test_parts_of_names(name: str, expected: list[str]) -> None:
    assert parts_of(name) == expected
