from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError
from ktx_cli.project.layout import Layout
from ktx_cli.scan.outcome import PreviousScan, ScanOutcome
from ktx_cli.scan.pipeline import ScanJob, scan_connection
from ktx_cli.scan.snapshot import read_table, table_file
from ktx_cli.semantic.manifest import MANIFEST_HEADER
from ktx_cli.semantic.store.layer import ParsedCopies, load_manifest
from ktx_cli.semantic.store.writer import write_store
from ktx_cli.warehouses.port import (
    Column,
    ConnectionTest,
    DatabaseSchema,
    ForeignKey,
    ObjectProblem,
    QueryResult,
    Scope,
    SemanticType,
    Table,
    TableKind,
    TableRef,
    UniqueKey,
)

SHARD = "semantic-layer/wh/_schema/shop.yaml"
MANIFEST = "raw-sources/wh/live-database/manifest.yaml"


class Database:
    """A connector over tables in memory."""

    dialect = "duckdb"

    def __init__(self, *tables: Table, problems: Sequence[ObjectProblem] = ()) -> None:
        self.schema = DatabaseSchema(tables, tuple(problems))

    def test(self, scope: Scope) -> ConnectionTest:
        raise AssertionError("not used")

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        raise AssertionError("a structural scan sends no query of its own")

    def introspect(self, scope: Scope) -> DatabaseSchema:
        return self.schema

    def close(self) -> None: ...

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None: ...


class Tree(dict[str, bytes]):
    """A committed tree in memory; a blob's id is its content's hash."""

    def read_many(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        return {path: self[path] for path in paths if path in self}

    def blobs(self, prefix: str) -> Mapping[str, str]:
        return {path: str(hash(content)) for path, content in self.items() if path.startswith(prefix + "/")}

    def commit(self, outcome: ScanOutcome) -> None:
        for path, content in outcome.files.items():
            if content is None:
                del self[path]
            else:
                self[path] = content

    def data(self, path: str = SHARD) -> Any:
        return yaml.load(self[path], where=path)


def table(name: str, *columns: str, schema: str | None = "shop", **fields: Any) -> Table:
    return Table(
        TableRef(schema, name),
        fields.pop("kind", TableKind.TABLE),
        tuple(Column(c, "INTEGER", SemanticType.NUMBER) for c in columns),
        **fields,
    )


ORDERS = table(
    "orders",
    "id",
    "customer_id",
    primary_key=("id",),
    foreign_keys=(ForeignKey(("customer_id",), TableRef("shop", "customers"), ("id",), "fk"),),
)
CUSTOMERS = table("customers", "id", primary_key=("id",), comment="People who bought")


@pytest.fixture
def tree() -> Tree:
    return Tree()


@pytest.fixture
def copies(tmp_path: Path) -> ParsedCopies:
    return ParsedCopies(Layout(tmp_path), "wh")


def run(database: Database, tree: Tree, copies: ParsedCopies, previous: PreviousScan | None = None) -> ScanOutcome:
    return scan_connection(database, Scope(), ScanJob("wh", "duckdb", tree, copies, previous=previous))


def test_first_scan_writes_a_shard_and_a_snapshot(tree: Tree, copies: ParsedCopies) -> None:
    outcome = run(Database(CUSTOMERS, ORDERS), tree, copies)
    tree.commit(outcome)
    assert outcome.plan.changes.added == ("shop.customers", "shop.orders")
    assert tree[SHARD].decode().startswith(MANIFEST_HEADER)
    assert tree.data() == {
        "tables": {
            "customers": {
                "table": "shop.customers",
                "descriptions": {"db": "People who bought"},
                "columns": [{"name": "id", "type": "number", "pk": True}],
                "joins": [
                    {"to": "orders", "on": "id = orders.customer_id", "relationship": "one_to_many", "source": "formal"}
                ],
            },
            "orders": {
                "table": "shop.orders",
                "columns": [{"name": "id", "type": "number", "pk": True}, {"name": "customer_id", "type": "number"}],
                "joins": [
                    {
                        "to": "customers",
                        "on": "customer_id = customers.id",
                        "relationship": "many_to_one",
                        "source": "formal",
                    }
                ],
            },
        }
    }
    listed = tree.data(MANIFEST)["files"]
    assert [f["path"] for f in listed] == ["tables/shop/customers.json", "tables/shop/orders.json"]
    assert {f["status"] for f in listed} == {"done"}


def test_unchanged_is_found_without_parsing_a_shard(
    tree: Tree, copies: ParsedCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(Database(CUSTOMERS, ORDERS), tree, copies)
    tree.commit(first)
    files = {**tree.blobs("semantic-layer/wh/_schema"), **tree.blobs("raw-sources/wh/live-database")}
    monkeypatch.setattr(copies, "parse", lambda *_: pytest.fail("a shard was parsed"))
    again = run(Database(CUSTOMERS, ORDERS), tree, copies, PreviousScan(first.digest, files))
    assert again.unchanged
    assert again.files == {}


def test_without_state_the_same_database_gives_the_same_bytes(tree: Tree, copies: ParsedCopies) -> None:
    tree.commit(run(Database(CUSTOMERS, ORDERS), tree, copies))
    again = run(Database(ORDERS, CUSTOMERS), tree, copies)
    assert again.files == {}
    assert again.unchanged


def test_row_counts_change_nothing(tree: Tree, copies: ParsedCopies) -> None:
    tree.commit(run(Database(table("t", "a", row_estimate=1)), tree, copies))
    again = run(Database(table("t", "a", row_estimate=2)), tree, copies)
    assert again.files == {}
    assert again.row_estimates == {"shop.t": 2}


def test_changes_are_named_and_what_people_wrote_survives(tree: Tree, copies: ParsedCopies) -> None:
    tree.commit(run(Database(CUSTOMERS, ORDERS, table("old", "x")), tree, copies))
    document = tree.data()
    document["tables"]["customers"]["descriptions"]["user"] = "our customers"
    document["tables"]["customers"]["columns"][0]["descriptions"] = {"dbt": "key"}
    document["tables"]["customers"]["usage"] = {"narrative": "often"}
    tree[SHARD] = yaml.dump(document).encode()
    wider = table("customers", "id", "name", primary_key=("id",), comment="New comment")
    outcome = run(Database(wider, ORDERS, table("new", "y")), tree, copies)
    tree.commit(outcome)
    assert outcome.plan.changes.added == ("shop.new",)
    assert outcome.plan.changes.changed == ("shop.customers",)
    assert outcome.plan.changes.removed == ("shop.old",)
    customers = tree.data()["tables"]["customers"]
    assert customers["descriptions"] == {"db": "New comment", "user": "our customers"}
    assert customers["columns"][0]["descriptions"] == {"dbt": "key"}
    assert customers["columns"][1] == {"name": "name", "type": "number"}
    assert customers["usage"] == {"narrative": "often"}
    assert "old" not in tree.data()["tables"]
    assert "raw-sources/wh/live-database/tables/shop/old.json" not in tree


def test_a_table_that_cannot_be_read_now_is_kept(tree: Tree, copies: ParsedCopies) -> None:
    tree.commit(run(Database(CUSTOMERS, ORDERS), tree, copies))
    before = dict(tree)
    problem = ObjectProblem(TableRef("shop", "orders"), "columns", "permission denied")
    outcome = run(Database(CUSTOMERS, problems=[problem]), tree, copies)
    tree.commit(outcome)
    assert dict(tree) == before
    assert outcome.plan.changes.removed == ()
    assert outcome.problems == (problem,)


def test_shards_of_the_typescript_ktx_are_adopted(tree: Tree, copies: ParsedCopies) -> None:
    path = "semantic-layer/wh/_schema/default.yaml"
    tree[path] = (
        b"tables:\n  Kunden:\n    table: shop.customers\n    descriptions: {db: old, ai: text, user: mine}\n"
        b"    columns:\n      - {name: id, type: string, descriptions: {ai: key}}\n"
        b"    joins:\n      - {to: orders, on: id = orders.customer_id, relationship: one_to_many, source: inferred}\n"
    )
    outcome = run(Database(CUSTOMERS, ORDERS), tree, copies)
    tree.commit(outcome)
    kunden = tree.data(path)["tables"]["Kunden"]
    assert kunden["descriptions"] == {"db": "People who bought", "ai": "text", "user": "mine"}
    assert kunden["columns"] == [{"name": "id", "type": "number", "pk": True, "descriptions": {"ai": "key"}}]
    assert len(kunden["joins"]) == 1
    assert tree.data()["tables"]["orders"]["joins"][0]["to"] == "Kunden"


def test_one_to_one_composite_and_self_references(tree: Tree, copies: ParsedCopies) -> None:
    line = table("line", "o", "n", primary_key=("o", "n"))
    gift = table(
        "Gift Note",
        "o",
        "n",
        "boss",
        unique_keys=(UniqueKey(("o", "n")),),
        foreign_keys=(
            ForeignKey(("o", "n"), TableRef("shop", "line"), ("o", "n")),
            ForeignKey(("boss",), TableRef("shop", "Gift Note"), ("o",)),
            ForeignKey(("boss",), TableRef("elsewhere", "x"), ("id",)),
        ),
    )
    tree.commit(run(Database(gift, line), tree, copies))
    assert tree.data()["tables"]["Gift Note"]["joins"] == [
        {"to": "line", "on": "o = line.o AND n = line.n", "relationship": "one_to_one", "source": "formal"},
        {"to": "Gift Note", "on": 'boss = "Gift Note".o', "relationship": "many_to_one", "source": "formal"},
    ]


def test_a_broken_shard_stops_the_scan_and_names_the_line(tree: Tree, copies: ParsedCopies) -> None:
    tree[SHARD] = b"tables:\n  a: [\n"
    with pytest.raises(ConfigError, match=r"shop\.yaml:"):
        run(Database(CUSTOMERS), tree, copies)


def test_a_damaged_snapshot_is_a_warning_and_is_written_anew(tree: Tree, copies: ParsedCopies) -> None:
    tree.commit(run(Database(CUSTOMERS), tree, copies))
    path = "raw-sources/wh/live-database/tables/shop/customers.json"
    good = tree[path]
    tree[path] = b"{"
    outcome = run(Database(CUSTOMERS), tree, copies)
    assert [w.code for w in outcome.warnings] == ["broken_snapshot"]
    tree.commit(outcome)
    assert tree[path] == good


def test_an_empty_database_has_an_empty_snapshot(tree: Tree, copies: ParsedCopies) -> None:
    tree.commit(run(Database(), tree, copies))
    assert set(tree) == {MANIFEST}
    assert run(Database(), tree, copies).files == {}


def test_snapshot_files_read_back_equal() -> None:
    full = Table(
        TableRef("s", 'we "ird/📦'),
        TableKind.VIEW,
        (Column("a", "DECIMAL(10,2)", SemanticType.NUMBER, False, "c", "0", True),),
        "comment",
        ("a",),
        (ForeignKey(("a",), TableRef(None, "t"), ("b",), "fk"),),
        (UniqueKey(("a",), "u"),),
        (),
        None,
        "SELECT 1",
    )
    file = table_file(full)
    assert read_table(file.content, file.path) == full
    assert table_file(full).sha256 == file.sha256


def test_the_parsed_copy_reads_as_the_yaml_does(
    tree: Tree, copies: ParsedCopies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(tmp_path)
    outcome = run(Database(CUSTOMERS, ORDERS), tree, copies)
    for path, content in outcome.files.items():
        assert content is not None
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    parsed = load_manifest(layout, "wh")
    assert write_store(layout, "wh", "sqlite", None)
    monkeypatch.setattr("ktx_cli.semantic.store.layer.parse_shard", lambda *_: pytest.fail("a shard was parsed"))
    copied = load_manifest(layout, "wh")
    assert (parsed.tables, parsed.problems) == (copied.tables, copied.problems)
    assert list(parsed.tables) == list(copied.tables)
    assert list(parsed.relations.items()) == list(copied.relations.items())
    assert sum(len(entry["columns"]) for entry in parsed.tables.values()) == 3


def test_a_broken_shard_does_not_block_reading_the_others(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    folder = layout.schema_dir("wh")
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text("tables: {t: {table: t}}")
    (folder / "b.yml").write_text("tables: [")
    manifest = load_manifest(layout, "wh")
    assert list(manifest.tables) == ["t"]
    assert [w.code for w in manifest.problems] == ["broken_shard"]
