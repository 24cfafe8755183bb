"""A project with a small semantic layer over SQLite, written by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ktx_cli.project.config.file import load_config
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.layout import Layout

CONFIG = "connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n"
ORDERS = """\
name: orders
table: orders
grain: [id]
columns:
  - {name: id, type: number}
  - {name: customer_id, type: number}
  - {name: ordered_at, type: time}
  - {name: amount, type: number}
joins:
  - {to: customers, on: orders.customer_id = customers.id, relationship: many_to_one}
measures:
  - {name: revenue, expr: sum(amount)}
"""
CUSTOMERS = """\
name: customers
table: customers
grain: [id]
columns:
  - {name: id, type: number}
  - {name: country, type: string}
"""
TABLES = """
CREATE TABLE customers (id INTEGER, country TEXT);
CREATE TABLE orders (id INTEGER, customer_id INTEGER, ordered_at TEXT, amount REAL);
INSERT INTO customers VALUES (1, 'NO'), (2, 'SE');
INSERT INTO orders VALUES (1, 1, '2024-01-05', 10), (2, 2, '2024-02-05', 20), (3, 1, '2024-02-07', 5);
"""


@dataclass(frozen=True)
class Shop:
    """A project in a folder: its files and its database can be changed."""

    folder: Path

    @property
    def layout(self) -> Layout:
        return Layout(self.folder)

    @property
    def config(self) -> KtxConfig:
        return load_config(self.layout.config).config

    def write(self, name: str, text: str, connection: str = "shop") -> None:
        path = self.folder / "semantic-layer" / connection / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, script: str) -> None:
        with sqlite3.connect(self.folder / "shop.sqlite") as database:
            database.executescript(script)
        database.close()

    def configure(self, text: str) -> None:
        with (self.folder / "ktx.yaml").open("a") as stream:
            stream.write(text)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    made.configure(CONFIG)
    made.run(TABLES)
    made.write("orders.yaml", ORDERS)
    made.write("customers.yaml", CUSTOMERS)
    return made


@pytest.fixture
def edited(shop: Shop) -> Callable[[str, str], None]:
    """Return a function that changes a text in the files of the semantic layer."""

    def edit(old: str, new: str) -> None:
        for path in sorted(shop.folder.glob("semantic-layer/shop/*.yaml")):
            path.write_text(path.read_text().replace(old, new))

    return edit
