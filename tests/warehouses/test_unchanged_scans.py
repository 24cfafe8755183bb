"""A scan of an unchanged database on every engine: it writes nothing and proposes the same, reused or not."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.events import Event
from ktx_cli.engine.report import IngestReport
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.warehouses import base
from tests.small_project import make_shop_project
from tests.warehouses.conftest import Engine

RECORDS = "raw-sources/shop/live-database"
REUSED = "unchanged since the last profile"
REUSING = frozenset({"sqlite", "duckdb", "postgres"})
"""The engines that can tell that no row has changed."""
LATER = frozenset({"mysql"})
"""Those that can tell it some seconds after the last change."""

MEASURES = {
    "invoices": {
        "invoice_count", "total_invoice_amount_eur", "total_invoice_discount", "distinct_customers",
        "refunded_invoice_rate",
    },
    "invoice_lines": {"invoice_line_count", "total_invoice_line_quantity", "distinct_invoices"},
    "calls": {"call_count", "total_call_duration_minutes", "distinct_customers", "call_escalation_rate"},
}  # fmt: skip
"""Those that depend on values: sums of a table whose only times are texts, a discount that is an amount, and no tip."""


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any change of a file for an old one."""
    monkeypatch.setattr(base, "SETTLED_SECONDS", -60.0)


def filled(name: str, columns: str, rows: list[tuple[Any, ...]]) -> tuple[str, str]:
    """Return the statements of a table with rows."""
    values = ", ".join("(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows)
    return f"CREATE TABLE {name} ({columns})", f"INSERT INTO {name} VALUES {values}"


def statements(driver: str) -> tuple[str, ...]:
    """Return a shop with declared and inferred keys and joins, amounts, decimals, times with and without a zone."""
    zoned = "TIMESTAMP" if driver == "mysql" else "TIMESTAMP WITH TIME ZONE"
    values = "('open', 'paid', 'refunded')"
    status = f"ENUM {values}" if driver == "mysql" else f"VARCHAR(10) CHECK (status IN {values})"
    days = [date(2024, 1, 1) + timedelta(days=i) for i in range(400)]
    customers = [(i, f"Firm {i}", ["NO", "SE", "DE"][i % 3], i % 20 == 0) for i in range(1, 61)]
    invoices = [
        (i, 1 + i % 60, f"{days[i]} 10:00:00", i * 1.25 + 20, i * 7 % 190 + 0.5, i % 10 / 10,
         ["open", "paid", "refunded"][i % 3])
        for i in range(1, 201)
    ]  # fmt: skip
    lines = [(1000 + i, 1 + i % 200, i * 0.015 + 1, 1 + i % 9) for i in range(1, 401)]
    calls = [(i, 1 + i % 60, f"{days[i]} 09:30:00", str(days[i]), i % 50, i % 7 == 0) for i in range(1, 101)]
    made = (
        filled("customers", "id INT PRIMARY KEY, name VARCHAR(40), country VARCHAR(2), is_internal BOOLEAN", customers),
        filled(
            "invoices",
            "id INT PRIMARY KEY, customer_id INT REFERENCES customers (id), invoice_date VARCHAR(20),"
            f" amount_eur DECIMAL(12, 2), discount DECIMAL(9, 3), tip DECIMAL(4, 2), status {status}",
            invoices,
        ),
        filled("invoice_lines", "line_id INT, invoice_id INT, unit_price DECIMAL(10, 4), quantity INT", lines),
        filled(
            "calls",
            f"id INT PRIMARY KEY, customer_id INT, started_at {zoned}, billed_on DATE, duration_minutes INT,"
            " is_escalation BOOLEAN",
            calls,
        ),
    )
    return tuple(each for pair in made for each in pair)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_shop_project(tmp_path, monkeypatch)


def configure(project: Path, engine: Engine, privacy: str) -> None:
    """Make the shop on an engine the database of the project; `privacy`: whether values of its rows are kept."""
    options = engine.make(*statements(engine.driver))
    config = {
        "connections": {"shop": {"driver": engine.driver, **options}},
        "scan": {"privacy": privacy, "enrichment": {"mode": "deterministic"}},
    }
    (project / "ktx.yaml").write_text(json.dumps(config))


def scan(project: Path) -> tuple[IngestReport, str]:
    """Return the report, and the events as text."""
    events: list[Event] = []
    report, _ = ingest(IngestRequest(project, os.environ, databases_only=True, no_llm=True, emit=events.append))
    return report, repr(events)


def files(project: Path) -> dict[str, bytes]:
    folders = (project / "semantic-layer", project / "raw-sources")
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def stored(project: Path) -> list[tuple[Any, ...]]:
    """Return the profiles and value lists."""
    with contextlib.closing(sqlite3.connect(project / ".ktx" / "state.sqlite")) as database:
        profiles = database.execute("SELECT table_name, json_remove(profile, '$.profiled') FROM profiles").fetchall()
        return sorted(profiles) + sorted(database.execute("SELECT value, count FROM dictionary_values").fetchall())


def record(project: Path, name: str) -> Any:
    return json.loads((project / RECORDS / f"{name}.json").read_bytes())


def proposed(project: Path) -> dict[str, set[str]]:
    return {each["table"]: {m["name"] for m in each["measures"]} for each in record(project, "measures")["tables"]}


def commit(project: Path) -> None:
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", "-C", project, *author, "commit", "-qam", "by hand"], check=True)


def test_every_engine_proposes_the_same_again(engine: Engine, project: Path) -> None:
    configure(project, engine, "local")
    scan(project)
    written, kept = files(project), stored(project)
    found = proposed(project)
    assert {table: found[table] for table in MEASURES} == MEASURES
    assert record(project, "decisions")["points"]
    known = record(project, "relationships")
    assert "invoice_lines" in {each["table"][-1] for each in known["keys"]}
    assert any(each["status"] == "accepted" for each in known["edges"])
    assert {each["table"] for each in record(project, "descriptions")["tables"]} >= MEASURES.keys()
    assert ('"refunded"', 67) in kept
    for _ in range(2):
        again, events = scan(project)
        assert (again.status, again.commit) == ("unchanged", None)
        assert (files(project), stored(project)) == (written, kept)
        assert engine.driver in LATER or (REUSED in events) is (engine.driver in REUSING)
    for name in ("measures", "decisions"):
        (project / RECORDS / f"{name}.json").unlink()
    commit(project)
    _, events = scan(project)
    assert engine.driver in LATER or (REUSED in events) is (engine.driver in REUSING)
    assert (files(project), stored(project)) == (written, kept)
    (project / ".ktx" / "state.sqlite").unlink()
    anew, events = scan(project)
    assert REUSED not in events
    assert (anew.status, files(project), stored(project)) == ("unchanged", written, kept)


@pytest.mark.parametrize(
    ("name", "privacy", "is_reused"), [("sqlite", "strict", True), ("sqlite", "off", True), ("duckdb", "off", False)]
)
def test_however_many_values_are_kept(
    request: pytest.FixtureRequest, project: Path, name: str, privacy: str, is_reused: bool
) -> None:
    """With `off`, a model sees the values: they must come back as they were, which decimals do not."""
    configure(project, request.getfixturevalue(f"{name}_engine"), privacy)
    scan(project)
    written, kept = files(project), stored(project)
    assert any("refunded" in str(row[0]) for row in kept) is (privacy != "strict")
    again, events = scan(project)
    assert (again.status, files(project), stored(project)) == ("unchanged", written, kept)
    assert (REUSED in events) is is_reused


def test_proposals_with_another_record_are_made_again(sqlite_engine: Engine, project: Path) -> None:
    """The line of a relationship stays where a scan says nearly the same, and proposals depend on it."""
    configure(project, sqlite_engine, "local")
    scan(project)
    path = project / RECORDS / "relationships.json"
    changed = json.loads(path.read_bytes())
    (edge,) = (each for each in changed["edges"] if each["from"][-1] == "invoice_lines")
    edge["score"] -= 0.01
    path.write_text(json.dumps(changed))
    commit(project)
    found = proposed(project)
    _, events = scan(project)
    assert REUSED not in events
    assert proposed(project) == found
    again, events = scan(project)
    assert REUSED in events
    assert again.status == "unchanged"
