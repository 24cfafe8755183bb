"""An index of which only the sources that changed are written is the index of all files, whatever was edited."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from ktx_cli.project.layout import WorkingTree
from ktx_cli.search.corpus import KINDS, Contents, Document, Field, Layer, Scope
from ktx_cli.search.index import Connection, Store, identity, open_index
from ktx_cli.search.searcher import View, behind, open_base, refresh
from ktx_cli.semantic.store.layer import stored_hashes
from tests.semantic.store.test_layer import BASE, CONFIGURED, SHOP, Project, edits

HIDDEN = {"name": "orders", "column_overrides": [{"name": "customer_id", "visibility": "hidden"}]}
INTERNAL = {"name": "orders", "column_overrides": [{"name": "amount", "visibility": "internal"}]}
NAMING = {
    "name": "lines",
    "columns": [{"name": "buyer", "type": "number", "expr": "o.customer_id"}],
    "measures": [{"name": "buyers", "expr": "count(distinct orders.customer_id)"}],
}


def contents_of(project: Project, *, stored: bool) -> Contents:
    root = project.layout.root
    load = project.read if stored else project.loaded
    hashes = functools.partial(stored_hashes, project.layout, SHOP) if stored else dict
    return Contents([Layer(root, SHOP, "duckdb", lambda _: load(), CONFIGURED, hashes)])


def seen(store: Store) -> set[tuple[Any, ...]]:
    """Return the documents of an index, each with its texts."""
    rows = store.database.ask(
        "SELECT d.id, p.unit, p.name, d.kind, d.name, d.summary, d.length, hex(d.digest), t.tag, t.name, t.plain"
        " FROM docs AS d JOIN parts AS p ON p.id = d.part JOIN texts AS t ON t.rowid = d.id"
    )
    return {tuple(row[1:]) for row in rows if row[0] not in store.removed}


def words_of(database: Connection) -> set[str]:
    return {word for (word,) in database.ask("SELECT word FROM spellings")}


def counted_words(store: Store) -> dict[str, int]:
    return dict(store.database.ask("SELECT word, docs FROM spellings"))


def indexed(project: Project, path: Path, *, stored: bool = True) -> Store:
    refresh(path, contents_of(project, stored=stored), WorkingTree(project.layout.root))
    database = open_index(path)
    assert database is not None
    return Store(database)


def searched(project: Project, path: Path) -> View:
    """Return what a search sees that finds an older index."""
    there = identity(path)
    base = None if there is None else open_base(path, there)
    contents, tree = contents_of(project, stored=True), WorkingTree(project.layout.root)
    return View.of(base).changed(contents, tree, behind(base, contents.signatures(), contents, tree))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(edits, edits)
@example([("lines.yaml", NAMING)], [("orders.yaml", HIDDEN)])
@example([("lines.yaml", NAMING), ("orders.yaml", HIDDEN)], [("orders.yaml", BASE["orders.yaml"])])
@example([("lines.yaml", NAMING), ("orders.yaml", HIDDEN)], [("orders.yaml", INTERNAL)])
@example([("orders.yaml", HIDDEN)], [("lines.yaml", NAMING), ("view.yaml", None)])
def test_an_index_is_that_of_its_files_after_any_edit(one: Any, two: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project, path = Project(Path(folder)), Path(folder) / ".ktx" / "search.sqlite"
        project.apply(one)
        project.write()
        assert seen(indexed(project, path)) == seen(indexed(project, path.with_name("first.sqlite"), stored=False))
        project.apply(two)
        whole = indexed(project, path.with_name("second.sqlite"), stored=False)
        view = searched(project, path)
        assert set().union(*map(seen, view.stores)) == seen(whole)
        project.write()
        again = indexed(project, path)
        assert seen(again) == seen(whole)
        assert again.lengths == whole.lengths
        assert counted_words(again) == counted_words(whole)


def edited(project: Project, path: Path, edit: Sequence[tuple[str, Any]]) -> Store:
    project.apply(list(edit))
    project.write()
    return indexed(project, path)


def test_words_that_no_document_has_any_more_leave_the_file(tmp_path: Path) -> None:
    project, path = Project(tmp_path), tmp_path / ".ktx" / "search.sqlite"
    secret = {**BASE["orders.yaml"], "measures": [{"name": "zyzzyva", "expr": "sum(amount)"}]}
    assert "zyzzyva" in words_of(edited(project, path, [("orders.yaml", secret)]).database)
    assert b"zyzzyva" in path.read_bytes()
    after = edited(project, path, [("orders.yaml", BASE["orders.yaml"])])
    assert "zyzzyva" not in words_of(after.database)
    assert "amount" in words_of(after.database)
    assert b"zyzzyva" not in path.read_bytes()


def columns_of(count: int) -> list[Document]:
    """Return as many columns as a large project has, one with two words of which every other has one at most."""
    texts = [f"amount {number}" if number % 2 else f"tax {number}" for number in range(count)]
    texts[count // 2] = "amount tax"
    columns = [
        Document("column", f"orders.c{number}", "shop", text, (Field("name", text, 4.0),), KINDS.index("column"))
        for number, text in enumerate(texts)
    ]
    measure = Document("measure", "orders.amount", "shop", "", (Field("name", "amount", 4.0),), KINDS.index("measure"))
    return [*columns, measure]


@pytest.mark.parametrize("removed", [0, 7])
def test_of_very_many_documents_the_best_are_looked_for_within_bounds(
    removed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.of({"": columns_of(400)})
    first = [number for (number,) in store.database.ask("SELECT id FROM docs WHERE kind = 'column' ORDER BY id")]
    store = store.without(first[:removed])
    exact = store.best(["amount", "tax"], Scope(), 500)
    monkeypatch.setattr("ktx_cli.search.index._LARGE", 10)
    assert store.best(["amount", "tax"], Scope(), 500) == exact, "all of them are few enough"
    monkeypatch.setattr("ktx_cli.search.index._MOST_RANKED", 20)
    rows = {row.name: row for row in store.rows(store.best(["amount", "tax"], Scope(), 30))}
    assert "orders.c200" in rows, "it has both words, and stands behind those that are ranked"
    assert "orders.amount" in rows, "what people govern comes before columns"
    assert not rows.keys() & {f"orders.c{number}" for number in range(removed)}
    assert store.best(["amount"], Scope(kinds=("page",)), 10) == []
    assert store.total(["amount", "tax"], Scope()) == 401 - removed
    assert store.total(["amount", "tax"], Scope(kinds=("measure", "page"))) == 1
    assert store.total(["amount", "tax"], Scope(kinds=("measure", "column"))) == 401 - removed
