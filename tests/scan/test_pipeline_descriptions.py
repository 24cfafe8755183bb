"""Descriptions in a scan: what is recorded, what the manifest shows, whose text wins."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.project.layout import Layout
from ktx_cli.scan.descriptions.facts import Described, DescriptionInput, DescriptionReport, Source
from ktx_cli.scan.outcome import PreviousScan, ScanOutcome
from ktx_cli.scan.pipeline import ScanJob, scan_connection
from ktx_cli.semantic.store.layer import ParsedCopies
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
)

RAW = "raw-sources/wh/live-database"
SHARD = "semantic-layer/wh/_schema/main.yaml"


class Database:
    """A connector over tables in memory."""

    dialect = "duckdb"

    def __init__(self, *tables: Table, problems: Sequence[ObjectProblem] = ()) -> None:
        self.schema = DatabaseSchema(tables, tuple(problems))

    def introspect(self, scope: Scope) -> DatabaseSchema:
        return self.schema

    def test(self, scope: Scope) -> ConnectionTest:
        raise AssertionError("not used")

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        raise AssertionError("not used")

    def close(self) -> None: ...

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None: ...


@dataclass
class Teller:
    """Says a text of every table and of its first column, except of those it is silent about."""

    word: str = "first"
    source: Source = "ai"
    silent: frozenset[str] = frozenset()
    seen: list[DescriptionInput] = field(default_factory=list)
    report: DescriptionReport = field(default_factory=lambda: DescriptionReport("llm"))
    proposer: None = None

    def describe(
        self, wanted: DescriptionInput, report: DescriptionReport
    ) -> tuple[list[Described], DescriptionReport]:
        self.seen.append(wanted)
        return [
            Described(
                each.ref, self.word, self.source, f"{self.word} {each.ref.name}", {each.columns[0].name: self.word}
            )
            for each in wanted.tables
            if each.ref.name not in self.silent
        ], report


@dataclass
class Tree:
    """A project in memory, and one scan of it after the other."""

    folder: Path
    files: dict[str, bytes] = field(default_factory=dict)

    def read_many(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        return {path: self.files[path] for path in paths if path in self.files}

    def blobs(self, prefix: str) -> Mapping[str, str]:
        return {path: str(hash(content)) for path, content in self.files.items() if path.startswith(prefix + "/")}

    def scan(
        self, database: Database, describer: Teller | None = None, previous: PreviousScan | None = None
    ) -> ScanOutcome:
        copies = ParsedCopies(Layout(self.folder), "wh")
        job = ScanJob("wh", "duckdb", self, copies, previous=previous, describer=describer)
        outcome = scan_connection(database, Scope(), job)
        for path, content in outcome.files.items():
            if content is None:
                del self.files[path]
            else:
                self.files[path] = content
        return outcome

    def committed(self) -> dict[str, str]:
        return {path: str(hash(content)) for path, content in self.files.items()}

    def texts(self, name: str) -> Any:
        return self.tables()[name].get("descriptions", {})

    def tables(self) -> Any:
        return yaml.load(self.files[SHARD], where=SHARD)["tables"]

    def write(self, tables: Any) -> None:
        self.files[SHARD] = yaml.dump({"tables": tables}).encode()

    def record(self) -> dict[str, Any]:
        found = json.loads(self.files[f"{RAW}/descriptions.json"])["tables"]
        return {each["table"]: each for each in found}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def table(name: str, *columns: str, **fields: Any) -> Table:
    listed = tuple(Column(column, "INTEGER", SemanticType.NUMBER) for column in columns)
    return Table(TableRef(None, name), TableKind.TABLE, listed, **fields)


A, B = table("a", "id", "x"), table("b", "id", "a_id")


def test_texts_are_recorded_and_shown(tree: Tree) -> None:
    tree.scan(Database(A, B), Teller())
    assert tree.record()["a"] == {
        "table": "a",
        "hash": "first",
        "source": "ai",
        "text": "first a",
        "columns": {"id": "first"},
    }
    assert tree.tables()["b"]["descriptions"] == {"ai": "first b"}
    assert [column.get("descriptions") for column in tree.tables()["b"]["columns"]] == [{"ai": "first"}, None]


def test_what_is_as_it_was_changes_nothing(tree: Tree) -> None:
    outcome = tree.scan(Database(A, B), Teller())
    before = dict(tree.files)
    assert tree.scan(Database(A, B), Teller()).files == {}
    again = tree.scan(Database(A, B), Teller(), PreviousScan(outcome.digest, tree.committed()))
    assert (again.unchanged, again.plan.shards) == (True, {})
    changed = tree.scan(Database(A, B), Teller("second"), PreviousScan(outcome.digest, tree.committed()))
    assert not changed.unchanged
    assert tree.files != before


def test_a_scan_that_does_not_describe_keeps_the_texts(tree: Tree) -> None:
    tree.scan(Database(A, B), Teller())
    before = tree.files[f"{RAW}/descriptions.json"]
    tree.scan(Database(A, B, table("c", "id")))
    assert tree.files[f"{RAW}/descriptions.json"] == before
    assert tree.texts("a") == {"ai": "first a"}
    tree.scan(Database(replace(A, columns=A.columns[1:]), table("c", "id")))
    assert list(tree.record()) == ["a"]
    assert "columns" not in tree.record()["a"], "the column is gone, and so is its text"


def test_a_scan_that_never_described_writes_no_record(tree: Tree) -> None:
    tree.scan(Database(A))
    assert not any(path.endswith("descriptions.json") for path in tree.files)
    tree.scan(Database(A), Teller(silent=frozenset("a")))
    assert not any(path.endswith("descriptions.json") for path in tree.files)


def test_an_old_text_stays_until_there_is_a_new_one(tree: Tree) -> None:
    tree.scan(Database(A, B), Teller())
    tree.scan(Database(A, B), Teller("second", silent=frozenset("a")))
    assert (tree.texts("a"), tree.texts("b")) == ({"ai": "first a"}, {"ai": "second b"})


def test_the_models_text_takes_the_place_of_a_rules_and_not_the_other_way(tree: Tree) -> None:
    tree.scan(Database(A), Teller(source="rules"))
    assert tree.texts("a") == {"ktx": "first a"}
    tree.scan(Database(A), Teller("second"))
    assert tree.texts("a") == {"ai": "second a"}
    tree.scan(Database(A), Teller("third", source="rules"))
    assert tree.texts("a") == {"ai": "second a"}


@pytest.mark.parametrize(
    ("persons", "kept"),
    [({"ai": "mine"}, {"ai": "mine"}), ({}, {}), ({"ai": "first a", "user": "u"}, {"ai": "second a", "user": "u"})],
    ids=["edited", "deleted", "beside"],
)
def test_whose_text_wins(tree: Tree, persons: dict[str, str], kept: dict[str, str]) -> None:
    tree.scan(Database(A), Teller())
    tables = tree.tables()
    tables["a"]["descriptions"] = persons
    tree.write(tables)
    tree.scan(Database(A), Teller("second"))
    assert tree.texts("a") == kept
    assert tree.record()["a"]["text"] == "second a", "the record says what the scan said"


def test_labels_and_synonyms_that_people_add_are_kept(tree: Tree) -> None:
    tree.scan(Database(A), Teller())
    tables = tree.tables()
    tables["a"]["descriptions"] = {**tables["a"]["descriptions"], "label": "The as", "synonyms": "alphas, firsts"}
    tables["a"]["columns"][0] |= {"label": "Number", "synonyms": ["no"]}
    tree.write(tables)
    tree.scan(Database(A, B), Teller("second"))
    kept = tree.tables()["a"]
    assert (kept["descriptions"]["label"], kept["descriptions"]["synonyms"]) == ("The as", "alphas, firsts")
    assert kept["descriptions"]["ai"] == "second a"
    assert (kept["columns"][0]["label"], kept["columns"][0]["synonyms"]) == ("Number", ["no"])


@pytest.mark.parametrize("lost", ["descriptions.json", "manifest.yaml"])
def test_texts_nobody_recorded_stay_until_there_are_new_ones(tree: Tree, lost: str) -> None:
    tree.scan(Database(A, B), Teller())
    del tree.files[f"{RAW}/descriptions.json"]
    tree.files.pop(f"{RAW}/{lost}", None)
    tree.scan(Database(A, B))
    assert tree.texts("a") == {"ai": "first a"}
    assert f"{RAW}/descriptions.json" not in tree.files
    tree.scan(Database(A, B), Teller("second", silent=frozenset("b")))
    assert (tree.texts("a"), tree.texts("b")) == ({"ai": "second a"}, {"ai": "first b"})
    assert list(tree.record()) == ["a"], "what somebody else said is not what this scan said"
    tree.scan(Database(A, B), Teller("third", source="rules", silent=frozenset("a")))
    assert tree.texts("b") == {"ai": "first b"}, "rules replace no better text of another program"
    tree.scan(Database(A))
    assert list(tree.tables()) == ["a"]


def test_a_lost_text_of_a_removed_table_is_nobodys_word(tree: Tree) -> None:
    tree.scan(Database(A, B), Teller())
    del tree.files[f"{RAW}/descriptions.json"]
    assert tree.scan(Database(A)).plan.removed_texts.tables == {}


def test_a_damaged_record_is_named_and_left_alone(tree: Tree) -> None:
    tree.scan(Database(A), Teller())
    tree.files[f"{RAW}/descriptions.json"] = b"{"
    teller = Teller("second")
    outcome = tree.scan(Database(A), teller)
    assert [warning.code for warning in outcome.warnings] == ["broken_record"]
    assert teller.seen == []
    assert tree.files[f"{RAW}/descriptions.json"] == b"{"
    assert tree.texts("a") == {"ai": "first a"}


def test_what_cannot_be_read_now_is_described_as_it_was(tree: Tree) -> None:
    keyed = replace(B, foreign_keys=(ForeignKey(("a_id",), A.ref, ("id",), "fk"),))
    teller = Teller()
    tree.scan(Database(A, keyed), teller)
    broken = ObjectProblem(A.ref, "table", "permission denied")
    tree.scan(Database(B, problems=(broken, ObjectProblem(None, "foreign keys", "no"))), teller)
    first, second = teller.seen
    assert {each.ref: each.neighbours for each in second.facts()} == {
        each.ref: each.neighbours for each in first.facts()
    }


def test_people_are_read_only_when_somebody_asks(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    teller = Teller()
    outcome = tree.scan(Database(A), teller)
    tables = tree.tables()
    tables["a"]["descriptions"] = {"ai": "first a", "user": "people's"}
    tree.write(tables)
    tree.scan(Database(A), teller)
    (known,) = teller.seen[-1].texts().values()
    assert known.table == {"user": "people's"}
    monkeypatch.setattr(ParsedCopies, "parse", lambda *args: pytest.fail("parsed"))
    assert tree.scan(Database(A), teller, PreviousScan(outcome.digest, tree.committed())).unchanged
