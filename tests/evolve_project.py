"""A shop whose context has decayed: a column was renamed, a measure and a page were dropped, and evals that notice."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG = "connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n"
MODEL = """\
llm:
  provider:
    backend: anthropic
    anthropic: {{base_url: '{url}', api_key: 'env:SCRIPTED_KEY'}}
  models: {{default: claude-sonnet-5-5}}
scan: {{privacy: "off"}}
"""
DATABASE = """\
CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL, status TEXT, is_test INTEGER, customer_id INTEGER);
INSERT INTO orders VALUES (1, 10, 'paid', 0, 1), (2, 20, 'open', 0, 1), (3, 5, 'paid', 0, 2), (4, 100, 'paid', 1, 2);
CREATE TABLE customers (id INTEGER PRIMARY KEY, country TEXT);
INSERT INTO customers VALUES (1, 'NO'), (2, 'DE');
"""
ORDERS = """\
name: orders
column_overrides:
  - {name: amount, description: What was paid.}
measures:
  - {name: revenue, expr: sum(amount), filter: "status = 'paid' AND is_test = 0", description: Paid orders.}
  - {name: order_count, expr: count(*)}
  - {name: average, expr: revenue / order_count}
  - {name: open_amount, expr: sum(amount), filter: "status = 'open'", description: What is still to be paid.}
"""
REVENUE = """\
---
summary: What counts as revenue
sl_refs: [orders.revenue, orders.amount]
---

Revenue is the sum of `orders.amount` of paid orders. Orders of tests do not count.
"""
EVALS = """\
cases:
  - id: revenue
    query: {measures: [orders.revenue]}
    expect: {value: 15}
  - id: average
    query: {measures: [orders.average]}
    expect: {value: 3.75}
  - id: count
    query: {measures: [orders.order_count]}
    expect: {value: 4}
  - id: open
    query: {measures: [orders.open_amount]}
    expect: {value: 20}
"""


def git(folder: Path, *words: str) -> str:
    """Run git in a folder as a person, and return what it prints."""
    person = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    done = subprocess.run(["git", *person, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def change(folder: Path, *statements: str) -> None:
    """Run statements on the database of the shop."""
    database = sqlite3.connect(folder / "shop.sqlite")
    for each in statements:
        database.execute(each)
    database.commit()
    database.close()


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files of the project."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def make_shop(folder: Path, scan: Any) -> None:
    """Make the shop and its context, and commit it. `scan`: runs `ktx scan shop`."""
    write(folder, {"ktx.yaml": CONFIG, ".gitignore": "shop.sqlite\n"})
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.executescript(DATABASE)
    database.close()
    scan()
    files = {"semantic-layer/shop/orders.yaml": ORDERS, "wiki/global/revenue.md": REVENUE, "evals/shop.yaml": EVALS}
    write(folder, files)
    commit(folder, "the context of the shop")


def commit(folder: Path, message: str) -> str:
    """Commit everything, and return the commit."""
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD").strip()


def audit(folder: Path, *calls: Mapping[str, Any]) -> None:
    """Write lines into the audit log of the servers for agents."""
    path = folder / ".ktx" / "logs" / "mcp-audit.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"method": "tools/call", "transport": "stdio", "session": "s1", "outcome": "ok"}
    lines = [
        json.dumps({"at": f"2026-01-05T10:00:{number:02}.000Z", **facts, **each}) for number, each in enumerate(calls)
    ]
    with path.open("a") as stream:
        stream.write("\n".join(lines) + "\n")


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of the project but for those that are ktx's and git's own."""
    own = {".git", ".ktx"}
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not own.intersection(path.parts))
    return {os.path.relpath(path, folder): path.read_bytes() for path in found}
