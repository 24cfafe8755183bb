"""The two layouts of the manifest: the same model in both, moved from one to the other without a loss."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.core import yaml
from ktx_cli.project.layout import Layout
from ktx_cli.scan.outcome import PreviousScan, ScanOutcome
from ktx_cli.scan.pipeline import ScanJob, scan_connection
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.manifest import ManifestLayout
from ktx_cli.semantic.model import Model, Source
from ktx_cli.semantic.store.layer import ParsedCopies
from ktx_cli.warehouses.port import ForeignKey, Scope, Table, TableRef, UniqueKey
from tests.scan.test_pipeline import CUSTOMERS, ORDERS, Database, Tree, table

PER_SCHEMA, PER_TABLE = ManifestLayout
FOLDER = "semantic-layer/wh/_schema"
SHOP = f"{FOLDER}/shop.yaml"
ORDERS_FILE, CUSTOMERS_FILE = f"{FOLDER}/shop/orders.yaml", f"{FOLDER}/shop/customers.yaml"
FORWARD = {"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one", "source": "formal"}


class Project:
    """A committed tree that is scanned, and the files in it as a reader finds them."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree()
        self._copies = ParsedCopies(Layout(folder), "wh")
        self._last: PreviousScan | None = None

    def scan(
        self, *tables: Table, layout: ManifestLayout = PER_TABLE, held: frozenset[str] = frozenset()
    ) -> ScanOutcome:
        job = ScanJob("wh", "duckdb", self.tree, self._copies, previous=self._last, layout=layout)
        outcome = scan_connection(Database(*tables), Scope(), job)
        for path, content in outcome.without(held).items():
            assert path not in held
            if content is None:
                del self.tree[path]
            else:
                self.tree[path] = content
        blobs = {**self.tree.blobs("semantic-layer/wh/_schema"), **self.tree.blobs("raw-sources/wh/live-database")}
        self._last = PreviousScan("" if held else outcome.digest, blobs)
        return outcome

    def shards(self) -> dict[str, bytes]:
        return {path: content for path, content in sorted(self.tree.items()) if path.startswith(FOLDER)}

    def entry(self, path: str, name: str) -> Any:
        return self.tree.data(path)["tables"][name]

    def edit(self, path: str, change: Callable[[dict[str, Any]], None]) -> None:
        document = self.tree.data(path)
        change(document["tables"])
        self.tree[path] = yaml.dump(document).encode()

    def model(self) -> Model:
        return load_tree(_Files(self.tree), "wh", "duckdb")


class _Files:
    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def paths(self, prefix: str) -> list[str]:
        return sorted(path for path in self._files if path.startswith(prefix))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def meaning(model: Model) -> dict[str, Source]:
    """Return the sources without their places, and with their joins in one order."""
    return {name: _placeless(source) for name, source in model.sources.items()}


def _placeless(source: Source) -> Source:
    joins = sorted((replace(join, place=None, mirrored=False) for join in source.joins), key=repr)
    columns = {name: replace(column, place=None) for name, column in source.columns.items()}
    return replace(source, place=None, joins=tuple(joins), columns=columns)


def test_a_scan_writes_a_file_for_each_table_and_each_join_once(project: Project) -> None:
    outcome = project.scan(CUSTOMERS, ORDERS)
    assert list(project.shards()) == [CUSTOMERS_FILE, ORDERS_FILE]
    assert project.entry(ORDERS_FILE, "orders")["joins"] == [FORWARD]
    assert "joins" not in project.entry(CUSTOMERS_FILE, "customers")
    assert outcome.plan.changes.added == ("shop.customers", "shop.orders")


def test_the_reader_shows_a_join_on_both_tables_with_its_one_place(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS)
    model = project.model()
    (forward,), (backward,) = model.sources["orders"].joins, model.sources["customers"].joins
    assert (backward.to, backward.on, backward.relationship.value) == (
        "orders",
        "id = orders.customer_id",
        "one_to_many",
    )
    assert (forward.mirrored, backward.mirrored) == (False, True)
    assert forward.place is not None and backward.place is not None
    assert (forward.place.path, forward.place.line) == (backward.place.path, backward.place.line)
    assert not model.problems or {each.code for each in model.problems} <= {"no_grain"}


@pytest.mark.table("layout", list(ManifestLayout))
def test_an_unchanged_database_changes_no_file(layout: ManifestLayout, project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS, layout=layout)
    assert project.scan(CUSTOMERS, ORDERS, layout=layout).unchanged
    project._last = None  # without the state database everything is compared
    assert project.scan(ORDERS, CUSTOMERS, layout=layout).unchanged


def test_a_changed_column_changes_the_file_of_its_table_alone(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS)
    outcome = project.scan(table("customers", "id", "name", primary_key=("id",)), ORDERS)
    assert [path for path in outcome.files if path.startswith(FOLDER)] == [CUSTOMERS_FILE]


def test_the_file_of_a_dropped_table_goes_and_so_does_what_joins_it(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS)
    outcome = project.scan(table("orders", "id", "customer_id", primary_key=("id",)))
    assert outcome.files[CUSTOMERS_FILE] is None
    assert list(project.shards()) == [ORDERS_FILE]
    assert "joins" not in project.entry(ORDERS_FILE, "orders")


def test_a_table_renamed_in_case_alone_gets_another_file(project: Project) -> None:
    project.scan(table("Stores", "id"))
    (before,) = project.shards()
    project.scan(table("stores", "id"))
    (after,) = project.shards()
    assert after == f"{FOLDER}/shop/stores.yaml"
    assert before.casefold() != after.casefold(), "a file system that ignores case has two files"


def test_a_person_may_describe_a_table_and_change_a_join(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS)

    def describe(tables: dict[str, Any]) -> None:
        tables["orders"]["descriptions"] = {"user": "what was sold"}
        tables["orders"]["joins"][0]["relationship"] = "one_to_one"

    project.edit(ORDERS_FILE, describe)
    wider = replace(ORDERS, columns=(*ORDERS.columns, table("x", "note").columns[0]))
    project.scan(CUSTOMERS, wider)
    orders = project.entry(ORDERS_FILE, "orders")
    assert orders["descriptions"] == {"user": "what was sold"}
    assert orders["joins"] == [{**FORWARD, "relationship": "one_to_one"}]
    assert "joins" not in project.entry(CUSTOMERS_FILE, "customers")
    assert [join.relationship.value for join in project.model().sources["customers"].joins] == ["one_to_one"]


def test_a_join_that_a_person_took_out_stays_out(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS)
    project.edit(ORDERS_FILE, lambda tables: tables["orders"].pop("joins"))
    project.scan(table("customers", "id", "name", primary_key=("id",)), ORDERS)
    model = project.model()
    assert (model.sources["orders"].joins, model.sources["customers"].joins) == ((), ())
    project.scan(CUSTOMERS, ORDERS, layout=PER_SCHEMA)
    assert all("joins" not in entry for entry in project.tree.data(SHOP)["tables"].values())


def test_a_join_that_a_person_wrote_on_the_other_table_stays_there(project: Project) -> None:
    bare = table("orders", "id", "customer_id", primary_key=("id",))
    project.scan(CUSTOMERS, bare)
    join = {"to": "orders", "on": "orders.customer_id = id", "relationship": "one_to_many"}
    project.edit(CUSTOMERS_FILE, lambda tables: tables["customers"].update(joins=[join]))
    project.scan(CUSTOMERS, ORDERS)
    assert project.entry(CUSTOMERS_FILE, "customers")["joins"] == [join]
    names = {name: len(source.joins) for name, source in project.model().sources.items()}
    assert names == {"customers": 1, "orders": 1}


def _written(project: Project, layout: ManifestLayout) -> dict[str, bytes]:
    project.scan(CUSTOMERS, ORDERS, layout=layout)
    return project.shards()


def test_a_change_of_the_setting_moves_everything_and_back(project: Project, tmp_path: Path) -> None:
    per_schema = _written(project, PER_SCHEMA)
    per_table = _written(project, PER_TABLE)
    assert per_table == _written(Project(tmp_path), PER_TABLE)
    assert _written(project, PER_SCHEMA) == per_schema


def test_what_people_wrote_moves_with_the_layout(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS, layout=PER_SCHEMA)

    def edit(tables: dict[str, Any]) -> None:
        tables["orders"]["descriptions"] = {"user": "what was sold"}
        tables["orders"]["joins"][0]["relationship"] = "one_to_one"
        tables["customers"]["joins"].append({"to": "orders", "on": "id = orders.id", "relationship": "one_to_one"})
        tables["recent"] = {"table": "shop.orders", "columns": [{"name": "id", "type": "number"}]}

    project.edit(SHOP, edit)
    project.scan(CUSTOMERS, ORDERS, layout=PER_SCHEMA)
    before, model = project.shards(), meaning(project.model())
    outcome = project.scan(CUSTOMERS, ORDERS)
    assert list(project.shards()) == [CUSTOMERS_FILE, ORDERS_FILE, f"{FOLDER}/shop/recent.yaml"]
    assert outcome.files[SHOP] is None
    assert project.entry(ORDERS_FILE, "orders")["descriptions"] == {"user": "what was sold"}
    moved = meaning(project.model())
    assert moved["recent"] == model["recent"]
    assert moved["orders"].columns == model["orders"].columns
    # Both sides of the join that a person changed on one of them stay; the reader says what it said before.
    assert set(model["customers"].joins) <= set(moved["customers"].joins)
    assert set(model["orders"].joins) <= set(moved["orders"].joins)
    project.scan(CUSTOMERS, ORDERS, layout=PER_SCHEMA)
    assert list(project.shards()) == list(before)
    assert project.entry(SHOP, "orders")["joins"][0]["relationship"] == "one_to_one"


def test_other_keys_of_a_shard_stay_in_it(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS, layout=PER_SCHEMA)
    document = project.tree.data(SHOP)
    project.tree[SHOP] = yaml.dump({"note": "ours", **document}).encode()
    project.scan(CUSTOMERS, ORDERS)
    assert project.tree.data(SHOP) == {"note": "ours", "tables": {}}


def test_comments_that_go_when_entries_move_are_reported(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS, layout=PER_SCHEMA)
    project.tree[SHOP] += b"# a thought\n"
    outcome = project.scan(CUSTOMERS, ORDERS)
    assert outcome.plan.removed_texts.comments == (SHOP,)


def test_entries_of_a_file_with_uncommitted_edits_do_not_move(project: Project) -> None:
    other = table("visits", "id", schema="web")
    project.scan(CUSTOMERS, ORDERS, other, layout=PER_SCHEMA)
    before, model = dict(project.tree), meaning(project.model())
    project.scan(CUSTOMERS, ORDERS, other, held=frozenset({SHOP}))
    assert list(project.shards()) == [SHOP, f"{FOLDER}/web/visits.yaml"]
    assert project.tree[SHOP] == before[SHOP]
    assert meaning(project.model()) == model, "a project may have files of both layouts"
    project.scan(CUSTOMERS, ORDERS, other)
    assert list(project.shards()) == [CUSTOMERS_FILE, ORDERS_FILE, f"{FOLDER}/web/visits.yaml"]
    assert meaning(project.model()) == model


def test_a_held_file_of_one_table_keeps_the_whole_shard_where_it_is(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS, layout=PER_SCHEMA)
    before = dict(project.tree)
    project.scan(CUSTOMERS, ORDERS, held=frozenset({ORDERS_FILE}))
    assert dict(project.tree) == before


def test_an_edited_file_of_a_table_holds_up_no_other_table(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS)
    wider = [replace(each, comment="new") for each in (CUSTOMERS, ORDERS)]
    project.scan(*wider, held=frozenset({ORDERS_FILE}))
    assert project.entry(CUSTOMERS_FILE, "customers")["descriptions"] == {"db": "new"}
    assert "descriptions" not in project.entry(ORDERS_FILE, "orders")


ODD = [
    "Orders",
    "orders",
    "ORDERS",
    "a/b",
    "..",
    ".",
    "x.yaml",
    "con",
    "größe",
    "📦",
    " ",
    "-",
    "a" * 200,
    "a\\b",
    'a"b',
]


@pytest.mark.table("schema", ["shop", None, "..", "Shop", "a/b"])
def test_names_that_are_no_file_names_get_one_of_their_own(schema: str | None, project: Project) -> None:
    tables = [table(name, "id", schema=schema) for name in ODD]
    project.scan(*tables)
    files = list(project.shards())
    assert len({path.casefold() for path in files}) == len(ODD)
    for path in files:
        *_, folder, name = path.split("/")
        assert len(path.split("/")) == 5
        assert len(name) < 80 and name.isascii() and folder.isascii()
        assert not {"", ".", ".."} & {folder, name.removesuffix(".yaml")}
        assert len(project.tree.data(path)["tables"]) == 1
    assert sorted(project.model().sources) == sorted(ODD)
    assert project.scan(*tables).unchanged


def test_tables_without_a_schema_are_in_the_folder_of_the_default_one(project: Project) -> None:
    project.scan(table("orders", "id", schema=None))
    assert list(project.shards()) == [f"{FOLDER}/main/orders.yaml"]


def test_a_table_stays_in_the_file_that_a_person_named(project: Project) -> None:
    project.scan(CUSTOMERS, ORDERS)
    project.tree[f"{FOLDER}/shop/people.yaml"] = project.tree.pop(CUSTOMERS_FILE)
    outcome = project.scan(replace(CUSTOMERS, comment="new"), ORDERS)
    assert list(project.shards()) == [ORDERS_FILE, f"{FOLDER}/shop/people.yaml"]
    assert outcome.plan.changes.changed == ("shop.customers",)


names = st.sampled_from(["orders", "customers", "Order Lines", "a.b", "größe", "x"])
schemas = st.sampled_from([None, "shop", "web"])
columns = ("id", "other_id", "Some Name")


@st.composite
def databases(draw: st.DrawFn) -> list[Table]:
    refs = draw(st.lists(st.builds(TableRef, schemas, names), min_size=1, max_size=5, unique=True))
    tables = []
    for ref in refs:
        keys = draw(
            st.lists(st.tuples(st.sampled_from(refs), st.sampled_from(columns), st.sampled_from(columns)), max_size=3)
        )
        unique = (UniqueKey(("other_id",)),) if draw(st.booleans()) else ()
        foreign = tuple(ForeignKey((own,), target, (other,), f"fk{i}") for i, (target, own, other) in enumerate(keys))
        made = table(ref.name, *columns, schema=ref.schema, primary_key=("id",), unique_keys=unique)
        tables.append(replace(made, foreign_keys=foreign, comment=draw(st.sampled_from([None, "About it"]))))
    return tables


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(databases(), databases())
def test_the_model_is_the_same_in_both_layouts_and_moving_changes_nothing(one: list[Table], two: list[Table]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wide, narrow = Project(Path(folder)), Project(Path(folder))
        for tables in (one, two):
            wide.scan(*tables, layout=PER_SCHEMA)
            narrow.scan(*tables, layout=PER_TABLE)
            assert all(len(yaml.load(each, where="")["tables"]) == 1 for each in narrow.shards().values())
            assert meaning(wide.model()) == meaning(narrow.model())
        files = wide.shards(), narrow.shards()
        wide.scan(*two, layout=PER_TABLE)
        narrow.scan(*two, layout=PER_SCHEMA)
        assert meaning(wide.model()) == meaning(narrow.model())
        assert (narrow.shards(), wide.shards()) == files
        assert wide.scan(*two, layout=PER_TABLE).unchanged
