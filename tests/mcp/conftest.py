"""A small company served over the protocol: its files, its database, and a client that asks."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from jsonschema.validators import Draft202012Validator, validator_for

from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp.server import ProjectServer
from ktx_cli.mcp.tool import LONGEST, Options
from ktx_cli.mcp.tools import TOOLS
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing
from ktx_cli.scan.profile.store import save_values
from ktx_cli.scan.profile.values import Dictionary
from ktx_cli.scan.snapshot import manifest_text, table_file
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef
from tests.cli.conftest import forked_workers

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["Company", "Reply", "company", "fits", "forked_workers", "made", "scanned"]

CONFIG = "connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n"
ORDERS = """\
name: orders
table: orders
description: One row per order.
grain: [id]
columns:
  - {name: id, type: number}
  - {name: customer_id, type: number}
  - {name: ordered_at, type: time}
  - {name: amount, type: number, unit: EUR}
  - {name: status, type: string}
joins:
  - {to: customers, on: orders.customer_id = customers.id, relationship: many_to_one}
measures:
  - {name: revenue, expr: sum(amount), filter: "status = 'paid'", description: What paid orders brought in.}
  - {name: order_count, expr: count(*)}
segments:
  - {name: large, expr: amount > 15}
"""
CUSTOMERS = """\
name: customers
table: customers
grain: [id]
columns:
  - {name: id, type: number}
  - {name: country, type: string}
  - {name: email, type: string, visibility: hidden}
measures:
  - {name: reachable, expr: count(email)}
"""
STAFF = """\
name: staff
table: staff
grain: [id]
columns:
  - {name: id, type: number}
  - {name: region, type: string}
  - {name: note, type: string}
measures:
  - {name: people, expr: count(*)}
policies:
  - {name: own_region, filter: "region = {{ user.region }}"}
"""
TABLES = """
CREATE TABLE customers (id INTEGER, country TEXT, email TEXT);
CREATE TABLE orders (id INTEGER, customer_id INTEGER, ordered_at TEXT, amount REAL, status TEXT);
CREATE TABLE staff (id INTEGER, region TEXT, note TEXT);
CREATE TABLE facts (id INTEGER, words TEXT);
INSERT INTO customers VALUES (1, 'NO', 'ada@example.com'), (2, 'SE', 'bo@example.com');
INSERT INTO orders VALUES (1, 1, '2024-01-05', 10, 'paid'), (2, 2, '2024-02-05', 20, 'paid'), (3, 1, '2024-02-07', 5, 'open');
INSERT INTO staff VALUES (1, 'EU', 'quiet'), (2, 'US', 'loud');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
INSERT INTO facts SELECT i, 'words of row ' || i || ' that take some room in an answer' FROM n;
"""  # noqa: E501
FACTS = """\
name: facts
table: facts
grain: [id]
columns:
  - {name: id, type: number}
  - {name: words, type: string}
measures:
  - {name: rows_counted, expr: count(*)}
"""
PAGES = {
    "global/refunds": (
        "summary: What a refund is\ntags: [money]\nsl_refs: [shop/orders.revenue]",
        "A refund is money given back. Look at [[late-orders]] and `source:orders`.",
    ),
    "global/late-orders": ("summary: When an order is late", "After seven days\u200b, as [[refunds]] says."),
    "user/ada/refunds": ("summary: What a refund is to Ada", "My own rule."),
    "user/bo/secret": ("summary: What Bo thinks of refunds", "Not for others: [[refunds]]."),
}


def fits(value: Any, schema: dict[str, Any]) -> None:
    """Check a value against a schema; the schema itself is checked once, which takes most of the time."""
    _validator(json.dumps(schema)).validate(value)


@functools.cache
def _validator(schema: str) -> Any:
    document = json.loads(schema)
    kind = validator_for(document)
    kind.check_schema(document)
    return kind(document)


@dataclass(frozen=True)
class Reply:
    """What a call gave."""

    data: dict[str, Any]
    error: dict[str, Any] | None
    text: str


@dataclass
class Company:
    """A project in a folder, and clients of a server of it."""

    folder: Path
    projects: list[ServedProject] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)
    _portal: BlockingPortal | None = None
    _clients: dict[str, Client] = field(default_factory=dict)

    def close(self) -> None:
        """End the clients and what is served."""
        self._open.close()
        for project in self.projects:
            project.close()

    def write(self, path: str, text: str) -> None:
        """Write a file of the project."""
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")

    def source(self, name: str, text: str) -> None:
        """Write a source of the semantic layer."""
        self.write(f"semantic-layer/shop/{name}.yaml", text)

    def page(self, place: str, head: str, body: str) -> None:
        """Write a page."""
        self.write(f"wiki/{place}.md", f"---\n{head}\n---\n\n{body}\n")

    def run(self, script: str) -> None:
        """Change the database."""
        with sqlite3.connect(self.folder / "shop.sqlite") as database:
            database.executescript(script)
        database.close()

    def snapshot(self, *names: str) -> None:
        """Store what a scan saw: these tables."""
        column = Column("id", "INTEGER", SemanticType.NUMBER)
        files = [table_file(Table(TableRef(None, name), TableKind.TABLE, (column,))) for name in names]
        folder = "raw-sources/shop/live-database"
        for each in files:
            self.write(f"{folder}/{each.path}", each.content.decode())
        self.write(f"{folder}/manifest.yaml", manifest_text("shop", "sqlite", {f.path: f.sha256 for f in files}))

    def documents(self, source: str, files: dict[str, str]) -> None:
        """Configure a folder of documents, and store that a run read them."""
        self.write("ktx.yaml", f"{CONFIG}  {source}:\n    driver: documents\n    path: {source}\n")
        for path, text in files.items():
            self.write(f"{source}/{path}", text)
        hashes = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()}
        with open_for_writing(Layout(self.folder)) as database:
            database.execute(
                "INSERT OR REPLACE INTO fetches (connection, kind, finished, cursor, files, projected)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (source, "files", "2024-01-01T00:00:00.000Z", None, json.dumps(hashes), ""),
            )

    def lists(self, *columns: ColumnValues, privacy: Any = "local", connection: str = "shop") -> None:
        """Store value lists, as a scan does."""
        with open_for_writing(Layout(self.folder)) as database:
            save_values(database, connection, (), Dictionary(columns), privacy=privacy)

    def served(self) -> ServedProject:
        """Return the project as a server keeps it."""
        if not self.projects:
            self.projects.append(ServedProject(Layout(self.folder), {}))
        return self.projects[0]

    def client(self, work: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
        """Let a client of a server in this process do something; one client for each kind of server."""
        from mcp import Client

        key = repr(sorted(options.items()))
        if self._portal is None:
            self._portal = self._open.enter_context(start_blocking_portal())
        if key not in self._clients:
            client = Client(ProjectServer(self.served(), Options(**options)).server)
            self._clients[key] = self._open.enter_context(self._portal.wrap_async_context_manager(client))
        return self._portal.call(work, self._clients[key])

    def call(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Reply:
        """Call a tool; its arguments and its answer fit its schemas, and it is no longer than it may be."""

        async def work(client: Client) -> Reply:
            result = await client.call_tool(name, arguments or {})
            (content,) = result.content
            text = getattr(content, "text", "")
            assert len(text) <= LONGEST
            if result.is_error:
                return Reply({}, json.loads(text)["error"], text)
            (tool,) = (each for each in TOOLS if each.name == name)
            fits(arguments or {}, tool.input_schema())
            fits(result.structured_content, tool.output_schema())
            assert json.loads(text) == result.structured_content
            return Reply(dict(result.structured_content or {}), None, text)

        found: Reply = self.client(work, **options)
        return found

    def whole(self, name: str, part: str, arguments: dict[str, Any], **options: Any) -> tuple[Any, int]:
        """Return what all pages of an answer give together, and how many there were."""
        found: Any = None
        offset, pages = 0, 0
        while True:
            reply = self.call(name, {**arguments, "offset": offset}, **options)
            assert reply.error is None, reply.error
            found = reply.data[part] if found is None else found + reply.data[part]
            pages += 1
            following = reply.data["next_offset"]
            if following is None:
                return found, pages
            assert reply.data["truncated"] and following > offset
            offset = following


@pytest.fixture(scope="session", autouse=True)
def each_schema_is_checked_once() -> Iterator[None]:
    """Have the clients of these tests, one for each call, not check the server's schemas again and again."""
    check, checked = Draft202012Validator.check_schema, set[str]()

    def once(schema: Any, *arguments: Any, **named: Any) -> None:
        text = json.dumps(schema, sort_keys=True)
        if text not in checked:
            check(schema, *arguments, **named)
            checked.add(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", once)
        yield


def made(folder: Path) -> Company:
    """Make the small company in a folder."""
    company = Company(folder)
    shutil.copytree(_files(), folder, dirs_exist_ok=True)
    return company


@functools.cache
def _files() -> Path:
    """Return a folder with the files of the small company, which are copied from it."""
    folder = Path(tempfile.mkdtemp(prefix="ktx-company-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    company = Company(folder)
    company.write("ktx.yaml", CONFIG)
    company.run(TABLES)
    for name, text in {"orders": ORDERS, "customers": CUSTOMERS, "staff": STAFF, "facts": FACTS}.items():
        company.source(name, text)
    for place, (head, body) in PAGES.items():
        company.page(place, head, body)
    company.snapshot("orders", "customers", "staff", "facts")
    return folder


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    company = made(tmp_path)
    yield company
    company.close()


@pytest.fixture
def scanned(company: Company) -> Company:
    """The company after a scan listed its values."""
    company.lists(
        ColumnValues(TableRef(None, "customers"), "country", (("NO", 1), ("SE", 1)), True),
        ColumnValues(TableRef(None, "customers"), "email", (("ada@example.com", 1),), True),
        ColumnValues(TableRef(None, "orders"), "status", (("paid", 2), ("open", 1)), False),
    )
    return company
