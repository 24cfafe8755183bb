"""What tells the tables of an overlay from those of another, and how often files are read for it."""

from __future__ import annotations

from collections import Counter

import pytest

from ktx_cli.engine.source_phase import digest, may_be_protected, tables
from ktx_cli.engine.work import SourceWork
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic import load_tree
from ktx_cli.sources.deliveries import Delivery
from ktx_cli.sources.documents import DocumentsConnection
from ktx_cli.sources.documents.source import DocumentsSource

SHARD = "semantic-layer/shop/_schema/main.yaml"
OTHER = "semantic-layer/shop/orders.yaml"


class Counting:
    """A tree that counts what is read of it."""

    def __init__(self) -> None:
        self.read_of: Counter[str] = Counter()

    def read(self, path: str) -> bytes | None:
        self.read_of[path] += 1
        return b"tables: {}" if path in (SHARD, OTHER) else None

    def paths(self, prefix: str) -> list[str]:
        return [path for path in (SHARD, OTHER) if path.startswith(prefix)]


@pytest.fixture
def tree() -> Counting:
    return Counting()


def test_a_file_is_read_once_for_all_sources_and_all_looks(tree: Counting) -> None:
    workspace = Workspace(tree)
    works = [SourceWork(connection, None, DocumentsSource()) for connection in "abc"]
    found = [digest(work, each) for each in (workspace, workspace, workspace.child()) for work in works]
    assert len(set(found)) == 1, "they have the same settings and files"
    assert tree.read_of == {SHARD: 1}


def test_settings_are_compared_by_their_values_not_by_the_name_of_their_class(tree: Counting) -> None:
    """A class that is renamed projects nothing again; a setting that changes does."""
    settings = DocumentsConnection(driver="documents", path="docs")

    class Renamed(DocumentsConnection):
        pass

    others = [settings, Renamed(driver="documents", path="docs"), settings.model_copy(update={"path": "handbook"})]
    same, renamed, changed = (digest(SourceWork("a", each, DocumentsSource()), Workspace(tree)) for each in others)
    assert same == renamed != changed


def test_every_state_of_an_overlay_has_its_own(tree: Counting) -> None:
    workspace = Workspace(tree)
    before = tables(workspace)
    workspace.write(OTHER, b"measures: []")
    assert tables(workspace) == before, "definitions are no tables"
    workspace.write(SHARD, b"tables: {orders: {}}")
    written = tables(workspace)
    child = workspace.child()
    child.delete(SHARD)
    assert tables(child) == b""
    assert before != written == tables(workspace)
    workspace.drop(SHARD)
    assert tables(workspace) == before


ORDERS = b"tables: {orders: {table: shop.orders, columns: [{name: id, type: number}]}}"


@pytest.mark.table(
    ("owned", "visibility", "expected"),
    [
        ({"semantic-layer/shop/stg.yaml": {"name": "1", "sql": "2"}}, "hidden", True),
        ({"semantic-layer/shop/stg.yaml": {"name": "1", "sql": "2"}}, "public", False),
        ({"semantic-layer/crm/stg.yaml": {"name": "1", "sql": "2"}}, "hidden", False),
        ({"semantic-layer/shop/orders.yaml": {"measures.paid": "1"}}, "hidden", False),
        ({}, "hidden", False),
    ],
)
def test_queries_of_a_source_are_looked_at_again_where_people_hide_something(
    owned: dict[str, dict[str, str]], visibility: str, expected: bool
) -> None:
    workspace = Workspace(Counting())
    workspace.write(SHARD, ORDERS)
    workspace.write(OTHER, f"name: orders\nvisibility: {visibility}\n".encode())
    work = SourceWork("dbt", None, DocumentsSource(), delivered=Delivery({}, owned))
    assert may_be_protected(work, {"shop": load_tree(workspace, "shop", "duckdb")}) is expected
