"""A small shop in memory: a manifest, an overlay, a page, a database that answers, and a way to call tools."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.agent_tools.toolset import tools_for
from ktx_cli.core.errors import SourceError
from ktx_cli.documents.raw import RawFile
from ktx_cli.llm.tools import check_tools, invoke
from ktx_cli.llm.types import ToolInvocation
from ktx_cli.project.workspace import Workspace
from ktx_cli.prompts.prompts import load_skills
from ktx_cli.scan.snapshot import manifest_text, table_file
from ktx_cli.warehouses.port import QueryResult, Table, TableKind, TableRef

MANIFEST = """\
tables:
  orders:
    table: orders
    descriptions: {db: Orders of customers.}
    columns:
      - {name: id, type: number, pk: true}
      - {name: customer_id, type: number}
      - {name: amount, type: number, descriptions: {db: Gross amount.}}
      - {name: status, type: string, enum_values: {dbt: [open, paid]}}
      - {name: ordered_at, type: time}
    joins:
      - {to: customers, on: customer_id = customers.id, relationship: many_to_one, source: formal}
  customers:
    table: customers
    columns:
      - {name: id, type: number, pk: true}
      - {name: email, type: string}
      - {name: region, type: string}
"""
OVERLAY = """\
name: orders  # people's
measures:
  - {name: revenue, expr: sum(amount)}
"""
SECRET = """\
name: customers
policies:
  - {name: own, filter: "region = {{ user.region }}"}
column_overrides:
  - {name: email, visibility: hidden}
"""
PAGE = """\
---
summary: What revenue is.
tags: [finance]
sl_refs: [orders.revenue]
stale_since: 2026-01-01
---

Revenue is gross.
"""


def snapshot(*tables: Table) -> dict[str, str | bytes | None]:
    """Return what the last scan wrote of the shop."""
    folder = "raw-sources/shop/live-database"
    files = [table_file(each) for each in tables]
    listing = manifest_text("shop", "sqlite", {each.path: each.sha256 for each in files})
    return {f"{folder}/manifest.yaml": listing, **{f"{folder}/{each.path}": each.content for each in files}}


def relation(name: str, kind: TableKind = TableKind.TABLE, sql: str | None = None, schema: str | None = None) -> Table:
    return Table(TableRef(schema, name), kind, (), view_sql=sql)


TABLES = tuple(map(relation, ("orders", "customers", "staging")))


class Files:
    """Files in memory."""

    def __init__(self, files: dict[str, str | bytes]) -> None:
        self._files = {path: each.encode() if isinstance(each, str) else each for path, each in files.items()}

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def paths(self, prefix: str) -> Iterable[str]:
        return [path for path in sorted(self._files) if path.startswith(prefix)]


def raw_file(path: str, content: str | bytes) -> RawFile:
    data = content.encode() if isinstance(content, str) else content
    return RawFile(path, hashlib.sha256(data).hexdigest(), len(data), lambda: data)


def database() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:", check_same_thread=False)
    made.executescript(
        """
        CREATE TABLE orders (id INTEGER, customer_id INTEGER, amount REAL, status TEXT, ordered_at TEXT);
        INSERT INTO orders VALUES (1, 1, 10.5, 'paid', '2026-01-01'), (2, 1, 4, 'open', '2026-01-02');
        CREATE TABLE customers (id INTEGER, email TEXT, region TEXT);
        INSERT INTO customers VALUES (1, 'ada@example.com', 'EU');
        CREATE TABLE staging (order_id INTEGER, note TEXT);
        """
    )
    return made


@dataclass
class Shop:
    """A session and how to call its tools."""

    session: ToolSession
    stage: str = "unit"
    statements: list[str] = field(default_factory=list)
    calls: list[ToolInvocation] = field(default_factory=list)

    def call(self, name: str, /, **arguments: Any) -> ToolInvocation:
        tools = check_tools(tools_for(self.session, self.stage))  # type: ignore[arg-type]
        done = asyncio.run(invoke(tools, name, arguments, f"c{len(self.calls)}"))
        self.calls.append(done)
        return done

    def ok(self, name: str, /, **arguments: Any) -> str:
        done = self.call(name, **arguments)
        assert not done.is_error, done.text
        return done.text

    def refused(self, name: str, /, **arguments: Any) -> str:
        done = self.call(name, **arguments)
        assert done.is_error, done.text
        return done.text

    def text(self, path: str) -> str | None:
        return self.session.workspace.read_text(path)


FILES: dict[str, str | bytes] = {
    "semantic-layer/shop/_schema/main.yaml": MANIFEST,
    "semantic-layer/shop/orders.yaml": OVERLAY,
    "wiki/global/revenue.md": PAGE,
    **{path: content for path, content in snapshot(*TABLES).items() if content is not None},
}


@pytest.fixture
def shop() -> Callable[..., Shop]:
    """Return a maker of sessions; `files` are put over those of the shop, None takes one away."""

    def make(*, files: dict[str, str | bytes | None] | None = None, stage: str = "unit", **fields: Any) -> Shop:
        there = {path: each for path, each in {**FILES, **(files or {})}.items() if each is not None}
        raw = fields.pop("raw", {"docs/a.md": raw_file("docs/a.md", "# A\nText\n")})
        base = database()
        found = Shop(
            ToolSession(
                Workspace(Files(there)).child(),
                fields.pop("connections", {"shop": "sqlite"}),
                raw=raw,
                files=fields.pop("names", tuple(raw)),
                origin="docs (files)",
                skills=load_skills(),
                **fields,
            ),
            stage,
        )

        def run(connection: str, sql: str, limit: int) -> QueryResult:
            found.statements.append(sql)
            try:
                cursor = base.execute(sql)
            except sqlite3.Error as error:
                raise SourceError(str(error), code="query") from error
            rows = cursor.fetchmany(limit)
            return QueryResult(tuple(each[0] for each in cursor.description), tuple(rows))

        if found.session.run_sql is None:
            found.session.run_sql = run
        return found

    return make
