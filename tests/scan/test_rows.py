"""Looks at the rows in whole runs: a second one at unchanged data, turns, damage, views, a full state database."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ResultWarning, StorageError
from ktx_cli.core.events import Event, StepFinished
from ktx_cli.engine.report import IngestReport
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.review import join_status_counts
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing, read_state
from ktx_cli.scan import pipeline
from ktx_cli.scan.profile.store import ProfileStore, load_profile_times
from ktx_cli.scan.profile.values import Dictionary, build_dictionary
from ktx_cli.scan.relationships.record import KeyChoice, Relationship, RelationshipRecord, Status, with_earlier
from ktx_cli.scan.review import INFERRED_JOINS
from ktx_cli.scan.stages import Depth
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses import base
from ktx_cli.warehouses.port import TableRef
from ktx_cli.warehouses.sqlite.connector import SqliteConnector

ROWS = (
    "INSERT INTO customers SELECT value FROM json_each('[1,2,3,4,5,6,7,8,9]')",
    "ALTER TABLE orders ADD COLUMN customer_id INTEGER",
    "ALTER TABLE orders ADD COLUMN status TEXT",
    "INSERT INTO orders SELECT value + 100, 1 + value % 9, CASE value % 2 WHEN 0 THEN 'open' ELSE 'paid' END"
    " FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]')",
)
Change = Callable[..., None]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any change for an old one: no program can set a file's time of change back."""
    monkeypatch.setattr(base, "SETTLED_SECONDS", -60.0)


@pytest.fixture
def shop(shop_project: Path, change: Change) -> Path:
    change(shop_project, *ROWS)
    return shop_project


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements about rows that were sent."""
    statements: list[str] = []
    query = SqliteConnector.query

    def listened(self: SqliteConnector, sql: str, *rest: Any, **options: Any) -> Any:
        statements.append(sql)
        return query(self, sql, *rest, **options)

    monkeypatch.setattr(SqliteConnector, "query", listened)
    return statements


def scan(project: Path, **options: Any) -> tuple[IngestReport, list[ResultWarning]]:
    return ingest(IngestRequest(project, os.environ, depth=Depth.PROFILE, **options))


def told(report: IngestReport) -> dict[str, Any]:
    """Return what a report says of its connection, but for the time it took and what changed."""
    shown = report.connections[0].to_json()
    return {
        key: value
        for key, value in shown.items()
        if key not in ("seconds", "status", "result", "changes", "files", "profile")
    }


def files(project: Path) -> dict[str, bytes]:
    folders = (project / "semantic-layer", project / "raw-sources")
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def state(project: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return all rows of a query of the state database."""
    found = read_state(Layout(project), lambda database: database.execute(sql).fetchall())
    return [tuple(row) for row in found or ()]


def dump(project: Path) -> list[tuple[Any, ...]]:
    profiles = [(name, json.loads(text)) for name, text in state(project, "SELECT table_name, profile FROM profiles")]
    undated = [(name, json.dumps(profile | {"profiled": None})) for name, profile in profiles]
    return sorted(undated) + sorted(state(project, "SELECT value, count FROM dictionary_values"))


of_a_file = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="about the file of the state database")


def test_a_second_look_reads_no_row_and_says_the_same(shop: Path, sent: list[str]) -> None:
    first, said = scan(shop)
    written, stored = files(shop), dump(shop)
    assert sent
    assert told(first)["relationships"]["accepted"] == 1
    sent.clear()
    events: list[Event] = []
    second, again = scan(shop, emit=events.append)
    assert sent == []
    assert (told(second), files(shop), dump(shop)) == (told(first), written, stored)
    assert [each.code for each in again] == [each.code for each in said]
    assert "unchanged since the last profile" in repr(events)
    assert second.status == "unchanged"


DECLARED = (
    "CREATE TABLE parcels (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id))",
    "INSERT INTO parcels SELECT value, value FROM json_each('[1,2,3,4,5,6,7,8,9]')",
)


@pytest.mark.parametrize(
    ("statements", "said", "counted"),
    [
        ((), "no joins inferred", 0),
        (ROWS, "1 join among ", 1),
        (DECLARED, "1 declared foreign key; no further joins inferred", 0),
        ((*ROWS, *DECLARED), "1 declared foreign key; 1 further join among ", 1),
    ],
)
def test_declared_and_inferred_joins_are_counted_apart(
    shop_project: Path, change: Change, statements: tuple[str, ...], said: str, counted: int
) -> None:
    change(shop_project, *statements)
    events: list[Event] = []
    report, _ = scan(shop_project, emit=events.append)
    (summary,) = (each.summary for each in events if isinstance(each, StepFinished) and each.step == "relationships")
    assert summary.startswith(said)
    assert report.connections[0].declared == ("declared" in said)
    counts = join_status_counts(Layout(shop_project), "shop", pytest.fail)
    assert counts == report.connections[0].relationships
    assert counts is not None
    assert sum(counts[each] for each in INFERRED_JOINS) == counted


@of_a_file
def test_a_look_anew_writes_the_same_bytes(shop: Path, sent: list[str]) -> None:
    scan(shop)
    reused, _ = scan(shop)
    written, stored = files(shop), dump(shop)
    (shop / ".ktx" / "state.sqlite").unlink()
    sent.clear()
    anew, _ = scan(shop)
    assert sent
    assert (told(anew), files(shop), dump(shop)) == (told(reused), written, stored)


CHANGES: Mapping[str, Callable[[Path, Change], object]] = {
    "a row": lambda project, change: change(project, "UPDATE orders SET customer_id = 77 WHERE id = 101"),
    "a table": lambda project, change: change(project, "CREATE TABLE more (id INTEGER)"),
    "a setting": lambda project, change: (project / "ktx.yaml").write_text(
        (project / "ktx.yaml").read_text() + "scan:\n  relationships:\n    profileSampleRows: 5\n"
    ),
    "the scope": lambda project, change: (project / "ktx.yaml").write_text(
        (project / "ktx.yaml").read_text() + "    exclude: [customers]\n"
    ),
    "a journal": lambda project, change: (project / "shop.sqlite-wal").write_bytes(b""),
}


@pytest.mark.parametrize("what", CHANGES)
def test_any_change_is_a_new_look(what: str, shop: Path, change: Change, sent: list[str]) -> None:
    scan(shop)
    scan(shop)
    sent.clear()
    CHANGES[what](shop, change)
    scan(shop)
    # An empty WAL is none, and a smaller scope needs no other answers.
    assert bool(sent) == (what not in ("a journal", "the scope"))
    sent.clear()
    scan(shop)
    assert sent == []


def test_a_change_while_the_rows_are_read_is_not_taken_for_what_was_read(
    shop: Path, change: Change, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    def late(*args: Any, **options: Any) -> Any:
        change(shop, "UPDATE orders SET status = 'sent'")
        return build_dictionary(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "build_dictionary", late)
        scan(shop)
    sent.clear()
    scan(shop)
    assert sent


def test_a_dry_run_looks_anew_and_keeps_nothing(shop: Path, sent: list[str]) -> None:
    scan(shop)
    before = dump(shop)
    sent.clear()
    scan(shop, dry_run=True)
    assert sent
    assert dump(shop) == before


def test_what_the_time_did_not_reach_is_first_in_the_next_run(
    shop: Path, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = []
    for left in ([1], []):
        clock = iter(range(100))
        for module in ("ktx_cli.scan.profile.profiler", "ktx_cli.warehouses.sampling"):
            monkeypatch.setattr(f"{module}.monotonic", lambda ticks=clock: 600.0 * next(ticks))
        sent.clear()
        _, warnings = scan(shop)
        assert [each.details.get("left") for each in warnings if each.code == "profile_out_of_time"] == left
        reached.append({name for name in ("customers", "orders") for sql in sent if f'FROM "{name}"' in sql})
    assert reached[0] | reached[1] == {"customers", "orders"}
    turns = read_state(Layout(shop), lambda database: load_profile_times(database, "shop"))
    assert turns is not None
    assert set(turns) == {TableRef(None, "customers"), TableRef(None, "orders")}


def test_damage_is_named_and_the_rest_is_scanned(shop: Path, change: Change) -> None:
    change(shop, "CREATE TABLE bad (id INTEGER PRIMARY KEY, word TEXT)")
    change(shop, *(f"INSERT INTO bad VALUES ({number}, '{'word' * 100}')" for number in range(60)))
    with contextlib.closing(sqlite3.connect(shop / "shop.sqlite")) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        page = database.execute("SELECT max(pageno) FROM dbstat WHERE name = 'bad' AND pagetype = 'leaf'").fetchone()[0]
    with (shop / "shop.sqlite").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 64)
    report, warnings = scan(shop)
    assert report.status == "done"
    (warning,) = [each for each in warnings if each.code == "not_profiled"]
    assert "could not read rows from 1 table (bad): the file is damaged" in warning.message
    assert "`exclude` of connections.shop in ktx.yaml: bad" in str(warning.hint)
    assert told(report)["relationships"]["accepted"] == 1


def test_a_look_that_is_not_whole_is_made_again(shop: Path, change: Change, sent: list[str]) -> None:
    test_damage_is_named_and_the_rest_is_scanned(shop, change)
    sent.clear()
    scan(shop)
    assert sent


def test_views_that_are_not_read_are_one_line(shop: Path, change: Change, sent: list[str]) -> None:
    change(shop, "CREATE VIEW v AS SELECT * FROM orders", "CREATE VIEW w AS SELECT * FROM customers")
    (shop / "ktx.yaml").write_text((shop / "ktx.yaml").read_text() + "scan:\n  views: never\n")
    for _ in range(2):
        report, warnings = scan(shop)
        assert [(each.code, each.details["views"]) for each in warnings] == [("views_not_read", 2)]
        assert report.connections[0].tables == 4
    assert not [sql for sql in sent if '"v"' in sql or '"w"' in sql]


@of_a_file
def test_a_full_disk_is_an_error_that_names_the_state_database(shop: Path) -> None:
    layout = Layout(shop)
    values = tuple(("v" * 100 + str(number), 1) for number in range(300))
    lists = Dictionary(tuple(ColumnValues(TableRef(None, f"t{at}"), "c", values, True) for at in range(20)))
    with open_for_writing(layout) as database:
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages + 3}")
        store = ProfileStore(database, layout.state, "shop", "local")
        with pytest.raises(StorageError, match=r"state\.sqlite cannot be used") as caught:
            store.save((), lists)
    assert "free" in str(caught.value.hint)
    assert "space" in str(caught.value.hint)


A, B, V = (TableRef("s", name) for name in "abv")


def inferred(child: TableRef, parent: TableRef, status: Status, score: float = 0.9) -> Relationship:
    return Relationship(child, ("x",), parent, ("id",), status, score, "")


ACCEPTED, REVIEW, REJECTED = Status.ACCEPTED, Status.REVIEW, Status.REJECTED


def test_what_rows_once_said_of_a_view_stays_while_it_is_not_read() -> None:
    new = RelationshipRecord(
        {A: KeyChoice(("id",), True)}, (inferred(V, A, REVIEW), inferred(V, B, REVIEW), inferred(A, B, REVIEW))
    )
    old = RelationshipRecord(
        {V: KeyChoice(("id",), False), B: KeyChoice(("old",), False), A: KeyChoice(("x",), False)},
        (inferred(V, A, ACCEPTED), inferred(V, V, REJECTED), inferred(A, B, ACCEPTED), inferred(B, V, REVIEW)),
    )
    found = with_earlier(new, old, {V})
    assert found.keys == {A: KeyChoice(("id",), True), V: KeyChoice(("id",), False)}
    assert set(found.relationships) == {
        inferred(V, B, REVIEW),
        inferred(A, B, REVIEW),
        inferred(V, A, ACCEPTED),
        inferred(V, V, REJECTED),
    }
    assert with_earlier(new, old, ()) is new


def test_the_stored_look_is_json_and_holds_no_value(shop: Path) -> None:
    scan(shop)
    ((text,),) = state(shop, "SELECT value FROM enrichment WHERE kind = 'look'")
    names = ("fingerprint", "hints", "relationships", "known", "measures", "decisions", "stored_columns")
    assert tuple(json.loads(text)) == names
    assert "paid" not in text


def test_samples_checks_and_lists_share_one_budget(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, deadlines, left = [0.0], [], []
    profile_tables, discover = pipeline.profile_tables, pipeline.discover

    def profiled(*args: Any, **options: Any) -> Any:
        clock[0] += 500
        return profile_tables(*args, **options)

    def discovered(*args: Any, seconds: float, **options: Any) -> Any:
        left.append(seconds)
        return discover(*args, **options)

    def listed(*args: Any, deadline: float, **options: Any) -> Dictionary:
        deadlines.append(deadline)
        return Dictionary()

    monkeypatch.setattr(pipeline, "monotonic", lambda: clock[0])
    for name, stand_in in (("profile_tables", profiled), ("discover", discovered), ("build_dictionary", listed)):
        monkeypatch.setattr(pipeline, name, stand_in)
    scan(shop)
    assert (left, deadlines) == ([400.0], [900.0])


CONTRACT = """\
kind: DataContract
apiVersion: v3.1.0
id: orders
version: 1.0.0
status: active
schema:
  - {name: orders, properties: [{name: STATUS, classification: confidential}, {name: id, classification: public}]}
"""


@pytest.mark.parametrize("settings", ["", "scan: {relationships: {enabled: false}}\n"])
def test_a_column_that_a_source_classifies_has_no_values(shop: Path, settings: str) -> None:
    def values() -> set[str]:
        return {json.loads(value) for (value,) in state(shop, "SELECT value FROM dictionary_values")}

    config = (shop / "ktx.yaml").read_text() + settings
    (shop / "ktx.yaml").write_text(config)
    scan(shop)
    assert {"open", "paid"} <= values()
    (shop / "contracts").mkdir()
    (shop / "contracts" / "orders.odcs.yaml").write_text(CONTRACT)
    source = "connections:\n  contracts: {driver: odcs, source_dir: contracts}\n"
    (shop / "ktx.yaml").write_text(config.replace("connections:\n", source))
    scan(shop)
    assert not {"open", "paid"} & values() and b"paid" not in b"".join(files(shop).values())
    assert "paid" not in json.dumps(dump(shop))
    ((hidden,),) = state(shop, "SELECT hidden FROM value_scans")
    reason = "classified as personal or restricted (by a context source)"
    assert ["orders", "status", reason] in [each[1:] for each in json.loads(hidden)]
    (shop / "contracts" / "orders.odcs.yaml").write_text(CONTRACT.replace("confidential", "internal"))
    scan(shop)
    assert {"open", "paid"} <= values()
