"""A shop that was scanned once: measures, a derived source, a page, a test and golden questions over it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktx_cli.jobs.check.diff import ConnectionDrift, find_drift
from ktx_cli.project.config.file import load_config
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.layout import Layout, WorkingTree
from ktx_cli.scan.pipeline import ScanJob, scan_connection
from ktx_cli.semantic.store.layer import ParsedCopies
from ktx_cli.warehouses.registry import open_connection

TABLES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, country TEXT, nickname TEXT);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, placed_on DATE NOT NULL, amount REAL, status TEXT
);
CREATE TABLE unused (id INTEGER, note TEXT);
"""
FILES: Mapping[str, str] = {
    "ktx.yaml": "connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n",
    "semantic-layer/shop/orders.yaml": """\
name: orders
columns:
  - {name: net, type: number, expr: amount * 0.8}
measures:
  - {name: revenue, expr: sum(amount)}
  - {name: orders_placed, expr: count(*)}
  - {name: net_revenue, expr: sum(net)}
  - {name: mean, expr: revenue / orders_placed}
  - {name: nordic, expr: sum(amount), filter: customers.country = 'NO'}
segments:
  - {name: paid, expr: status = 'paid'}
tests:
  - {name: by country, query: {measures: [orders.orders_placed], dimensions: [customers.country]}, expect: []}
""",
    "semantic-layer/shop/daily.yaml": """\
name: daily
sql: SELECT placed_on, sum(amount) AS total FROM orders GROUP BY placed_on
grain: [placed_on]
columns:
  - {name: placed_on, type: time}
  - {name: total, type: number}
measures:
  - {name: best_day, expr: max(total)}
""",
    "wiki/global/revenue.md": "---\nsummary: Revenue\nsl_refs: [orders.net_revenue]\n---\n\nOf `orders.paid` alone.\n",
    "wiki/global/people.md": "---\nsummary: People\ntables: [customers]\n---\n\nWho buys.\n",
    "evals/shop.yaml": """\
cases:
  - {id: statuses, sql: SELECT count(DISTINCT status) FROM orders, expect: {value: 0}}
  - {id: best, query: {measures: [daily.best_day]}, expect: {value: 0}}
""",
}


class Shop:
    """The project: its database can change, its files too, and it can be scanned again."""

    def __init__(self, root: Path) -> None:
        self.root, self.layout = root, Layout(root)

    @property
    def config(self) -> KtxConfig:
        return load_config(self.layout.config).config

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def execute(self, script: str) -> None:
        database = sqlite3.connect(self.root / "shop.sqlite")
        database.executescript(script)
        database.close()

    def connect(self, driver: str, url: str) -> None:
        self.write("ktx.yaml", f"connections:\n  shop:\n    driver: {driver}\n    url: {url}\n")

    def scan(self, driver: str = "sqlite") -> None:
        """Write what a structural scan would commit."""
        connector, scope = open_connection(self.config, "shop", project_dir=self.root, environ={})
        with connector:
            job = ScanJob("shop", driver, WorkingTree(self.root), ParsedCopies(self.layout, "shop"))
            outcome = scan_connection(connector, scope, job)
        for path, content in outcome.files.items():
            if content is None:
                (self.root / path).unlink()
            else:
                self.write(path, content.decode())

    def diff(self) -> ConnectionDrift:
        drift, self.warnings = find_drift(self.layout, self.config, environ=os.environ)
        (found,) = drift.connections
        assert found.error is None, found.error
        return found

    def used(self, script: str) -> dict[str, set[str]]:
        """Return change -> what refers to it, after a change of the database."""
        self.execute(script)
        return {f"{each.kind.value} {each.what}": {str(use) for use in each.uses} for each in self.diff().changes}


@pytest.fixture(scope="session")
def _scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shop = Shop(tmp_path_factory.mktemp("scanned"))
    for path, text in FILES.items():
        shop.write(path, text)
    shop.execute(TABLES)
    shop.scan()
    return shop.root


@pytest.fixture
def shop(_scanned: Path, tmp_path: Path) -> Shop:
    return Shop(Path(shutil.copytree(_scanned, tmp_path / "shop")))


@pytest.fixture
def bare(tmp_path: Path) -> Shop:
    """A project without a database yet."""
    return Shop(tmp_path / "bare")
