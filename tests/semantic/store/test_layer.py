"""A layer from its store is the layer that its files say, whatever was edited since it was stored."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.core import AgentStep, Argument, Hint, Severity, StorageError, yaml
from ktx_cli.project.layout import Layout, WorkingTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.manifest import relation_of
from ktx_cli.semantic.model import CalendarSettings, Model, Place, layer_diagnostic
from ktx_cli.semantic.store.codec import Codec, Paths
from ktx_cli.semantic.store.layer import Manifest, load_manifest, read_model, source_digests, stored_copy, stored_model
from ktx_cli.semantic.store.reader import CHECKED, check_model, close_stores, open_store, store_path
from ktx_cli.semantic.store.writer import write_store

SHOP = "shop"
CONFIGURED = (SHOP, "other")
NAMES = ("orders", "Orders", "customers", "lines", "stores")
COLUMNS = ("id", "ID", "customer_id", "status", "amount")


def manifest_table(name: str, *, columns: tuple[str, ...] = COLUMNS[::2], **more: Any) -> dict[str, Any]:
    return {"table": f"main.{name}", "columns": [{"name": each, "type": "number"} for each in columns], **more}


BASE: dict[str, Any] = {
    "_schema/sales.yaml": {
        "tables": {
            "orders": manifest_table(
                "orders",
                columns=("id", "customer_id", "amount"),
                joins=[{"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}],
            ),
            "lines": manifest_table(
                "lines", joins=[{"to": "Orders", "on": "id = Orders.ID", "relationship": "many_to_one", "alias": "o"}]
            ),
        }
    },
    "_schema/people.yaml": {
        "tables": {
            "customers": manifest_table(
                "customers", joins=[{"to": "orders", "on": "id = orders.customer_id", "relationship": "one_to_many"}]
            )
        }
    },
    "orders.yaml": {
        "name": "orders",
        "grain": ["id"],
        "measures": [{"name": "revenue", "expr": "sum(amount)"}],
        "segments": [{"name": "big", "expr": "amount > 10"}],
    },
    "view.yaml": {
        "name": "view",
        "sql": "SELECT * FROM main.orders",
        "grain": ["id"],
        "columns": [{"name": "id"}, {"name": "amount"}],
        "inherits_columns_from": "main.orders",
    },
}
ON = ("customer_id = customers.id", "id = orders.customer_id", "id = Orders.ID")

joins = st.lists(
    st.fixed_dictionaries(
        {
            "to": st.sampled_from(NAMES),
            "on": st.sampled_from(["id = {}.id", "customer_id = {}.ID", "status = {}.nowhere"]),
            "relationship": st.sampled_from(["many_to_one", "one_to_many", "one_to_one"]),
        },
        optional={"alias": st.sampled_from(["a", "b"])},
    ).map(lambda join: {**join, "on": join["on"].format(join["to"])}),
    max_size=2,
)
tables = st.fixed_dictionaries(
    {
        "table": st.sampled_from(["main.orders", "main.other", "raw.stores"]),
        "columns": st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True).map(
            lambda names: [{"name": each, "type": "string"} for each in names]
        ),
    },
    optional={"joins": joins, "grain": st.just(["id"])},
)
MEASURES = (
    [{"name": "total", "expr": "sum(amount)"}],
    [{"name": "total", "expr": "sum(status)"}, {"name": "share", "expr": "total / orders.share"}],
    [{"name": "share", "expr": "lines.total / customers.total"}, {"name": "count", "expr": "count(o.id)"}],
    [{"name": "total", "expr": "customers.share + 1"}, {"name": "odd", "expr": "sum(a.amount) + nothing"}],
)
overlays = st.fixed_dictionaries(
    {"name": st.sampled_from((*NAMES, "view"))},
    optional={
        "measures": st.sampled_from(MEASURES),
        "segments": st.just([{"name": "big", "expr": "customers.status = 'paid' and gone > 1"}]),
        "parameters": st.just([{"name": "least", "type": "number", "default": 3}]),
        "disable_joins": st.lists(st.sampled_from(ON), min_size=1, max_size=2),
        "exclude_columns": st.just(["amount"]),
        "column_overrides": st.sampled_from(
            [[{"name": "id", "visibility": "hidden"}], [{"name": "amount", "unit": "eur"}], [{"name": "gone"}]]
        ),
        "joins": joins,
        "policies": st.just([{"name": "own", "filter": "id = {{ user.id }}"}]),
        "odd": st.just(1),
    },
)
standalone = st.fixed_dictionaries(
    {
        "name": st.sampled_from((*NAMES, "view", "new")),
        "table": st.sampled_from(["main.orders", "main.more"]),
        "columns": st.just([{"name": "id"}, {"name": "amount", "type": "number"}]),
    },
    optional={"inherits_columns_from": st.sampled_from((*NAMES, "main.orders", "nothing")), "joins": joins},
)
texts = st.sampled_from(["name: [", "", "- 1\n", "name: 3\n", "name: orders\nname: lines\n", "tables: {a: 1}\n"])
own_files = st.tuples(
    st.sampled_from(["orders.yaml", "view.yaml", "more.yml", "deep/_schema/one.yaml", "BIG.YAML"]),
    st.none() | overlays | standalone | texts,
)
shards = st.tuples(
    st.sampled_from(
        [
            "_schema/sales.yaml",
            "_schema/people.yaml",
            "_schema/new.yaml",
            "_schema/sales/orders.yaml",
            "_schema/sales/customers.yaml",
            "_schema/deep/er/new.yaml",
        ]
    ),
    st.none()
    | texts
    | st.dictionaries(st.sampled_from(NAMES), tables, max_size=3).map(lambda found: {"tables": found}),
)
strays = st.tuples(st.sampled_from(["../rules.yaml", "../gone/rules.yaml"]), st.none() | overlays | texts)
edits = st.lists(own_files | shards | strays, min_size=1, max_size=3)


class Project:
    """A project whose files are edited; each edit gets another time, as those of people do."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self._clock = 1_700_000_000
        self.apply(list(BASE.items()))

    def apply(self, changes: list[tuple[str, Any]]) -> None:
        for name, document in changes:
            path = self.layout.root / "semantic-layer" / SHOP / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if document is None:
                path.unlink(missing_ok=True)
                continue
            path.write_text(document if isinstance(document, str) else yaml.dump(document), encoding="utf-8")
            self._clock += 60
            os.utime(path, (self._clock, self._clock))

    def stored(self) -> Model | None:
        return stored_model(self.layout, SHOP, "duckdb", CalendarSettings(), CONFIGURED)

    def read(self) -> Model:
        return read_model(self.layout, SHOP, "duckdb", CalendarSettings(), CONFIGURED)

    def copy(self) -> Model | None:
        return stored_copy(self.layout, self.tree, SHOP, "duckdb", CalendarSettings(), CONFIGURED)

    @property
    def tree(self) -> WorkingTree:
        return WorkingTree(self.layout.root)

    def loaded(self) -> Model:
        return load_model(self.layout, SHOP, "duckdb", configured=CONFIGURED)

    def manifests(self) -> tuple[Manifest, Manifest]:
        """Return the manifest with the help of the store, and without it."""
        place = store_path(self.layout, SHOP)
        away = place.with_suffix(".away")
        stored = load_manifest(self.layout, SHOP)
        place.rename(away)
        read = load_manifest(self.layout, SHOP)
        away.rename(place)
        return stored, read

    def write(self) -> bool:
        return write_store(self.layout, SHOP, "duckdb", CONFIGURED)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def facts(model: Model) -> list[tuple[str, Any]]:
    """Return everything of a model that somebody can see, lines of places included."""
    found = lookup_of(model)
    words = {*NAMES, *COLUMNS, "total", "revenue", "big", "o", "a", "b", "other", "more", "view"}
    spelled: dict[str, Callable[[], Any]] = {
        "sources": lambda: [(name, repr(model.sources[name])) for name in model.sources],
        "problems": lambda: [repr((each, str(each.location), each.hint)) for each in model.problems],
        "barred": lambda: {name: repr(each) for name, each in model.barred.items()},
        "sealed": lambda: repr(model.sealed),
        "columns": lambda: {word: list(found.with_column(word)) for word in words},
        "measures": lambda: {word: [each.name for each in found.with_measure(word)] for word in words},
        "segments": lambda: {word: [each.name for each in found.with_segment(word)] for word in words},
        "tables": lambda: ({word: [each.name for each in found.of_table(word)] for word in words}, list(found.tables)),
        "joins": lambda: {name: list(found.joins_of(name)) for name in model.sources},
        "labels": lambda: (found.aliases, found.labels),
        "parameters": lambda: found.parameters,
        "joined": lambda: sorted(found.joined()),
        "checks": lambda: [repr((each, str(each.location), each.hint)) for each in check_model(model)],
        "errors": lambda: [repr(each) for each in check_model(model, errors_only=True)],
        "protection": lambda: (found.is_all_public, found.protects, sorted(found.protected())),
    }
    return [(what, see()) for what, see in spelled.items()]


def assert_same_manifest(stored: Manifest, read: Manifest) -> None:
    assert stored.tables == read.tables
    assert list(stored.tables) == list(read.tables)
    assert stored.relations == read.relations == {name: relation_of(each) for name, each in read.tables.items()}
    assert repr(stored.problems) == repr(read.problems)


def assert_same(model: Model, expected: Model) -> None:
    for (what, one), (_, other) in zip(facts(model), facts(expected), strict=True):
        assert one == other, what


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(edits, edits)
def test_a_layer_from_its_store_is_that_of_its_files_after_any_edit(one: Any, two: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        project.apply(one)
        assert project.write()
        assert_same(project.read(), project.loaded())
        assert_same(project.copy() or project.loaded(), project.loaded())
        project.apply(two)
        assert_same(project.copy() or project.loaded(), project.loaded())
        assert_same_manifest(*project.manifests())
        assert_same(project.read(), project.loaded())
        assert source_digests(project.read()) == source_digests(project.loaded())
        assert project.write()
        stored = project.stored()
        if stored is not None:  # a file that is broken and was just written is read each time
            assert_same(stored, project.loaded())


EDITS: dict[str, list[tuple[str, Any]]] = {
    "an overlay": [("orders.yaml", {**BASE["orders.yaml"], "descriptions": {"user": "what was sold"}})],
    "a new overlay": [("lines.yaml", {"name": "lines", "grain": ["id"]})],
    "no overlay": [("orders.yaml", None)],
    "a join that is disabled": [
        ("customers.yaml", {"name": "customers", "disable_joins": ["id = orders.customer_id"]})
    ],
    "a table that others join": [
        ("_schema/people.yaml", {"tables": {"customers": manifest_table("customers", columns=("ID", "status"))}})
    ],
    "a table that goes": [("_schema/people.yaml", None)],
    "a hidden column": [
        ("lines.yaml", {"name": "lines", "column_overrides": [{"name": "id", "visibility": "hidden"}]})
    ],
    "a base that columns are inherited from": [
        ("orders.yaml", {**BASE["orders.yaml"], "column_overrides": [{"name": "id", "unit": "eur"}]})
    ],
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_edits_of_people_are_read_without_reading_the_rest(
    change: list[tuple[str, Any]], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.write()
    project.apply(change)
    expected = project.loaded()
    monkeypatch.setattr("ktx_cli.semantic.load.load.load_tree", lambda *args, **more: pytest.fail("all were read"))
    assert_same(project.read(), expected)


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_edits_of_people_are_stored_without_reading_the_rest(
    change: list[tuple[str, Any]], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.write()
    project.apply(change)
    expected = project.loaded()
    monkeypatch.setattr("ktx_cli.semantic.store.writer.read_files", lambda *args: pytest.fail("all were read"))
    assert project.write()
    stored = project.stored()
    assert stored is not None
    assert_same(stored, expected)


def test_the_layer_of_a_tree_comes_from_the_store_only_if_all_its_files_are_those_on_disk(project: Project) -> None:
    assert project.copy() is None
    assert project.write()
    found = project.copy()
    close_stores()
    assert found is not None
    assert_same(found, project.loaded())
    path = f"semantic-layer/{SHOP}/orders.yaml"
    for content in (b"name: orders\n", None):
        overlay = Workspace(project.tree)
        overlay.write(path, content) if content is not None else overlay.delete(path)
        assert stored_copy(project.layout, overlay, SHOP, "duckdb", CalendarSettings(), CONFIGURED) is None
    committed = project.tree.read(path) or b""
    project.apply([("orders.yaml", "# Somebody is about to change this.\n\n\nname: orders\n")])
    overlay = Workspace(project.tree)
    overlay.write(path, committed)
    found = stored_copy(project.layout, overlay, SHOP, "duckdb", CalendarSettings(), CONFIGURED)
    assert found is not None
    overlay.write(path, b"name: lines\n")
    project.apply([("orders.yaml", committed.decode())])
    assert_same(found, project.loaded())


def test_a_broken_file_is_left_to_reading_all(project: Project) -> None:
    assert project.write()
    project.apply([("orders.yaml", "name: [")])
    assert project.stored() is None
    assert project.read() == project.loaded()


def test_what_a_file_protects_is_never_read_from_an_old_store(project: Project) -> None:
    assert project.write()
    project.apply([("orders.yaml", {"name": "orders", "policies": [{"name": "own", "filter": "id = {{ user.id }}"}]})])
    assert lookup_of(project.read()).protects
    project.apply([("orders.yaml", "name: orders\npolicies: [")])
    assert "orders" in project.read().barred


def test_a_change_without_another_time_is_seen(project: Project) -> None:
    """A file that was changed while it was stored may keep its size and its times, so its content is compared."""
    path = project.layout.root / "semantic-layer" / SHOP / "orders.yaml"
    assert project.write()
    status = path.stat()
    text = path.read_text()
    path.write_text(text.replace("revenue", "earning"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "earning" in project.read().sources["orders"].measures


@pytest.mark.parametrize("content", [b"", b"not a database", None])
def test_a_damaged_store_counts_as_none(content: bytes | None, project: Project) -> None:
    assert project.write()
    place = store_path(project.layout, SHOP)
    place.write_bytes(place.read_bytes()[:3000] if content is None else content)
    assert project.stored() is None
    assert project.read() == project.loaded()
    assert project.write()
    assert project.stored() is not None


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.DatabaseError("as a disk has it")
    error.sqlite_errorcode = code
    return error


class Killed(BaseException):
    """What ends a writer in the middle of its work."""


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Killed(), Killed),
        (sqlite_error(sqlite3.SQLITE_FULL), StorageError),
        (sqlite_error(sqlite3.SQLITE_CORRUPT), None),
    ],
)
def test_a_store_that_cannot_be_updated_stays_whole_or_is_made_anew(
    error: BaseException, outcome: type[BaseException] | None, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.write()
    place = store_path(project.layout, SHOP)
    before = place.read_bytes()
    project.apply(EDITS["an overlay"])

    def failing(self: Any, *args: Any) -> None:
        self.database.execute("DELETE FROM sources")
        raise error

    monkeypatch.setattr("ktx_cli.semantic.store.writer._Writing.update", failing)
    if outcome is None:
        assert project.write()
        stored = project.stored()
        assert stored is not None
        assert_same(stored, project.loaded())
    else:
        with pytest.raises(outcome):
            project.write()
        assert place.read_bytes() == before
    assert [each.name for each in place.parent.iterdir()] == [place.name], "nothing is left beside it"


@pytest.mark.parametrize(("dialect", "configured"), [("postgres", CONFIGURED), ("duckdb", (SHOP,))])
def test_a_store_is_for_one_dialect_and_these_connections(
    dialect: str, configured: tuple[str, ...], project: Project
) -> None:
    assert project.write()
    assert stored_model(project.layout, SHOP, dialect, CalendarSettings(), configured) is None


def test_a_hint_that_names_arguments_is_stored_as_it_is() -> None:
    codec, place = Codec(Paths([])), Place("orders.yaml", 3)
    hint = Hint("choose: `{}` or `{}`", Argument("via", {"a": "b"}), Argument("seconds", 600))
    text = codec.dump_diagnostic(layer_diagnostic(Severity.ERROR, "query", "two paths", place, hint))
    found = codec.load_diagnostic(text).hint
    assert found is not None and found == hint and found.parts == hint.parts
    given = [(each.name, each.value) for each in found.parts if isinstance(each, Argument)]
    assert given == [("via", {"a": "b"}), ("seconds", 600)]


def test_checks_whose_hints_have_steps_are_stored(project: Project) -> None:
    measures = [{"name": "none", "expr": "sum(zzzzz)"}]
    names = ("id", "amount", *(f"c_{number}" for number in range(12)))
    columns = [{"name": each, "type": "number"} for each in names]
    document = {"name": "bills", "table": "main.bills", "columns": columns, "measures": measures}
    project.apply([("bills.yaml", document)])
    assert project.write()
    store = open_store(project.layout, SHOP, "duckdb", CONFIGURED)
    assert store is not None and store.facts[CHECKED]
    parts, expected = (
        [
            (part, type(part), part.typed.commands if isinstance(part, AgentStep) else ())
            for each in check_model(model)
            if each.hint
            for part in each.hint.parts
        ]
        for model in (project.read(), project.loaded())
    )
    assert parts == expected
    assert AgentStep in {kind for _, kind, _ in parts}


def test_reading_writes_nothing(project: Project) -> None:
    assert project.write()

    def everything() -> Iterator[tuple[str, int]]:
        for path in sorted(project.layout.root.rglob("*")):
            yield str(path), path.stat().st_mtime_ns

    before = list(everything())
    project.read()
    assert list(everything()) == before


def test_a_large_layer_that_is_read_without_a_store_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    close_stores()
    project.read()
    assert close_stores() == [], "it is small"
    monkeypatch.setattr("ktx_cli.semantic.store.reader._LARGE", 3)
    project.read()
    (warning,) = close_stores()
    assert (warning.code, str(warning.hint)) == ("layer_not_stored", "ktx index")
    assert "`shop` (4 sources)" in warning.message
    assert close_stores() == [], "it is said once"
    project.read()
    assert project.write()
    assert close_stores() == [], "a run has stored it meanwhile"
    project.read()
    assert close_stores() == []
