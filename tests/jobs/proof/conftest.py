"""A project with pages, measures and a database, whose arms are attacked and asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.jobs.index import index_project
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.scan.snapshot import manifest_text, table_file
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef
from tests.small_project import change, make_shop_project

SCHEMA = """\
tables:
  orders:
    table: orders
    columns:
      - {name: id, type: number, pk: true}
      - {name: amount, type: number}
      - {name: status, type: string}
      - {name: card_number, type: string}
  customers:
    table: customers
    columns: [{name: id, type: number, pk: true}]
"""
ORDERS = """\
name: orders
column_overrides:
  - {name: status, description: Zebra statuses of orders.}
  - {name: card_number, visibility: hidden}
measures:
  - {name: revenue, expr: sum(amount), filter: "status = 'paid'", description: Zebra revenue counts paid orders.}
  - {name: order_count, expr: count(*), description: How many orders there are.}
  - {name: average_order, expr: revenue / order_count}
"""
PAGES = {
    "zebra-rule": "---\nsummary: What the zebra rule says\nsl_refs: [orders.revenue]\n---\n\n"
    "Zebra orders count twice.\n",
    "refunds": "---\nsummary: How refunds work\n---\n\nRefunds come off. See [[zebra-rule]].\n",
}


def scanned(root: Path, *names: str) -> None:
    """Write what a scan saw: these tables."""
    column = Column("id", "INTEGER", SemanticType.NUMBER)
    files = [table_file(Table(TableRef(None, name), TableKind.TABLE, (column,))) for name in names]
    folder = root / "raw-sources" / "shop" / "live-database"
    for each in files:
        (folder / each.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / each.path).write_bytes(each.content)
    (folder / "manifest.yaml").write_text(manifest_text("shop", "sqlite", {f.path: f.sha256 for f in files}))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A project with two pages, three measures, a hidden column, and a search index."""
    folder = make_shop_project(tmp_path, monkeypatch)
    change(
        folder,
        "DROP TABLE orders",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL, status TEXT, card_number TEXT)",
        "INSERT INTO orders VALUES (1, 10, 'paid', '4111'), (2, 20, 'open', '4222'), (3, 5, 'paid', '4333')",
    )
    layout = Layout(folder)
    for key, text in PAGES.items():
        path = layout.root / "wiki" / "global" / f"{key}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (layout.root / "semantic-layer" / "shop" / "_schema").mkdir(parents=True)
    (layout.root / "semantic-layer" / "shop" / "_schema" / "main.yaml").write_text(SCHEMA)
    (layout.root / "semantic-layer" / "shop" / "orders.yaml").write_text(ORDERS)
    scanned(layout.root, "orders", "customers")
    index_project(layout, load_config(layout.config).config, {}, warn=lambda warning: None)
    return layout
