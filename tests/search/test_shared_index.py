"""The index in Postgres: the results of the index in a file, for any documents, and for several working trees."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.agent_tools.searcher import contents_of
from ktx_cli.core import StorageError
from ktx_cli.project import SharedDatabase, Tree, load_config
from ktx_cli.project.layout import Layout, WorkingTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.search.corpus import KINDS, Contents, Document, Field, Scope, WholeUnits
from ktx_cli.search.index import Store
from ktx_cli.search.location import SharedIndex
from ktx_cli.search.ranking import found, rank
from ktx_cli.search.searcher import Searcher, refresh
from ktx_cli.search.shared_index import _known_tree, explaining_in_tree, where_compared
from ktx_cli.search.shared_session import PREFIX, SearchSession, close_search_readers, reader_of
from ktx_cli.search.shared_store import SharedStore
from ktx_cli.search.shared_writer import drop_old
from ktx_cli.search.store import IndexStore
from ktx_cli.search.tables import find_tables
from ktx_cli.testing.servers import PostgresServer
from tests.search.test_demo_questions import SETS, prepared
from tests.search.test_searcher import Longer, Project, Stating, Stub

_NUMBERS = itertools.count()


def database_on(server: PostgresServer, **parameters: str) -> SharedDatabase:
    login = {"user": server.user, "password": server.password, "dbname": "postgres"}
    place = {"host": server.host, "port": str(server.port), **login, **parameters}
    return SharedDatabase(place, f"ktx_search_{os.getpid()}_{next(_NUMBERS)}")


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[SharedDatabase]:
    made = database_on(postgres_server)
    yield made
    close_search_readers()
    postgres_server.execute(f'DROP SCHEMA IF EXISTS "{made.schema}" CASCADE')


class Written(WholeUnits):
    """Units with given documents."""

    def __init__(self, units: dict[str, Sequence[Document]]) -> None:
        self._units = units

    def signatures(self) -> dict[str, str]:
        return dict.fromkeys(sorted(self._units), "")

    def units(self, tree: Tree) -> Iterable[str]:
        return self._units

    def owns(self, unit: str) -> bool:
        return True

    def units_of(self, path: str) -> Sequence[str]:
        return ()

    def digest(self, unit: str, tree: Tree) -> str:
        return f"{hash(tuple(self._units[unit])):x}" if unit in self._units else ""

    def all_documents(self, unit: str, tree: Tree) -> Iterable[Document]:
        return self._units.get(unit, ())


def stored(units: dict[str, Sequence[Document]], database: SharedDatabase, folder: Path) -> SharedStore:
    """Return the store of a tree with these units."""
    index = SharedIndex(database, folder / "memo.json")
    done = refresh(index, Contents([Written(units)]), WorkingTree(folder))
    session = reader_of(database)
    store = SharedStore(session, json.loads(index.memo.read_text("utf-8"))["tree"])
    assert done.documents == store.count
    return store


_WORDS = """
order orders ordered revenue revenues net netRevenue churn customer customers custom status refund refunds Größe Umsatz
Umsatzziel country countries carton cartoon salary 売上高 tax taxes quarter q1 2024 the of by how many
"""
WORDS = _WORDS.split()
QUESTIONS = [
    *("revenue", "orders", "net revenue", "netrevenue", "ord", "cust", "custmer", "refnud", "umsatzziele", "grosse"),
    *("how many customers ordered by country", "the of by", "売上", "who set the taxes of the quarter", "2024 q1"),
    *("which customers churned in the last quarter and why", "salery countris", "status status status"),
]
SCOPES = [
    Scope(),
    Scope(internal=True),
    Scope(user="ada"),
    Scope(connection="shop"),
    Scope(tag="money"),
    Scope(kinds=("page", "value")),
    Scope(kinds=("measure",), connection="shop", internal=True),
]
STRANGE = ["w" * 3000, "a\0b order", "\ud800 revenue", "'\\ order\t\\N"]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
anything = st.one_of(
    texts, st.text(max_size=40), st.sampled_from(["w" * 3000, "a\0b order", "\ud800 revenue", "'\\ order"])
)
fields = st.lists(
    st.builds(Field, st.sampled_from("abc"), anything, st.sampled_from([4.0, 3.0, 2.0, 1.0, 0.5, 0.25])), max_size=4
)
documents = st.builds(
    Document,
    st.sampled_from(KINDS),
    st.sampled_from(["orders.revenue", "orders", "churn", "net-revenue", "orders.status = 'x'", "a\0b"]),
    st.sampled_from(["", "shop", "web"]),
    anything,
    fields.map(tuple),
    st.integers(0, 3),
    st.sampled_from(["", "", "ada", "bob"]),
    st.booleans(),
    st.lists(st.sampled_from(["money", "other", "t" * 3000]), max_size=2).map(tuple),
    st.lists(st.sampled_from(["orders", "shop/orders", "orders.revenue"]), max_size=2, unique=True).map(tuple),
)
corpora = st.dictionaries(st.sampled_from(["a", "b", "c", "d\0"]), st.lists(documents, max_size=12), min_size=1)


def results(store: IndexStore, query: str, scope: Scope) -> Any:
    """Return what a search and the search for tables find, with rounded scores."""
    stores = [store]
    hits = found(stores, rank(stores, query, scope, 5), 5, scope.user)
    tables = find_tables(stores, query, scope, lambda connection, source: (), 5)
    listed = [(each.kind, each.id, each.connection, each.summary, each.snippet, each.matched_on) for each in hits.hits]
    scores = [round(each.score, 6) for each in hits.hits], [round(each.score, 6) for each in tables]
    pages = [each.pages for each in hits.hits]
    return listed, scores, pages, hits.total, dict(hits.corrected), dict(hits.suggested), [each.name for each in tables]


def in_memory(units: dict[str, Sequence[Document]]) -> Store:
    unique = {unit: {hash(each): each for each in units[unit]}.values() for unit in sorted(units)}
    return Store.of(unique)


TABLES = ("trees", "units", "parts", "root_parts", "docs", "postings", "terms", "words", "mentions", "vectors")


def emptied(server: PostgresServer, database: SharedDatabase) -> None:
    server.execute("TRUNCATE " + ", ".join(f'"{database.schema}".{PREFIX}{each}' for each in TABLES))


@pytest.fixture
def created(database: SharedDatabase, tmp_path: Path) -> SharedDatabase:
    stored({"a": []}, database, tmp_path)
    return database


_UNHURRIED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def assert_same(shared: IndexStore, local: IndexStore, queries: Iterable[str], scopes: Iterable[Scope]) -> None:
    for query, scope in itertools.product(queries, scopes):
        assert results(shared, query, scope) == results(local, query, scope), (query, scope)


some_questions = st.lists(st.sampled_from(QUESTIONS), min_size=3, max_size=3, unique=True)
some_scopes = st.lists(st.sampled_from(SCOPES), min_size=2, max_size=2)


@pytest.mark.timeout(300)
@settings(max_examples=5, deadline=None, suppress_health_check=_UNHURRIED)
@given(corpora, some_questions, some_scopes)
def test_any_documents_are_found_as_in_a_file(
    created: SharedDatabase,
    postgres_server: PostgresServer,
    units: dict[str, list[Document]],
    queries: list[str],
    scopes: list[Scope],
) -> None:
    emptied(postgres_server, created)
    with tempfile.TemporaryDirectory() as folder:
        shared, local = stored(units, created, Path(folder)), in_memory(units)
    assert (shared.count, shared.lengths.keys()) == (local.count, local.lengths.keys())
    assert_same(shared, local, queries, scopes)
    for scope, wanted in itertools.product(scopes, (1, 3, 100)):
        terms = ["order", "revenu", "custom", "net"]
        found, expected = shared.best(terms, scope, wanted), local.best(terms, scope, wanted)
        assert len(found) == len(expected), "which of several equal documents is cut off may differ"
        assert sorted(found) == sorted(expected) or wanted < 100
        assert shared.total(terms, scope) == local.total(terms, scope)
        assert shared.within(scope) == local.within(scope)
    assert [shared.having(each) for each in terms] == [local.having(each) for each in terms]


PLAIN = """
order orders ordering revenue revenues policy policies policing churn churned status country countries salary salaries
"""
RARE = [begin + end for begin in ("order", "polic", "churn", "stat") for end in ("ara", "eli", "ino", "ona", "umaed")]
"""Words that few pages have, so that an edit often adds the first one or deletes the last one."""
page = st.builds(
    lambda plain, rare: " ".join([*plain, rare]),
    st.lists(st.sampled_from(PLAIN.split()), max_size=5),
    st.sampled_from(RARE),
)
pages = page.map(lambda text: Document("page", "", "", "", (Field("text", text),)))
edits = st.tuples(
    st.integers(0, 2),
    st.dictionaries(st.sampled_from("abcdefghijkl"), st.one_of(st.none(), pages), min_size=1, max_size=3),
    st.sampled_from(["", "", "", "drop", "delete"]),
)
"""A branch, the pages that an edit changes or deletes in it, and what becomes of unused trees after it."""
GUESSES = ("order", "polici", "polices", "revnue", "countrys salery", "churn", "stat")


def aged(server: PostgresServer, database: SharedDatabase, *, past_grace: bool) -> None:
    """Let time pass, so that the next run drops trees that working trees left, and deletes dropped ones."""
    table = f'"{database.schema}".{PREFIX}trees'
    server.execute(f"UPDATE {table} SET used = used - interval '2 days' WHERE holders = '{{}}'")
    if past_grace:
        server.execute(f"UPDATE {table} SET dropped = dropped - interval '2 hours'")


def assert_as_in_a_new_index(shared: SharedStore, branch: dict[str, Document]) -> None:
    again, local = SharedStore(shared.session, shared.tree), in_memory({name: [page] for name, page in branch.items()})
    assert (again.count, again.lengths) == (local.count, local.lengths)
    assert_same(again, local, GUESSES, [Scope()])
    for word in ("order", "polici", "polic"):
        assert again.having(word) == local.having(word)
    for word in ("polic", "order", "churn", "stat", "ona"):
        assert again.begun(word) == local.begun(word)
        assert again.containing(word, 8) == local.containing(word, 8)
        assert again.alike(word) == local.alike(word)


@pytest.mark.timeout(600)
@settings(max_examples=6, deadline=None, suppress_health_check=_UNHURRIED)
@given(st.dictionaries(st.sampled_from("abcdefghijkl"), pages, min_size=8), st.lists(edits, min_size=4, max_size=10))
def test_every_branch_is_found_as_in_an_index_of_its_own(
    created: SharedDatabase,
    postgres_server: PostgresServer,
    trunk: dict[str, Document],
    edits: list[tuple[int, dict[str, Document | None], str]],
) -> None:
    emptied(postgres_server, created)
    trunk = {name: replace(document, id=name) for name, document in trunk.items()}
    branches = [dict(trunk) for _ in range(3)]
    current: dict[int, SharedStore] = {}
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in branches]
        for place, (number, changes, later) in enumerate(edits, 1):
            branch = branches[number]
            for name, document in changes.items():
                branch.pop(name, None)
                if document is not None:
                    branch[name] = replace(document, id=name)
            units: dict[str, Sequence[Document]] = {name: [document] for name, document in branch.items()}
            current[number] = stored(units, created, folders[number])
            if later:
                aged(postgres_server, created, past_grace=later == "delete")
                current[number] = stored(units, created, folders[number])
            for other in current if later or len(edits) == place else [number]:
                assert_as_in_a_new_index(current[other], branches[other])
    live = "SELECT id FROM {p}trees WHERE dropped IS NULL"
    assert not reader_of(created).ask(f"{live} AND root NOT IN ({live})")


@pytest.fixture(scope="module")
def demo(
    demo_project: Path, tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> Iterator[tuple[Searcher, Searcher]]:
    """What searches the demo in a file and in Postgres."""
    folder = tmp_path_factory.mktemp("shared")
    local = prepared(demo_project, folder, with_questions=True)
    layout = Layout(folder / "demo")
    config = load_config(layout.config).config
    index = SharedIndex(database_on(postgres_server), layout.search_memo)
    refresh(index, contents_of(layout, config), WorkingTree(layout.root))
    shared = Searcher(index, local.contents, local.tree)
    yield local, shared
    local.close()
    close_search_readers()
    postgres_server.execute(f'DROP SCHEMA "{index.database.schema}" CASCADE')


@pytest.mark.table("question", [each["question"] for name in SETS for each in SETS[name]])
def test_questions_about_the_demo_have_the_same_answers(demo: tuple[Searcher, Searcher], question: str) -> None:
    local, shared = demo
    one, other = local.search(question, limit=12), shared.search(question, limit=12)
    assert [(hit.kind, hit.id, round(hit.score, 6)) for hit in one.found.hits] == [
        (hit.kind, hit.id, round(hit.score, 6)) for hit in other.found.hits
    ]
    assert (one.found.total, one.found.suggested, one.warnings) == (other.found.total, other.found.suggested, ())
    assert [hit.snippet for hit in one.found.hits] == [hit.snippet for hit in other.found.hits]
    tables, others = (each.tables(question, lambda connection, source: ())[0] for each in demo)
    assert [(each.name, round(each.score, 6)) for each in tables] == [
        (each.name, round(each.score, 6)) for each in others
    ]


class SharedProject(Project):
    """A working tree whose index is in Postgres."""

    path: Any

    def __init__(self, root: Path, database: SharedDatabase, embedder: Any = None) -> None:
        root.mkdir(exist_ok=True)
        super().__init__(root, embedder)
        self.path = SharedIndex(database, root / ".ktx" / "search-units.json")


Trees = tuple[SharedProject, SharedProject]


@pytest.fixture
def trees(tmp_path: Path, database: SharedDatabase) -> Trees:
    """Two working trees with the same files."""
    return SharedProject(tmp_path / "one", database), SharedProject(tmp_path / "two", database)


def rows_of(database: SharedDatabase) -> dict[str, int]:
    session = reader_of(database)
    return {name: session.ask(f"SELECT count(*) FROM {{p}}{name}")[0][0] for name in TABLES}


def test_a_tree_that_is_known_is_used_without_writing(trees: Trees, database: SharedDatabase) -> None:
    one, two = trees
    assert one.codes() == ["no_index"]
    first = one.refresh()
    assert first.rebuilt and first.added == first.documents > 5
    before = rows_of(database)
    assert two.codes() == [], "its files are those of the other"
    assert not (two.root / ".ktx" / "search-units.json").exists(), "a search writes nothing"
    again = two.refresh()
    assert (again.added, again.rebuilt, again.documents) == (0, False, first.documents)
    assert rows_of(database) == before


def test_another_tree_adds_only_what_differs(trees: Trees, database: SharedDatabase) -> None:
    one, two = trees
    one.refresh()
    before = rows_of(database)
    two.write("wiki/global/churn.md", "# Churn\n\nA zebra without orders.\n")
    two.write("wiki/global/new.md", "# New\n\nA giraffe.\n")
    assert two.codes("zebra") == ["index_behind"], "the changed files are read"
    assert two.ids("zebra") == [("page", "churn")] and two.ids("retention") == []
    assert two.refresh().added == 2
    after = rows_of(database)
    assert {name: after[name] - before[name] for name in ("trees", "parts", "docs")} == {
        "trees": 1, "parts": 2, "docs": 2,
    }  # fmt: skip
    assert two.codes("zebra") == [] and two.ids("zebra") == [("page", "churn")] and two.ids("giraffe")
    assert one.codes("zebra") == [] and one.ids("zebra") == [] and one.ids("retention") == [("page", "churn")]
    for tree in trees * 3:
        assert tree.refresh().added == 0, "no tree displaces another"
    assert rows_of(database) == after
    (two.root / "wiki/global/new.md").unlink()
    two.write("wiki/global/churn.md", (one.root / "wiki/global/churn.md").read_text())
    assert two.codes("churn") == [], "its files are the first tree again"


def test_an_open_searcher_takes_the_tree_that_another_host_stored(trees: Trees) -> None:
    one, two = trees
    one.refresh()
    open_one = one.searcher()
    assert open_one.search("revenue").warnings == ()
    for tree in trees:
        tree.write("wiki/global/new.md", "# New\n\nA giraffe.\n")
    assert [each.code for each in open_one.search("giraffe").warnings] == ["index_behind"]
    two.refresh()
    answer = open_one.search("giraffe")
    assert (answer.warnings, [hit.id for hit in answer.found.hits]) == ((), ["new"])


def test_overlays_on_a_shared_index(trees: Trees) -> None:
    one, _ = trees
    one.refresh()
    searcher = one.searcher()
    run = Workspace(WorkingTree(one.root))
    overlays = [run.child() for _ in range(3)]
    for number, overlay in enumerate(overlays):
        overlay.write(f"wiki/global/own-{number}.md", f"# Own\n\nMarker{number} zebra.\n")
    for number, overlay in enumerate(overlays):
        assert [hit.id for hit in searcher.search_tree(overlay, "zebra").found.hits] == [f"own-{number}"]
        assert searcher.search_tree(overlay, "retention").found.hits[0].id == "churn"


def test_trees_that_nobody_uses_are_dropped_with_their_content(
    trees: Trees, database: SharedDatabase, postgres_server: PostgresServer
) -> None:
    one, _ = trees
    one.write("wiki/global/secret.md", "# Secret\n\nzyzzyva\n")
    one.refresh()
    table = f'"{database.schema}".{PREFIX}trees'
    open_one = one.searcher()
    (one.root / "wiki/global/secret.md").unlink()
    for number in range(4):
        one.write("wiki/global/churn.md", f"# Churn\n\nNumber {number}.\n")
        one.refresh()
    session = reader_of(database)
    postgres_server.execute(
        f"UPDATE {table} SET used = now() - interval '8 days' WHERE id = (SELECT min(id) FROM {table})"
    )
    one.refresh()
    assert session.ask("SELECT count(dropped) FROM {p}trees")[0][0] == 1
    assert session.ask("SELECT 1 FROM {p}words WHERE word = 'zyzzyva'"), "searches that have begun find it"
    assert open_one.search("zyzzyva").found.hits == ()
    postgres_server.execute(f"UPDATE {table} SET dropped = now() - interval '2 hours' WHERE dropped IS NOT NULL")
    one.refresh()
    assert not session.ask("SELECT 1 FROM {p}words WHERE word = 'zyzzyva'")
    for name, column in (("postings", "stem"), ("terms", "stem"), ("docs", "texts")):
        assert not session.ask(f"SELECT 1 FROM {{p}}{name} WHERE {column} LIKE '%zyzzyva%'")
    assert one.ids("number") and one.codes() == []


def test_words_of_another_tree_neither_find_anything_nor_are_shown(trees: Trees) -> None:
    one, two = trees
    one.write("wiki/global/returns.md", "# Returns\n\nThe policies of returns.\n")
    two.write("wiki/global/returns.md", "# Returns\n\nThe policy of returns.\n")
    for tree in trees:
        tree.refresh()
    assert one.ids("policie") == [("page", "returns")]
    for query in ("policie", "polices"):
        found = two.search(query).found
        assert (found.hits, dict(found.corrected), dict(found.suggested)) == ((), {}, {}), query


def test_a_host_without_a_document_hides_it_from_no_other(trees: Trees, database: SharedDatabase) -> None:
    one, two = trees
    text, one.passages = one.passages, None
    one.refresh()
    assert one.ids("dispatch") == [] and one.codes() == []
    counted = rows_of(database)
    one.refresh()
    assert rows_of(database) == counted, "the same tree"
    assert two.ids("dispatch") == [("passage", "docs#1")] and two.codes() == ["index_behind"]
    two.refresh()
    assert two.ids("dispatch") == [("passage", "docs#1")] and two.codes() == []
    assert one.codes() == []
    one.refresh()
    assert one.ids("dispatch") == [("passage", "docs#1")] and one.codes() == [], "now another host has stored it"
    assert rows_of(database)["trees"] == 2
    one.write("wiki/global/churn.md", "# Churn\n\nA zebra.\n")
    one.refresh()
    assert one.ids("dispatch") == [("passage", "docs#1")] and one.ids("zebra") == [("page", "churn")]
    one.passages = text


class Edited(Written):
    """Units of which one is edited while it is read."""

    def __init__(self, units: dict[str, Sequence[Document]], unit: str, after: Sequence[Document]) -> None:
        super().__init__(units)
        self._unit, self._after = unit, after

    def all_documents(self, unit: str, tree: Tree) -> Iterable[Document]:
        if unit == self._unit:
            self._units = {**self._units, unit: self._after}
        return super().all_documents(unit, tree)


def test_a_file_that_is_edited_while_it_is_read_is_stored_for_no_other(
    database: SharedDatabase, tmp_path: Path
) -> None:
    before, after, other = (Document("page", word, "", word, (Field("text", word),)) for word in ("kea", "emu", "owl"))
    units = {"a": [before], "b": [other]}
    index = SharedIndex(database, tmp_path / "first.json")
    done = refresh(index, Contents([Edited(units, "a", [after])]), WorkingTree(tmp_path))
    assert done.documents == 2
    (tmp_path / "second").mkdir()
    second = stored(units, database, tmp_path / "second")
    assert second.best(["kea"], Scope(), 5) and not second.best(["emu"], Scope(), 5)
    assert second.count == 2
    again = refresh(index, Contents([Written({**units, "a": [after]})]), WorkingTree(tmp_path))
    assert again.documents == 2


def test_a_document_that_comes_to_a_host_is_stored_by_its_next_run(trees: Trees) -> None:
    one, _ = trees
    text, one.passages = one.passages, None
    one.refresh()
    one.passages = text
    one.refresh()
    assert one.ids("dispatch") == [("passage", "docs#1")] and one.codes() == []


def test_a_commit_adds_no_counts_of_words(trees: Trees, database: SharedDatabase) -> None:
    one, _ = trees
    for number in range(20):
        one.write(f"wiki/global/page-{number}.md", f"# Page {number}\n\nA page about the number {number}.\n")
    one.refresh()
    before = rows_of(database)
    for number in range(5):
        one.write("wiki/global/churn.md", f"# Churn\n\nThe zebra {number}.\n")
        one.refresh()
        assert one.codes("zebra") == [] and one.ids("zebra") == [("page", "churn")]
    after = rows_of(database)
    grown = {name: after[name] - before[name] for name in ("trees", "units", "parts", "root_parts", "terms", "words")}
    assert grown == {"trees": 5, "units": 5, "parts": 5, "root_parts": 0, "terms": 0, "words": 0}


def test_a_tree_that_its_working_trees_left_is_dropped_after_a_day(
    trees: Trees, database: SharedDatabase, postgres_server: PostgresServer
) -> None:
    one, two = trees
    for tree in trees:
        tree.refresh()
    one.write("wiki/global/churn.md", "# Churn\n\nAn okapi.\n")
    one.refresh()
    one.write("wiki/global/churn.md", "# Churn\n\nA zebra.\n")
    one.refresh()
    live = "SELECT id FROM {p}trees WHERE dropped IS NULL ORDER BY id"
    aged(postgres_server, database, past_grace=False)
    one.refresh()
    assert len(reader_of(database).ask(live)) == 2, "the second working tree has the first tree"
    assert two.codes() == [] and one.codes() == []
    one.write("wiki/global/churn.md", "# Churn\n\nA giraffe.\n")
    open_one, open_two = one.searcher(), two.searcher()
    one.refresh()
    two.write("wiki/global/churn.md", "# Churn\n\nA giraffe.\n")
    two.refresh()
    for past_grace in (False, True):
        assert [hit.id for hit in open_one.search("giraffe").found.hits] == ["churn"]
        assert [hit.id for hit in open_two.search("retention giraffe").found.hits] == ["churn"]
        aged(postgres_server, database, past_grace=past_grace)
        one.refresh()
    assert [hit.id for hit in open_one.search("giraffe").found.hits] == ["churn"], "its tree is a root now"
    assert open_two.search("okapi").found.hits == () == open_one.search("zebra").found.hits
    assert reader_of(database).ask("SELECT count(*), min(root) = min(id) FROM {p}trees") == [(1, True)]
    assert not reader_of(database).ask("SELECT 1 FROM {p}words WHERE word IN ('okapi', 'zebra')")


def test_a_known_tree_that_another_host_drops_before_it_is_used_is_there_again(
    trees: Trees, database: SharedDatabase, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tree became a root when the first one was dropped."""
    one, _ = trees
    one.write("wiki/global/churn.md", "# Churn\n\nAn okapi.\n")
    one.refresh()
    one.write("wiki/global/churn.md", "# Churn\n\nA zebra.\n")
    one.refresh()
    one.write("wiki/global/churn.md", "# Churn\n\nAn okapi.\n")
    session = SearchSession(database, read_only=False)
    live = "SELECT id FROM {p}trees WHERE dropped IS NULL"
    found = []

    def known_tree(own: SearchSession, digest: str) -> int | None:
        found.append(_known_tree(own, digest))
        postgres_server.execute(f"UPDATE \"{database.schema}\".{PREFIX}trees SET used = now() - interval '8 days'")
        drop_old(session)
        assert session.ask(live) != [] and (found[0],) not in session.ask(live)
        return found[0]

    with monkeypatch.context() as patch:
        patch.setattr("ktx_cli.search.shared_index._known_tree", known_tree)
        one.refresh()
    assert found != [None] and (found[0],) in session.ask(live)
    assert not session.ask(f"{live} AND root NOT IN ({live})")
    assert one.ids("okapi") == [("page", "churn")] and one.codes("zebra") == []
    aged(postgres_server, database, past_grace=True)
    drop_old(session)
    assert (found[0],) in session.ask(live)
    session.close()


def test_who_may_only_read_can_search(trees: Trees, database: SharedDatabase, postgres_server: PostgresServer) -> None:
    one, two = trees
    one.refresh()
    role = f"reader_{database.schema}"
    postgres_server.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
        f'GRANT USAGE ON SCHEMA "{database.schema}" TO {role}',
        f'GRANT SELECT ON ALL TABLES IN SCHEMA "{database.schema}" TO {role}',
    )
    reading = SharedDatabase({**database.parameters, "user": role, "password": "x"}, database.schema)
    two.path = SharedIndex(reading, two.path.memo)
    assert two.ids("retention") == [("page", "churn")] and two.codes() == []
    with pytest.raises(StorageError, match="the search database cannot be used") as raised:
        (two.root / "wiki/global/churn.md").write_text("# Other\n")
        two.refresh()
    assert database.schema in raised.value.message
    close_search_readers()
    postgres_server.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_an_outage_is_an_error_that_names_the_database(
    trees: Trees, database: SharedDatabase, postgres_server: PostgresServer
) -> None:
    one, two = trees
    one.refresh()
    searcher = one.searcher()
    assert searcher.search("revenue").found.hits
    postgres_server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ktx'")
    assert searcher.search("revenue").found.hits, "it connects again"
    gone = SharedDatabase({**database.parameters, "port": "1"}, database.schema)
    two.path = SharedIndex(gone, two.path.memo)
    for act in (lambda: two.search("revenue"), two.refresh):
        with pytest.raises(StorageError) as raised:
            act()
        assert f"127.0.0.1:1/postgres, schema {database.schema}" in raised.value.message
        assert "doctor" in str(raised.value.hint)
    assert explaining_in_tree(two.path, "shop", ["orders.revenue"]) == {}


def test_a_damaged_memo_only_costs_reading_files(trees: Trees) -> None:
    one, _ = trees
    one.refresh()
    memo = one.root / ".ktx" / "search-units.json"
    assert memo.stat().st_mode & 0o777 == 0o600
    for text in ("", "[]", '{"database": 1, "units": {}}', '{"units": [1]}'):
        memo.write_text(text)
        assert one.codes() == []
        assert one.refresh().added == 0


def near(tree: SharedProject, query: str, **scope: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(hit.id, hit.matched_on) for hit in tree.search(query, **scope).found.hits]


@pytest.mark.parametrize("server", ["postgres_server", "vector_postgres"])
def test_vectors_find_what_they_find_in_a_file(tmp_path: Path, server: str, request: pytest.FixtureRequest) -> None:
    running = request.getfixturevalue(server)
    database = database_on(running)
    stub = Stub()
    (tmp_path / "two").mkdir()
    shared, local = SharedProject(tmp_path / "one", database, stub), Project(tmp_path / "two", Stub())
    other = SharedProject(tmp_path / "three", database, Stub("another"))
    assert shared.refresh().vectors == local.refresh().vectors > 0
    assert shared.refresh().vectors == 0
    names = "pgvector compares" if server == "vector_postgres" else "ktx compares"
    assert names in where_compared(shared.path)
    scopes = [{}, {"user": "ada"}, {"kinds": ("page",)}, {"connection": "shop"}, {"kinds": ("measure", "column")}]
    for query, scope in itertools.product(["departing", "income parcels", "revenue turnover"], scopes):
        assert near(shared, query, **scope) == near(local, query, **scope), (query, scope)
    assert other.codes("churn") == ["no_vectors"]
    assert other.refresh().vectors > 0 and other.codes("churn") == [] == shared.codes("churn"), "a model each"
    shared.write("wiki/global/churn.md", "# Departures\n\nChurn, churn.\n")
    local.write("wiki/global/churn.md", "# Departures\n\nChurn, churn.\n")
    assert near(shared, "departing") == near(local, "departing"), "stale vectors are left out"
    stub.texts.clear()
    assert shared.refresh().vectors == len(stub.texts) == 1, "vectors belong to content"
    local.refresh()
    assert near(shared, "departing") == near(local, "departing")
    close_search_readers()
    running.execute(f'DROP SCHEMA "{database.schema}" CASCADE')


@pytest.mark.parametrize("server", ["postgres_server", "vector_postgres"])
def test_a_model_whose_vectors_have_another_length(tmp_path: Path, server: str, request: pytest.FixtureRequest) -> None:
    running = request.getfixturevalue(server)
    database = database_on(running)
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    first, later, local = (
        SharedProject(tmp_path / "one", database, Stub()),
        SharedProject(tmp_path / "two", database, Longer()),
        Project(tmp_path / "three", Stub()),
    )
    later.write("wiki/global/new.md", "# New\n\nA parcel.\n")
    known = first.refresh().vectors
    local.refresh()
    local.embedder = Longer()
    answer, expected = later.search("departing parcel"), local.search("departing parcel")
    assert answer.warnings[-1] == expected.warnings[-1]
    assert "the index vectors have 3 dimensions, not 4" in answer.warnings[-1].message
    assert later.refresh().vectors == known + 1, "none of the other length are left"
    assert later.codes("departing parcel") == [] and near(later, "departing")[0] == ("churn", ("meaning",))
    first.embedder = Longer()
    assert first.codes("departing") == ["no_vectors"], "its tree has none of this length yet"
    assert first.refresh().vectors == 0 and first.codes("departing") == [], "vectors belong to content"
    first.embedder = Stub()
    assert first.codes("departing") == ["no_vectors"] and first.refresh().vectors == 0
    assert first.refresh(check_length=True).vectors == known and first.codes("departing") == [], "as `ktx index` does"
    assert first.refresh(check_length=True).vectors == 0
    first.embedder = stating = Stating()
    assert first.refresh(check_length=True).vectors == 0 and stating.texts == [], "the model is not loaded"
    close_search_readers()
    running.execute(f'DROP SCHEMA "{database.schema}" CASCADE')


def test_vectors_of_a_former_model_are_deleted(
    trees: Trees, database: SharedDatabase, postgres_server: PostgresServer
) -> None:
    one, _ = trees
    session, schema = reader_of(database), f'"{database.schema}".{PREFIX}'
    models = "SELECT DISTINCT model FROM {p}vectors ORDER BY 1"
    for name in ("former", "current"):
        one.embedder = Stub(name)
        one.write("wiki/global/churn.md", f"# Churn\n\nWith the model {name}.\n")
        one.refresh()
    postgres_server.execute(
        f"INSERT INTO {schema}vectors SELECT 'filling', digest, vector FROM {schema}vectors"
        " WHERE model = 'current 3' LIMIT 1",
        f"INSERT INTO {schema}vector_models VALUES ('filling', now())",
        f"UPDATE {schema}trees SET used = now() - interval '8 days' WHERE id = (SELECT min(id) FROM {schema}trees)",
    )
    one.refresh()
    assert session.ask(models) == [("current 3",), ("filling",), ("former 3",)], (
        "a tree was dropped, but is still there"
    )
    postgres_server.execute(
        f"UPDATE {schema}trees SET dropped = now() - interval '2 hours' WHERE dropped IS NOT NULL",
        f"UPDATE {schema}vector_models SET added = now() - interval '8 days' WHERE model <> 'filling'",
    )
    one.refresh()
    one.refresh()
    assert session.ask(models) == [("current 3",), ("filling",)], "another run may be adding vectors"


def test_hosts_that_index_at_once_wait_for_each_other(trees: Trees, database: SharedDatabase) -> None:
    words = ("zebra", "giraffe")
    for word, tree in zip(words, trees, strict=True):
        tree.write("wiki/global/own.md", f"# Own\n\nThe {word} of a tree.\n")
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda tree: tree.refresh(), trees))
    assert len({each.documents for each in done}) == 1
    assert min(each.added for each in done) == 1, "the second one found what the first stored"
    for word, other, tree in zip(words, reversed(words), trees, strict=True):
        assert tree.codes() == [] and tree.ids(word) == [("page", "own")] and tree.ids(other) == []
