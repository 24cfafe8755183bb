"""`ktx ingest` of a data catalog in a whole project: texts, pages, joins, hidden values, and what is gone from it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.agents import git
from tests.sources import catalog_exports as catalogs

Run = Callable[..., Any]

SHOP = """
CREATE TABLE customers (cid INTEGER, segment TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer INTEGER, amount REAL, status TEXT);
"""
ORDERS, CUSTOMERS = (catalogs.dataset(f"main.{name}", "sqlite") for name in ("orders", "customers"))


def datahub() -> list[Any]:
    """Return two tables with a foreign key, a restricted column and two terms."""
    key = {
        "name": "fk",
        "sourceFields": [catalogs.field_urn(ORDERS, "buyer")],
        "foreignFields": [catalogs.field_urn(CUSTOMERS, "cid")],
        "foreignDataset": CUSTOMERS,
    }
    amount = catalogs.column("amount", "In euros.", glossaryTerms=catalogs.terms("Revenue"))
    segment = catalogs.column("segment", "Kind.", globalTags=catalogs.tags("Confidential"))
    orders = catalogs.schema(catalogs.column("buyer"), amount, primaryKeys=["id"], foreignKeys=[key])
    customers = catalogs.schema(catalogs.column("cid"), segment, primaryKeys=["cid"])
    return [
        catalogs.mcp(ORDERS, "schemaMetadata", orders),
        catalogs.mcp(CUSTOMERS, "schemaMetadata", customers),
        catalogs.term("Revenue", "The sum of the amounts of paid orders.", "Finance"),
        catalogs.term("Refund", "Money that went back.", "Finance"),
    ]


def openmetadata() -> list[Any]:
    """Return the same catalog as OpenMetadata has it."""
    key = {"constraintType": "FOREIGN_KEY", "columns": ["buyer"], "referredColumns": ["prod.shop.main.customers.cid"]}
    revenue = catalogs.om_tags("Finance.Revenue", source="Glossary")
    amount = catalogs.om_column("amount", description="In euros.", tags=revenue)
    segment = catalogs.om_column("segment", description="Kind.", tags=catalogs.om_tags("PII.Sensitive"))
    id, cid = (catalogs.om_column(name, constraint="PRIMARY_KEY") for name in ("id", "cid"))
    columns = [id, catalogs.om_column("buyer"), amount]
    return [
        catalogs.om_table("prod.shop.main.orders", columns, "SQLite", tableConstraints=[key]),
        catalogs.om_table("prod.shop.main.customers", [cid, segment], "SQLite"),
        catalogs.om_term("Finance.Revenue", "The sum of the amounts of paid orders."),
        catalogs.om_term("Finance.Refund", "Money that went back."),
    ]


def project(work: Path, driver: str, records: Iterable[Any]) -> None:
    with contextlib.closing(sqlite3.connect(work / "shop.sqlite")) as database:
        database.executescript(SHOP)
        people = [(number, ("gold", "silver")[number % 2]) for number in range(1, 40)]
        database.executemany("INSERT INTO customers VALUES (?, ?)", people)
        orders = [(number, 1 + number % 30, number * 1.5, ("open", "paid")[number % 2]) for number in range(300)]
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", orders)
        database.commit()
    (work / "catalog").mkdir()
    (work / "catalog" / "export.json").write_text(catalogs.export(*records))
    connections = {
        "shop": {"driver": "sqlite", "path": "shop.sqlite"},
        "catalog": {"driver": driver, "source_dir": "catalog"},
    }
    settings = {"llm": {"provider": {"backend": "none"}}, "scan": {"enrichment": {"mode": "none"}}}
    (work / "ktx.yaml").write_text(json.dumps({**settings, "connections": connections}))


@pytest.mark.parametrize(("driver", "made"), [("datahub", datahub), ("openmetadata", openmetadata)])
def test_a_catalog_in_a_project(driver: str, made: Callable[[], list[Any]], ktx: Run, work: Path) -> None:
    records = made()
    project(work, driver, records)
    first = ktx("ingest", "--json")
    assert first.code == 0, first.out
    assert [each["code"] for each in first.envelope["warnings"]] == ["classified"]
    shards = "".join(path.read_text() for path in sorted((work / "semantic-layer/shop/_schema").glob("*.yaml")))
    assert "In euros." in shards and 'on": buyer = customers.cid' in shards
    page = (work / "wiki/global/catalog-revenue.md").read_text()
    assert "The sum of the amounts of paid orders." in page and "shop/orders.amount" in page
    assert ktx("wiki", "lint").code == 0 and ktx("config", "validate").code == 0
    with contextlib.closing(sqlite3.connect(work / ".ktx" / "state.sqlite")) as database:
        values = {json.loads(value) for (value,) in database.execute("SELECT value FROM dictionary_values")}
    assert values == {"open", "paid"}, "the restricted column has no list"
    assert "declared in " in ktx("scan", "relationships", "--json").out
    head = git(work, "rev-parse", "HEAD")
    again = ktx("ingest", "--json")
    assert (again.code, again.data["commit"], git(work, "rev-parse", "HEAD")) == (0, None, head)
    (work / "catalog" / "export.json").write_text(catalogs.export(*records[:-1]))
    gone = ktx("ingest", "--json")
    assert gone.code == 0 and gone.data["commit"]
    assert not (work / "wiki/global/catalog-refund.md").exists()
    (work / "catalog" / "export.json").write_text(catalogs.export(*records)[:200])
    broken = ktx("ingest", "--json")
    assert broken.code == 7 and "export.json:2: record 1: it is not valid JSON" in broken.out
    assert (work / "wiki/global/catalog-revenue.md").read_text() == page
