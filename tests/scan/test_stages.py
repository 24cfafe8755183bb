"""A scan whose stages fail, one at a time: the rest is committed, what was known stays, and the report says which."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core import Command, Event, StepFinished, ignore_events, yaml
from ktx_cli.core.errors import BusyError, CancelledError, KtxError, ResultWarning, RunStopped, StorageError
from ktx_cli.engine.report import IngestReport
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.scan.stages import Stage
from tests.small_project import make_shop_project

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE companies (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE orders (order_no INTEGER, line INTEGER, customer_id INTEGER, status TEXT, PRIMARY KEY (order_no, line));
CREATE TABLE parcels (id INTEGER PRIMARY KEY, order_no INTEGER, line INTEGER);
CREATE TABLE notes (id INTEGER PRIMARY KEY, owner_id INTEGER, owner_type TEXT);
CREATE VIEW spending AS SELECT c.name, o.status FROM orders o JOIN customers c ON o.customer_id = c.id;
"""


def fill(database: sqlite3.Connection) -> None:
    database.executemany("INSERT INTO customers VALUES (?, ?)", [(n, f"person {n}") for n in range(1, 61)])
    database.executemany("INSERT INTO companies VALUES (?, ?)", [(n, f"firm {n}") for n in range(1001, 1041)])
    lines = [(n, line, 1 + n % 60, ("open", "paid")[n % 2]) for n in range(500, 620) for line in (1, 2)]
    database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", lines)
    database.executemany(
        "INSERT INTO parcels VALUES (?, ?, ?)", [(n, each[0], each[1]) for n, each in enumerate(lines)]
    )
    owners = [(n, 1 + n % 60, "customer") if n % 2 else (n, 1001 + n % 40, "company") for n in range(200)]
    database.executemany("INSERT INTO notes VALUES (?, ?, ?)", owners)


@pytest.fixture(scope="module")
def scanned_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two databases that were scanned once, and of which each has a new table since."""
    with pytest.MonkeyPatch.context() as patch:
        made = make_shop_project(tmp_path_factory.mktemp("stages"), patch)
        (made / "shop.sqlite").unlink()
        config = "scan: {enrichment: {mode: deterministic}}\nconnections:\n"
        for name in ("shop", "crm"):
            config += f"  {name}: {{driver: sqlite, path: {name}.sqlite}}\n"
            with contextlib.closing(sqlite3.connect(made / f"{name}.sqlite")) as database:
                if name == "shop":
                    database.executescript(SHOP)
                    fill(database)
                else:
                    database.execute("CREATE TABLE leads (id INTEGER PRIMARY KEY, stage TEXT)")
                database.commit()
        (made / "ktx.yaml").write_text(config)
        _, warnings = scan(made)
        assert warnings == []
    for name in ("shop", "crm"):
        with contextlib.closing(sqlite3.connect(made / f"{name}.sqlite")) as database:
            database.executescript(
                "CREATE TABLE latest (id INTEGER PRIMARY KEY, x TEXT); INSERT INTO latest VALUES (1, 'a')"
            )
    return made


@pytest.fixture
def project(scanned_once: Path, shop_project: Path) -> Path:
    """A copy of the project that was scanned once."""
    shutil.rmtree(shop_project)
    shutil.copytree(scanned_once, shop_project, symlinks=True)
    return shop_project


def scan(project: Path, emit: Callable[[Event], None] = ignore_events) -> tuple[IngestReport, list[ResultWarning]]:
    return ingest(IngestRequest(project, {}, command=Command("scan"), databases_only=True, no_llm=True, emit=emit))


def tables(project: Path, connection: str) -> dict[str, Any]:
    shard = project / "semantic-layer" / connection / "_schema" / "main.yaml"
    return dict(yaml.load(shard.read_bytes(), where=str(shard))["tables"])


def joins(project: Path) -> set[str]:
    return {
        f"{name}: {join['on']}"
        for name, entry in tables(project, "shop").items()
        for join in entry.get("joins", ())
        if name != "latest"
    }


def keys(project: Path) -> set[str]:
    record = json.loads((project / "raw-sources/shop/live-database/relationships.json").read_bytes())
    return {json.dumps(each) for each in record["keys"] if each["table"][-1] != "latest"}


def lists(project: Path) -> set[tuple[str, str]]:
    with sqlite3.connect(project / ".ktx" / "state.sqlite") as database:
        return set(database.execute("SELECT table_name, column_name FROM dictionary_columns WHERE connection = 'shop'"))


@dataclass(frozen=True)
class Injection:
    """Where an exception is raised: for one table of `shop`, or always."""

    stage: Stage
    target: str
    table: str | None = None

    def __str__(self) -> str:
        return f"{self.stage.name}-{self.target.rpartition('.')[2]}"


INJECTIONS = [
    Injection(Stage.REUSE, "ktx_cli.scan.pipeline.data_fingerprint"),
    Injection(Stage.PROFILE, "ktx_cli.scan.profile.profiler.read_sample", "notes"),
    Injection(Stage.PROFILE, "ktx_cli.scan.profile.profiler.count_sample", "notes"),
    Injection(Stage.PROFILE, "ktx_cli.scan.profile.profiler.exact_texts"),
    Injection(Stage.PROFILE, "ktx_cli.scan.pipeline.profile_tables"),
    Injection(Stage.PROPOSALS, "ktx_cli.scan.pipeline.recorded_hints"),
    Injection(Stage.HINTS, "ktx_cli.scan.relationships.discovery.hints_of"),
    Injection(Stage.RELATIONSHIPS, "ktx_cli.scan.relationships.columns._table", "notes"),
    Injection(Stage.RELATIONSHIPS, "ktx_cli.scan.relationships.keys.unique_columns", "notes"),
    Injection(Stage.RELATIONSHIPS, "ktx_cli.scan.relationships.discovery.NameIndex"),
    Injection(Stage.RELATIONSHIPS, "ktx_cli.scan.relationships.discovery.find_candidates"),
    Injection(Stage.RELATIONSHIPS, "ktx_cli.scan.relationships.discovery.score_candidates"),
    Injection(Stage.RELATIONSHIPS, "ktx_cli.scan.relationships.discovery.resolve"),
    Injection(Stage.RELATIONSHIPS, "ktx_cli.scan.relationships.discovery.sampled_check"),
    Injection(Stage.RELATIONSHIPS, "ktx_cli.scan.relationships.discovery.relationship_of_candidate"),
    Injection(Stage.RELATIONSHIPS, "ktx_cli.scan.pipeline.steadied"),
    Injection(Stage.EXPLANATIONS, "ktx_cli.scan.relationships.evidence.collect_evidence"),
    Injection(Stage.KEYS, "ktx_cli.scan.relationships.keys._choose", "notes"),
    Injection(Stage.KEYS, "ktx_cli.scan.relationships.keys.with_tenants"),
    Injection(Stage.COMPOSITES, "ktx_cli.scan.relationships.discovery.find_composites"),
    Injection(Stage.POLYMORPHIC, "ktx_cli.scan.relationships.composites._branch", "notes"),
    Injection(Stage.POLYMORPHIC, "ktx_cli.scan.relationships.discovery.find_branches"),
    Injection(Stage.TYPES, "ktx_cli.scan.profile.values.recognize", "notes"),
    Injection(Stage.TYPES, "ktx_cli.scan.pipeline.recognize_columns"),
    Injection(Stage.VALUES, "ktx_cli.scan.profile.values._lists", "orders"),
    Injection(Stage.STORE, "ktx_cli.scan.profile.store.save_values"),
    Injection(Stage.DIAGNOSTICS, "ktx_cli.scan.pipeline.unprofiled_warnings"),
    Injection(Stage.DIAGNOSTICS, "ktx_cli.scan.pipeline.problem_warnings"),
    Injection(Stage.DESCRIPTIONS, "ktx_cli.scan.pipeline.updated_record"),
    Injection(Stage.DESCRIPTIONS, "ktx_cli.scan.descriptions.describers._by_rules", "notes"),
    Injection(Stage.MEASURES, "ktx_cli.scan.pipeline.propose_measures"),
    Injection(Stage.DECISIONS, "ktx_cli.scan.pipeline.propose_decisions"),
    Injection(Stage.REMEMBER, "ktx_cli.engine.lifecycle.record_scan"),
    Injection(Stage.REMEMBER, "ktx_cli.engine.lifecycle.store_layer"),
]


def inject(monkeypatch: pytest.MonkeyPatch, injection: Injection, error: Exception) -> Callable[[], int]:
    """Have the target raise; return what counts how often it did."""
    place, _, name = injection.target.rpartition(".")
    holder: Any = importlib.import_module(place) if place.rpartition(".")[2].islower() else None
    if holder is None:
        module, _, kind = place.rpartition(".")
        holder = getattr(importlib.import_module(module), kind)
    original, raised = getattr(holder, name), [0]

    def failing(*args: Any, **options: Any) -> Any:
        if injection.table is not None and not any(injection.table in _names(each) for each in args):
            return original(*args, **options)
        raised[0] += 1
        raise error

    monkeypatch.setattr(holder, name, failing)
    return lambda: raised[0]


def _names(value: Any) -> list[str]:
    """Return the tables an argument speaks of."""
    inner = getattr(value, "table", value)
    inner = getattr(inner, "table", inner)
    ref = getattr(inner, "ref", None)
    return [] if ref is None else [ref.name]


def shown() -> list[Injection]:
    """Return all with KTX_TEST_FULL, else the first of each stage: by turns that of one table and that of all."""
    if os.environ.get("KTX_TEST_FULL"):
        return INJECTIONS
    turns = {stage: bool(turn % 2) for turn, stage in enumerate(Stage)}
    by_turns = sorted(INJECTIONS, key=lambda each: (each.table is None) == turns[each.stage])
    first = {each.stage: each for each in reversed(by_turns)}
    return [each for each in INJECTIONS if each is first[each.stage]]


def test_every_stage_is_made_to_fail() -> None:
    assert {each.stage for each in shown()} == set(Stage)
    assert {each.table is None for each in shown()} == {True, False}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("injection", shown(), ids=str)
def test_a_stage_that_fails_costs_what_it_touches(
    project: Path, monkeypatch: pytest.MonkeyPatch, injection: Injection
) -> None:
    before = joins(project), keys(project), lists(project)
    assert len(before[0]) >= 8  # a view's, a composite's, two polymorphic ones, each from both ends
    raised = inject(monkeypatch, injection, IndexError("a value of a row"))
    report, warnings = scan(project)
    assert raised() >= 1
    assert report.commit is not None
    assert "latest" in tables(project, "shop")
    assert "latest" in tables(project, "crm")
    assert (joins(project), keys(project)) == before[:2]
    assert before[2] <= lists(project)
    error = report.error()
    assert error is not None and error.exit_code == 7
    said = [each for each in warnings if each.code in ("stage_failed", "not_described") and "`shop`" in each.message]
    assert said and "IndexError" in said[0].message
    assert "a value of a row" not in json.dumps([each.to_json() for each in warnings])
    if said[0].code == "stage_failed":
        table = None if injection.table is None else injection.table
        facts = said[0].to_json()
        assert (facts["stage"], facts["table"], facts["error"]) == (injection.stage.name.lower(), table, "IndexError")
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(project / "home"))
    again, warnings = scan(project)
    assert (again.error(), warnings) == (None, [])
    assert (joins(project), keys(project)) == before[:2]


@pytest.mark.parametrize(
    "target", ["ktx_cli.scan.outcome.plan_shards", "ktx_cli.warehouses.sqlite.connector.SqliteConnector.introspect"]
)
def test_what_a_scan_cannot_do_without_costs_its_connection(
    project: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    place, _, name = target.rpartition(".")
    module, _, kind = place.rpartition(".")
    holder = importlib.import_module(place) if kind.islower() else getattr(importlib.import_module(module), kind)
    original, calls = getattr(holder, name), []

    def failing(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise IndexError("a value of a row")
        return original(*args, **options)

    monkeypatch.setattr(holder, name, failing)
    report, _ = scan(project)
    assert [each.status for each in report.connections].count("failed") == 1
    assert report.commit is not None
    assert sum("latest" in tables(project, name) for name in ("shop", "crm")) == 1


EACH = 4 if os.environ.get("KTX_TEST_FULL") else 8
"""One in how many of the injections is tried with what is of more than its stage."""

UNREMEMBERED = [each for each in INJECTIONS if each.stage is not Stage.REMEMBER]
OF_THE_CONNECTION = (
    StorageError("no space left"),
    BusyError("the lock is lost"),
    OSError(errno.ENOSPC, "no space left"),
)
OF_THE_RUN = (CancelledError("stopped"), RunStopped(KtxError("no budget")))


def cases(injections: list[Injection], errors: tuple[Exception, ...]) -> list[Any]:
    """Every error in the first of the injections, and one of them, in turn, in each of the others."""
    pairs = [(injections[0], error) for error in errors]
    pairs += [(each, errors[number % len(errors)]) for number, each in enumerate(injections[1:])]
    return [pytest.param(*pair, id=f"{pair[0]}-{type(pair[1]).__name__}") for pair in pairs]


@pytest.mark.parametrize(("injection", "error"), cases(UNREMEMBERED[::EACH], OF_THE_CONNECTION))
def test_what_is_of_more_than_a_stage_costs_the_connection(
    project: Path, monkeypatch: pytest.MonkeyPatch, injection: Injection, error: Exception
) -> None:
    inject(monkeypatch, injection, error)
    report, _ = scan(project)
    assert [each.status for each in report.connections if each.connection == "shop"] == ["failed"]


@pytest.mark.parametrize(("injection", "error"), cases(UNREMEMBERED[1::EACH], OF_THE_RUN))
def test_what_ends_a_run_ends_it_in_every_stage(
    project: Path, monkeypatch: pytest.MonkeyPatch, injection: Injection, error: Exception
) -> None:
    inject(monkeypatch, injection, error)
    with pytest.raises(type(error)):
        scan(project)
    assert "latest" not in tables(project, "crm")


def test_an_empty_discriminator_is_scanned(shop_project: Path) -> None:
    (shop_project / "shop.sqlite").unlink()
    database = sqlite3.connect(shop_project / "shop.sqlite")
    database.execute("CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT)")
    database.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, owner_id INTEGER, owner_type TEXT)")
    database.executemany("INSERT INTO person VALUES (?, ?)", [(n, f"p{n}") for n in range(1, 21)])
    rows = [(n, 1 + n % 20, "" if n % 3 else "person") for n in range(60)]
    database.executemany("INSERT INTO note VALUES (?, ?, ?)", rows)
    database.commit()
    database.close()
    report, warnings = scan(shop_project)
    assert (report.error(), [each for each in warnings if each.code == "stage_failed"]) == (None, [])
    assert set(tables(shop_project, "shop")) == {"person", "note"}


def _create_orders(project: Path, statuses: tuple[str, ...]) -> None:
    with contextlib.closing(duckdb.connect(str(project / "shop.duckdb"))) as database:
        database.execute("DROP TABLE IF EXISTS orders; DROP TYPE IF EXISTS status")
        database.execute(f"CREATE TYPE status AS ENUM {statuses}")
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status status, channel TEXT)")
        rows = [(n, ("open", "paid")[n % 2], ("web", "shop")[n % 2]) for n in range(40)]
        database.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)


def test_a_new_list_of_a_table_that_fails_replaces_its_old_one(
    shop_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values of an enum are declared, so its list is new even if the rows of its table cannot be read."""
    (shop_project / "ktx.yaml").write_text(
        "scan: {enrichment: {mode: deterministic}}\nconnections: {shop: {driver: duckdb, path: shop.duckdb}}\n"
    )
    _create_orders(shop_project, ("open", "paid"))
    scan(shop_project)
    _create_orders(shop_project, ("open", "paid", "returned"))
    injection = Injection(Stage.PROFILE, "ktx_cli.scan.profile.profiler.read_sample", "orders")
    raised = inject(monkeypatch, injection, IndexError("a value of a row"))
    events: list[Event] = []
    scan(shop_project, events.append)
    assert raised() >= 1
    (finished,) = [each for each in events if isinstance(each, StepFinished) and each.step == "values"]
    assert finished.summary.startswith("2 lists, "), finished
    with sqlite3.connect(shop_project / ".ktx" / "state.sqlite") as database:
        stored = database.execute(
            "SELECT column_name, value FROM dictionary_values JOIN dictionary_columns ON id = column_id ORDER BY 1, 2"
        ).fetchall()
    assert stored == [
        *(("channel", f'"{value}"') for value in ("shop", "web")),
        *(("status", f'"{value}"') for value in ("open", "paid", "returned")),
    ]
