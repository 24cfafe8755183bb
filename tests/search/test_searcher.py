"""The index on disk: written by runs alone, only what changed; read without a trace, also when it is broken."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.llm.embeddings import Embedder
from ktx_cli.project.layout import WorkingTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.scan.snapshot import manifest_text, snapshot_path, table_file
from ktx_cli.search import vectors
from ktx_cli.search.corpus import Contents, Layer, Pages, Part, Passage, Passages, Scope, Values
from ktx_cli.search.explanations import explaining_in
from ktx_cli.search.searcher import Refreshed, SearchAnswer, Searcher, refresh
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef

ORDERS = """\
name: orders
table: orders
description: Every order of a customer
grain: [id]
columns:
  - {name: id, type: number}
  - {name: status, type: string}
  - {name: card, type: string, visibility: hidden}
measures:
  - {name: revenue, expr: sum(id), description: Paid turnover in euros}
"""
PAGES = {
    "global/churn": "---\nsummary: Who counts as churned\ntags: [retention]\n---\n\nA customer without orders.\n",
    "global/revenue": "# Net revenue\n\nTurnover after refunds, without taxes.\n",
    "global/umsaetze": "# Umsätze\n\nErlöse je Quartal; 売上高 на русском: выручка.\n",
    "user/ada/revenue": "# My revenue\n\nAda's own words on turnover.\n",
}
NUMBER = SemanticType.NUMBER
VALUES = (
    ColumnValues(TableRef(None, "orders"), "status", (("shipped", 12), ("o'clock", 1)), True),
    ColumnValues(TableRef(None, "orders"), "card", (("4111111111111111", 1),), True),
    ColumnValues(TableRef(None, "unknown"), "status", (("mystery", 1),), True),
)


class Project:
    """A project in a folder, and its index."""

    def __init__(self, root: Path, embedder: Embedder | None = None) -> None:
        self.root, self.path, self.embedder = root, root / ".ktx" / "search.sqlite", embedder
        self.values: Sequence[ColumnValues] = VALUES
        self.passages: Iterable[Passage] | None = [
            Passage("docs#1", "shop", "Handbook", "Parcels leave at noon.", "Dispatch")
        ]
        self.stamp = "1"
        self.path.parent.mkdir()
        self.write("semantic-layer/shop/orders.yaml", ORDERS)
        self.scan("orders")
        for name, text in PAGES.items():
            self.write(f"wiki/{name}.md", text)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def scan(self, *tables: str) -> None:
        columns = (Column("id", "INTEGER", NUMBER),)
        seen = [table_file(Table(TableRef(None, name), TableKind.TABLE, columns)) for name in tables]
        for each in seen:
            self.write(f"raw-sources/shop/live-database/{each.path}", each.content.decode())
        self.write(snapshot_path("shop"), manifest_text("shop", "sqlite", {each.path: each.sha256 for each in seen}))

    def contents(self) -> Contents:
        layer = Layer(self.root, "shop", "sqlite", lambda tree: load_tree(tree, "shop", "sqlite"))
        parts: list[Part] = [Pages(self.root), layer, Values(layer, self.stamp, lambda: self.values)]
        return Contents([*parts, Passages("docs", {"handbook.md": self.stamp}, lambda _: self.passages)])

    def refresh(self, *, check_length: bool = False) -> Refreshed:
        tree = WorkingTree(self.root)
        return refresh(self.path, self.contents(), tree, embedder=lambda: self.embedder, check_length=check_length)

    def searcher(self) -> Searcher:
        return Searcher(self.path, self.contents, WorkingTree(self.root), lambda: self.embedder, look_seconds=0)

    def search(self, query: str, limit: int = 20, **scope: object) -> SearchAnswer:
        searcher = self.searcher()
        try:
            return searcher.search(query, Scope(**scope), limit)  # type: ignore[arg-type]
        finally:
            searcher.close()

    def ids(self, query: str, **scope: object) -> list[tuple[str, str]]:
        return [(hit.kind, hit.id) for hit in self.search(query, **scope).found.hits]

    def codes(self, query: str = "revenue") -> list[str]:
        return [warning.code for warning in self.search(query).warnings]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def traces(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return path -> time, inode and content of everything in a folder; of folders only the time."""
    found = {}
    for path in [root, *root.rglob("*")]:
        stat = path.stat()
        found[str(path)] = (stat.st_mtime_ns, stat.st_ino, path.read_bytes() if path.is_file() else b"")
    return found


@pytest.mark.table(
    ("query", "first"),
    [
        ("revenue", ("page", "revenue")),
        ("orders.revenue", ("measure", "orders.revenue")),
        ("churned customers", ("page", "churn")),
        ("retention", ("page", "churn")),
        ("UMSATZE", ("page", "umsaetze")),
        ("выручка", ("page", "umsaetze")),
        ("売上", ("page", "umsaetze")),
        ("shipped", ("value", "orders.status = 'shipped'")),
        ("oclock o'clock", ("value", "orders.status = 'o''clock'")),
        ("dispatching", ("passage", "docs#1")),
        ("turnoverr", ("page", "revenue")),
        ("turnoverr euros", ("measure", "orders.revenue")),
        ("refu", ("page", "revenue")),
    ],
)
def test_the_first_hit(tmp_path_factory: pytest.TempPathFactory, query: str, first: tuple[str, str]) -> None:
    project = Project(tmp_path_factory.mktemp("project"))
    without = project.search(query).found
    project.refresh()
    assert project.ids(query)[0] == first
    assert project.search(query).found == without, "the same without an index"


def test_words_of_a_column_find_no_values_by_themselves(project: Project) -> None:
    project.refresh()
    assert ("column", "orders.status") in project.ids("status")
    assert not [kind for kind, _ in project.ids("status") if kind == "value"]


def test_searching_leaves_no_trace(project: Project) -> None:
    project.refresh()
    project.write("wiki/global/late.md", "# Late\n\nWritten after the index.\n")
    before = traces(project.root)
    for query in ("revenue", "late", "zzz", "turnoverr"):
        project.search(query)
    overlay = Workspace(WorkingTree(project.root))
    overlay.write("wiki/global/x.md", "# X\n")
    project.searcher().search_tree(overlay, "x")
    assert traces(project.root) == before


def test_without_an_index_nothing_is_made(project: Project) -> None:
    before = traces(project.root)
    assert project.codes() == ["no_index"]
    assert traces(project.root) == before


def test_nothing_changed_writes_nothing(project: Project) -> None:
    first = project.refresh()
    assert (first.rebuilt, first.removed) == (True, 0)
    before = traces(project.root)
    again = project.refresh()
    assert (again.rebuilt, again.added, again.removed, again.units) == (False, 0, 0, 0)
    assert traces(project.root) == before


def test_a_document_that_is_not_on_this_machine_is_read_once_it_is(project: Project) -> None:
    text, project.passages = project.passages, None
    project.refresh()
    assert project.ids("dispatch") == [] and project.codes() == [], "another run would not find it either"
    before = traces(project.root)
    assert project.refresh().units == 0 and traces(project.root) == before
    project.passages = text
    assert project.refresh().added == 1
    assert project.ids("dispatch") == [("passage", "docs#1")]
    assert project.refresh().units == 0
    project.passages, project.stamp = None, "2"
    project.refresh()
    assert project.ids("dispatch") == [], "its former content is not that of the commit"


def test_only_what_changed_is_read_again(project: Project) -> None:
    project.refresh()
    project.write("wiki/global/churn.md", "# Churn\n\nAttrition.\n")
    (project.root / "wiki/global/umsaetze.md").unlink()
    done = project.refresh()
    assert (done.added, done.removed, done.units) == (1, 2, 1)
    assert project.ids("attrition") == [("page", "churn")]
    assert project.ids("retention") == project.ids("выручка") == []


def test_a_file_that_was_only_touched_is_not_behind(project: Project) -> None:
    project.refresh()
    os.utime(project.root / "wiki/global/churn.md", ns=(1, 1))
    assert project.codes() == []
    assert project.refresh().units == 0


@pytest.mark.table(
    ("path", "text", "query", "found"),
    [
        ("wiki/global/churn.md", "# Churn\n\nAttrition.\n", "attrition", ("page", "churn")),
        ("wiki/global/new.md", "# New\n\nAttrition.\n", "attrition", ("page", "new")),
        (
            "semantic-layer/shop/orders.yaml",
            ORDERS.replace("Paid", "Attrition"),
            "attrition",
            ("measure", "orders.revenue"),
        ),
    ],
)
def test_what_changed_since_is_found_and_told(
    tmp_path_factory: pytest.TempPathFactory, path: str, text: str, query: str, found: tuple[str, str]
) -> None:
    project = Project(tmp_path_factory.mktemp("project"))
    project.refresh()
    project.write(path, text)
    answer = project.search(query)
    assert [(hit.kind, hit.id) for hit in answer.found.hits] == [found]
    assert [warning.code for warning in answer.warnings] == ["index_behind"]
    assert answer.warnings[0].message.startswith("the search index is behind by 1 file")
    old = {hit.id: hit.summary for hit in project.search("paid churned").found.hits}
    assert len(old) == len(project.search("paid churned").found.hits), "nothing is found in its old form too"
    project.refresh()
    assert [(hit.kind, hit.id) for hit in project.search(query).found.hits] == [found]


def test_a_deleted_page_is_not_found_before_the_next_run(project: Project) -> None:
    project.refresh()
    (project.root / "wiki/global/churn.md").unlink()
    assert project.ids("retention") == []
    assert project.codes() == ["index_behind"]


def test_a_long_lived_searcher_sees_changes_and_a_new_index(project: Project) -> None:
    searcher = project.searcher()
    assert [each.code for each in searcher.search("revenue").warnings] == ["no_index"]
    project.refresh()
    assert searcher.search("revenue").warnings == ()
    project.write("wiki/global/new.md", "# New\n\nAttrition.\n")
    assert [hit.id for hit in searcher.search("attrition").found.hits] == ["new"]
    searcher.close()


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def make_text(path: Path) -> None:
    path.write_text("this is no database, and never was one")


def spoil_the_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8192 : len(content) - 4096] = os.urandom(len(content) - 12288)
    path.write_bytes(content)


def other_version(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 9999")
    database.close()


@pytest.mark.parametrize("spoil", [cut_in_half, make_text, spoil_the_middle, other_version])
def test_an_index_that_cannot_be_used_is_told_and_built_again(project: Project, spoil: object) -> None:
    project.refresh()
    good = project.search("turnover of customers").found
    spoil(project.path)  # type: ignore[operator]
    answer = project.search("turnover of customers")
    assert answer.found == good
    assert [(warning.code, warning.hint) for warning in answer.warnings] == [("no_index", "ktx index")]
    assert project.refresh().rebuilt
    assert project.search("turnover of customers") == SearchAnswer(good)


def test_a_run_that_fails_leaves_the_index_as_it_was(project: Project) -> None:
    project.refresh()
    before = traces(project.root)
    project.stamp, project.passages = "2", (1 / 0 for _ in range(1))  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        project.refresh()
    assert traces(project.root) == before


def test_links_to_folders_and_to_nothing_are_no_pages(project: Project) -> None:
    (project.root / "wiki/global/loop").symlink_to(project.root / "wiki")
    (project.root / "wiki/global/dangling.md").symlink_to(project.root / "nothing")
    pages = [path for path in project.contents().signatures() if path.startswith("wiki/")]
    assert sorted(pages) == sorted(f"wiki/{name}.md" for name in PAGES)


def test_the_file_is_its_owners_alone(project: Project) -> None:
    project.refresh()
    assert project.path.stat().st_mode & 0o777 == 0o600


def test_kinds_and_connections(project: Project) -> None:
    project.refresh()
    assert {kind for kind, _ in project.ids("turnover revenue", kinds=("page",))} == {"page"}
    assert project.ids("revenue", connection="other") == [("page", "revenue")], "pages belong to no connection"
    assert ("measure", "orders.revenue") in project.ids("revenue", connection="shop")


def test_pages_of_a_user_stand_in_for_those_of_everybody(project: Project) -> None:
    project.refresh()
    for given in (None, "bob"):
        hits = project.search("turnover", kinds=("page",), user=given).found.hits
        assert [hit.snippet for hit in hits] == ["# Net revenue Turnover after refunds, without taxes."]
    hits = project.search("turnover", kinds=("page",), user="ada").found.hits
    assert [hit.snippet for hit in hits] == ["# My revenue Ada's own words on turnover."]


def test_values_of_hidden_columns_and_unknown_tables_are_not_indexed(project: Project) -> None:
    project.refresh()
    assert project.ids("4111111111111111") == project.ids("mystery") == []
    content = project.path.read_bytes()
    assert b"4111111111111111" not in content
    assert b"mystery" not in content


def test_a_value_withheld_from_now_on_is_not_found_and_leaves_the_file(project: Project) -> None:
    project.refresh()
    assert b"shipped" in project.path.read_bytes()
    project.values, project.stamp = VALUES[1:], "2"
    assert project.ids("shipped") == []
    project.refresh()
    assert b"shipped" not in project.path.read_bytes()


def test_values_of_a_source_that_has_the_same_ones_are_not_written_again(project: Project) -> None:
    project.write("semantic-layer/shop/parcels.yaml", "name: parcels\ntable: parcels\ncolumns: [{name: size}]\n")
    project.scan("orders", "parcels")
    size = ColumnValues(TableRef(None, "parcels"), "size", (("small", 3), ("large", 4)), True)
    project.values = (*VALUES, size)
    project.refresh()
    project.values = (*VALUES, replace(size, values=(("small", 3), ("huge", 4))))
    project.stamp, project.passages = "2", None
    done = project.refresh()
    assert (done.added, done.removed) == (1, 2), "one value each, and the passage"
    assert project.ids("huge") == [("value", "parcels.size = 'huge'")]
    assert project.ids("large") == [] and ("value", "orders.status = 'shipped'") in project.ids("shipped")
    project.write("semantic-layer/shop/parcels.yaml", "name: parcels\ntable: parcels\ncolumns: [{name: id}]\n")
    project.refresh()
    assert project.ids("huge") == [] and b"huge" not in project.path.read_bytes()


def test_files_are_not_looked_at_for_every_query(project: Project) -> None:
    project.refresh()
    searcher = Searcher(project.path, project.contents, WorkingTree(project.root), look_seconds=3600)
    assert searcher.search("attrition").found.hits == ()
    project.write("wiki/global/new.md", "# New\n\nAttrition.\n")
    assert searcher.search("attrition").found.hits == ()
    project.refresh()
    assert [hit.id for hit in searcher.search("attrition").found.hits] == ["new"], "a new index is seen at once"
    searcher.close()


def test_an_overlay_is_searched_as_it_is(project: Project) -> None:
    project.refresh()
    overlay = Workspace(WorkingTree(project.root))
    overlay.write("wiki/global/new.md", "# New\n\nAttrition.\n")
    overlay.delete("wiki/global/churn.md")
    overlay.write("semantic-layer/shop/orders.yaml", ORDERS.replace("revenue", "takings"))
    searcher = project.searcher()

    def ids(query: str) -> list[str]:
        return [hit.id for hit in searcher.search_tree(overlay, query).found.hits]

    assert ids("attrition") == ["new"]
    assert ids("retention") == []
    assert ids("takings") == ["orders.takings", "orders"]
    assert "orders.revenue" not in ids("revenue")
    assert project.ids("attrition") == []
    searcher.close()


class Stub:
    """Vectors of what words mean: customers who leave, money, the rest."""

    def __init__(self, model: str = "stub") -> None:
        self.model, self.dimensions, self.batch_size = model, 3, 2
        self.texts: list[str] = []
        self.fails = False

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.fails:
            raise SourceError("the embeddings server cannot be reached", hint="start it")
        self.texts += texts
        groups = (("churn", "depart", "retention"), ("revenue", "turnover", "income"), ("parcel", "order"))
        return [[float(sum(text.lower().count(word) for word in group)) for group in groups] for text in texts]


class Longer(Stub):
    """The same model, whose vectors now have another length."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[*vector, 0.5] for vector in super().embed(texts)]


class Stating(Stub):
    """A model whose files state the length of its vectors."""

    def stated_length(self) -> int | None:
        return 3


class StatingOther(Longer):
    """A model with other files than before."""

    def stated_length(self) -> int | None:
        return 4


@pytest.fixture
def meaning(tmp_path: Path) -> Iterator[tuple[Project, Stub]]:
    stub = Stub()
    yield Project(tmp_path, stub), stub


def test_vectors_find_what_no_word_has(meaning: tuple[Project, Stub]) -> None:
    project, _ = meaning
    done = project.refresh()
    assert (done.error, done.vectors) == (None, done.documents - 2), "all but the two values"
    (first, *_) = project.search("departing").found.hits
    assert (first.id, first.matched_on) == ("churn", ("meaning",))
    assert project.codes() == []
    hit = next(hit for hit in project.search("churned").found.hits if hit.id == "churn")
    assert "meaning" in hit.matched_on and len(hit.matched_on) > 1


def test_vectors_find_the_tables_of_a_question_that_shares_no_word_with_them(meaning: tuple[Project, Stub]) -> None:
    project, stub = meaning
    project.refresh()

    def names() -> tuple[list[str], list[str]]:
        searcher = project.searcher()
        try:
            tables, warnings = searcher.tables("income", lambda connection, source: ())
        finally:
            searcher.close()
        return [each.name for each in tables if each.own > 0], [each.code for each in warnings]

    assert names() == (["orders"], [])
    stub.fails = True
    assert names() == ([], ["no_vectors"])


@pytest.mark.parametrize("changed", [False, True])
def test_a_model_with_vectors_of_another_length_embeds_all_again(
    meaning: tuple[Project, Stub], *, changed: bool
) -> None:
    project, _ = meaning
    known = project.refresh().vectors
    project.embedder = Longer()
    assert project.codes("departing") == ["no_vectors"]
    assert project.refresh().vectors == 0, "a run without changes asks the model for nothing"
    if changed:
        project.write("wiki/global/new.md", "# New\n\nA parcel.\n")
    assert project.refresh(check_length=not changed).vectors == known + changed
    assert project.codes("departing") == [] and ("page", "churn") in project.ids("departing")
    assert project.refresh(check_length=True).vectors == 0


def test_a_model_is_not_loaded_if_its_files_state_that_nothing_changed(project: Project) -> None:
    project.embedder = stating = Stating()
    known = project.refresh(check_length=True).vectors
    stating.texts.clear()
    assert project.refresh(check_length=True).vectors == 0 and stating.texts == []
    project.embedder = StatingOther()
    assert project.refresh(check_length=True).vectors == known


def test_values_of_rows_are_given_to_no_model(meaning: tuple[Project, Stub]) -> None:
    project, stub = meaning
    project.refresh()
    assert stub.texts
    assert not [text for text in stub.texts if "shipped" in text]


def test_only_new_texts_are_embedded(meaning: tuple[Project, Stub]) -> None:
    project, stub = meaning
    project.refresh()
    stub.texts.clear()
    project.write("wiki/global/new.md", "# New\n\nIncome.\n")
    assert project.refresh().vectors == len(stub.texts) == 1


def test_vectors_of_another_model_are_not_compared_and_made_again(meaning: tuple[Project, Stub]) -> None:
    project, _ = meaning
    project.refresh()
    project.embedder = Stub("another")
    answer = project.search("departing")
    assert answer.found.hits == ()
    assert [(each.code, each.hint) for each in answer.warnings] == [("no_vectors", "ktx index")]
    assert project.refresh().vectors > 0
    assert project.ids("departing")[0] == ("page", "churn")
    project.embedder = None
    assert project.refresh().vectors == 0
    assert project.codes() == []


def test_without_the_model_words_are_searched_and_indexed_all_the_same(meaning: tuple[Project, Stub]) -> None:
    project, stub = meaning
    project.refresh()
    stub.fails = True
    assert project.codes("churned") == ["no_vectors"]
    assert ("page", "churn") in project.ids("churned")
    project.write("wiki/global/new.md", "# New\n\nAttrition.\n")
    done = project.refresh()
    assert isinstance(done.error, SourceError)
    assert project.ids("attrition") == [("page", "new")]


def test_without_numpy_the_order_is_the_same_up_to_a_bound(
    meaning: tuple[Project, Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, _ = meaning
    project.refresh()
    with_numpy = project.ids("departing income")
    monkeypatch.setattr(vectors, "_numpy", lambda: None)
    assert project.ids("departing income") == with_numpy
    monkeypatch.setattr(vectors, "PLAIN_BOUND", 5)
    answer = project.search("churned income")
    assert [each.code for each in answer.warnings] == ["vectors_bounded"]
    assert ("page", "churn") in [(hit.kind, hit.id) for hit in answer.found.hits]
    assert project.ids("departing") == [], "compared is only what words found"


NAMING = {
    "global/turnover": "---\nsl_refs: [orders.revenue]\n---\n\nWhat it is.\n",
    "global/sales": "The same as `shop/orders.revenue`.\n",
    "global/elsewhere": "Of another connection: `hr/orders.revenue`.\n",
    "user/ada/mine": "Mine: `orders.revenue`.\n",
}


def naming(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    for name, text in NAMING.items():
        project.write(f"wiki/{name}.md", text)
    return project


@pytest.mark.parametrize("indexed", [True, False])
def test_a_measure_names_the_pages_that_name_it(tmp_path: Path, indexed: bool) -> None:
    project = naming(tmp_path)
    if indexed:
        project.refresh()
    hits = {hit.id: hit.pages for hit in project.search("revenue orders id").found.hits}
    assert hits["orders.revenue"] == ("sales", "turnover")
    assert hits["orders"] == hits["revenue"] == ()
    own = {hit.id: hit.pages for hit in project.search("revenue", user="ada").found.hits}
    assert own["orders.revenue"] == ("mine", "sales", "turnover")


def test_the_pages_about_a_name_follow_the_files(tmp_path: Path) -> None:
    project = naming(tmp_path)
    project.refresh()
    (tmp_path / "wiki/global/sales.md").unlink()
    project.write("wiki/global/fresh.md", "New: `orders.revenue`.\n")
    searcher = project.searcher()
    assert searcher.explaining("shop", ["orders.revenue", "orders.other"]) == {"orders.revenue": ("fresh", "turnover")}
    searcher.close()
    project.refresh()
    assert explaining_in(project.path, "shop", ["orders.revenue"]) == {"orders.revenue": ("fresh", "turnover")}


def test_an_index_that_cannot_be_read_explains_nothing(tmp_path: Path) -> None:
    project = naming(tmp_path)
    assert explaining_in(project.path, "shop", ["orders.revenue"]) == {}
    project.path.write_bytes(b"no database at all")
    assert explaining_in(project.path, "shop", ["orders.revenue"]) == {}


def test_a_form_of_a_word_that_no_document_has_any_more_is_not_suggested(project: Project) -> None:
    project.write("wiki/global/returns.md", "# Returns\n\nThe policies of returns.\n")
    project.write("wiki/global/refunds.md", "# Refunds\n\nThe policy of refunds.\n")
    project.refresh()
    assert dict(project.search("polices returns").found.suggested) == {"polices": "policies"}
    assert sorted(project.ids("policie")) == [("page", "refunds"), ("page", "returns")]
    project.write("wiki/global/returns.md", "# Returns\n\nThe terms of returns.\n")
    project.refresh()
    found = project.search("polices returns").found
    assert (dict(found.corrected), dict(found.suggested)) == ({}, {})
    assert project.ids("policie") == []
