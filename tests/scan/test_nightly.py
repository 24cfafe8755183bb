"""Scans of changing databases: only statements about changed tables are sent, and the result is that of a full scan."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from ktx_cli.engine.report import IngestReport
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.scan import pipeline
from ktx_cli.scan.profile.answers import RecallingConnector
from ktx_cli.scan.stages import Depth
from ktx_cli.testing.servers import RecordingPostgresServer
from ktx_cli.warehouses import TableRef, base
from ktx_cli.warehouses.postgres.connector import PostgresConnector
from tests.cli.agents import git
from tests.warehouses.test_table_evidence import LAKES

USER = ("-c", "user.name=u", "-c", "user.email=u@example.com")

TABLES, SEEDS = 12, 4


def creations(tables: int = TABLES, rows: int = 60) -> Iterator[str]:
    """Yield statements that create tables that refer to one another."""
    for number in range(tables):
        dice = random.Random(number)
        parents = dice.sample(range(tables), 2)
        keys = ", ".join(f"t{each:02}_id integer" for each in dict.fromkeys(parents))
        yield f"CREATE TABLE t{number:02} (id integer, {keys}, amount integer, state text, made date)"
        for row in range(1, rows + 1):
            values = ", ".join(str(1000 * each + 1 + row * 7 % rows) for each in dict.fromkeys(parents))
            state = ("'open'", "'paid'", "NULL")[row % 3]
            yield (
                f"INSERT INTO t{number:02} VALUES "
                f"({1000 * number + row}, {values}, {row * 31 % 97}, {state}, '2024-01-{row % 28 + 1:02}')"
            )


def edits(dice: random.Random, tables: int = TABLES) -> Iterator[str]:
    """Yield a few statements that change random tables."""
    for _ in range(dice.randrange(1, 4)):
        name = f"t{dice.randrange(tables):02}"
        yield dice.choice(
            (
                f"UPDATE {name} SET amount = amount + 1 WHERE id % 3 = 0",
                f"UPDATE {name} SET state = 'sent' WHERE amount > {dice.randrange(90)}",
                f"DELETE FROM {name} WHERE id % 5 = {dice.randrange(5)}",
                f"INSERT INTO {name} (id, amount) VALUES ({dice.randrange(90_000, 99_999)}, 5)",
                f"UPDATE {name} SET id = id + 500 WHERE id % 7 = 0",
                f"DELETE FROM {name}",
                f"ALTER TABLE {name} ADD COLUMN extra_{dice.randrange(10**6)} integer",
                f"CREATE TABLE more_{dice.randrange(10**6)} (id integer, t00_id integer)",
            )
        )


@dataclass
class World:
    """A project on one database. `change` runs statements in the database."""

    project: Path
    change: Callable[..., None]

    def scan(self, project: Path | None = None) -> IngestReport:
        report, _ = ingest(IngestRequest(project or self.project, os.environ, depth=Depth.PROFILE))
        assert report.connections[0].error is None
        return report

    def scan_fully(self, folder: Path) -> IngestReport:
        """Scan with a copy of the project that has no answers."""
        shutil.copytree(self.project, folder)
        with contextlib.closing(sqlite3.connect(folder / ".ktx" / "state.sqlite")) as database, database:
            for table in ("scan_answers", "scanned_tables"):
                database.execute(f"DELETE FROM {table}")
            database.execute("DELETE FROM enrichment")
        return self.scan(folder)


def result(project: Path) -> dict[str, Any]:
    """Return everything that a scan wrote, except for times and answers."""
    paths = (path for part in ("semantic-layer", "raw-sources") for path in (project / part).rglob("*"))
    found: dict[str, Any] = {str(path.relative_to(project)): path.read_bytes() for path in paths if path.is_file()}
    with contextlib.closing(sqlite3.connect(project / ".ktx" / "state.sqlite")) as database:
        for name, columns in (
            ("profiles", "table_name, json_remove(profile, '$.profiled')"),
            ("dictionary_columns", "table_name, column_name, complete"),
            ("dictionary_values", "value, count"),
            ("relationship_evidence", "table_name, columns, evidence"),
        ):
            found[name] = sorted(map(repr, database.execute(f"SELECT {columns} FROM {name}")))
    return found


def project_at(folder: Path, connection: str) -> Path:
    folder.mkdir()
    (folder / "ktx.yaml").write_text(f"llm: {{provider: {{backend: none}}}}\nconnections:\n  shop: {connection}\n")
    (folder / ".gitignore").write_text(".ktx/\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, *USER, "commit", "-qm", "a project")
    return folder


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any change for an old one: no program can set a file's time of change back."""
    monkeypatch.setattr(base, "SETTLED_SECONDS", -60.0)


def sqlite_world(tmp_path: Path) -> World:
    path = tmp_path / "shop.sqlite"

    def change(*statements: str) -> None:
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            for each in statements:
                database.execute(each)

    return World(project_at(tmp_path / "project", f"{{driver: sqlite, path: '{path}'}}"), change)


def duckdb_world(tmp_path: Path) -> World:
    path = tmp_path / "shop.duckdb"

    def change(*statements: str) -> None:
        with duckdb.connect(str(path)) as database:
            database.execute("; ".join(statements))
            database.execute("CHECKPOINT")

    return World(project_at(tmp_path / "project", f"{{driver: duckdb, path: '{path}'}}"), change)


def postgres_world(tmp_path: Path, server: RecordingPostgresServer, name: str) -> World:
    url = server.create_database(name)

    def change(*statements: str) -> None:
        with psycopg.connect(url) as session:  # A session that ends reports its changes to the counters.
            for each in statements:
                session.execute(each.encode())

    return World(project_at(tmp_path / "project", f"{{driver: postgres, url: '{url}'}}"), change)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    match request.param:
        case "sqlite":
            return sqlite_world(tmp_path)
        case "duckdb":
            return duckdb_world(tmp_path)
        case _:
            server = request.getfixturevalue("recording_postgres")
            return postgres_world(tmp_path, server, f"nightly_{random.randrange(10**9)}")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_incremental_scan_finds_what_a_full_scan_finds(world: World, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    world.change(*creations())
    world.scan()
    for night in range(3):
        world.change(*edits(dice))
        full = tmp_path / f"full-{night}"
        world.scan_fully(full)
        world.scan()
        assert result(world.project) == result(full)


def test_files_are_not_planned_again_if_only_decision_points_changed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.change(*creations())
    world.scan()
    world.change("UPDATE t00 SET state = 'sent' WHERE id % 2 = 0")
    full = tmp_path / "full"
    shutil.copytree(world.project, full)
    with contextlib.closing(sqlite3.connect(full / ".ktx" / "state.sqlite")) as database, database:
        database.execute("DELETE FROM scans")
    planned = world.scan(full)
    monkeypatch.setattr(pipeline, "plan_manifest", lambda *_: pytest.fail("the files were planned"))
    report = world.scan()
    assert report.committed == planned.committed == ("raw-sources/shop/live-database/decisions.json",)
    assert result(world.project) == result(full)


def test_a_damaged_record_of_decision_points_costs_only_these(tmp_path: Path) -> None:
    world = sqlite_world(tmp_path)
    world.change(*creations(), "UPDATE t00 SET state = 'sent' WHERE id % 2 = 0")
    world.scan()
    path = "raw-sources/shop/live-database/decisions.json"
    (world.project / path).write_text("{")
    git(world.project, *USER, "commit", "-qam", "damage a record")
    world.change("ALTER TABLE t00 ADD COLUMN more integer")
    report, warnings = ingest(IngestRequest(world.project, os.environ, depth=Depth.PROFILE))
    assert report.commit is not None and path not in report.committed
    codes = {each.code for each in warnings if f"{path} is damaged" in each.message}
    assert codes == {"broken_record", "decision_effects"}


def test_every_table_of_a_statement_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    named, seen = RecallingConnector._named, set[int]()

    def checked(self: RecallingConnector, sql: str) -> list[TableRef]:
        found = named(self, sql)
        assert set(found) == {ref for path, ref in self._by_path.items() if path in sql}
        seen.add(len(found))
        return found

    monkeypatch.setattr(RecallingConnector, "_named", checked)
    world.change(*creations(6, rows=60))
    world.scan()
    assert seen >= {1}


def counts(report: IngestReport) -> dict[str, int]:
    """Return the counts of profiled tables, without those that are 0."""
    profile = report.connections[0].to_json()["profile"]
    return {name: count for name, count in profile.items() if count}


def rows_statements(server: RecordingPostgresServer, since: int) -> list[str]:
    """Return the statements about rows that the server has received."""
    lines = server.log[since:].splitlines()
    return [line for line in lines if 'FROM "public"."t' in line and "LOG:  execute" in line]


def test_statements_are_proportional_to_the_change(tmp_path: Path, recording_postgres: RecordingPostgresServer) -> None:
    world = postgres_world(tmp_path, recording_postgres, f"nightly_{random.randrange(10**9)}")
    world.change(*creations(60, rows=20))
    start = len(recording_postgres.log)
    first = world.scan()
    full = len(rows_statements(recording_postgres, start))
    assert counts(first) == {"tables": 60, "changed": 60, "profiled": 60}
    assert full >= 60

    start = len(recording_postgres.log)
    assert counts(world.scan()) == {"tables": 60, "reused": 60}
    assert rows_statements(recording_postgres, start) == []

    world.change("UPDATE t07 SET amount = amount + 1", "DELETE FROM t31 WHERE id % 2 = 0")
    start = len(recording_postgres.log)
    night = world.scan()
    assert counts(night) == {"tables": 60, "changed": 2, "profiled": 2, "reused": 58}
    assert "2 tables profiled, 58 reused" in night.connections[0].result
    sent = rows_statements(recording_postgres, start)
    assert all('"t07"' in each or '"t31"' in each for each in sent)
    assert len(sent) * 10 < full


def test_a_table_that_was_asked_for_is_read_again(tmp_path: Path, recording_postgres: RecordingPostgresServer) -> None:
    world = postgres_world(tmp_path, recording_postgres, f"nightly_{random.randrange(10**9)}")
    world.change(*creations(6))
    world.scan()
    start = len(recording_postgres.log)
    request = IngestRequest(world.project, os.environ, depth=Depth.PROFILE, tables=("public.t03", "t9"))
    report, warnings = ingest(request)
    assert counts(report) == {"tables": 6, "profiled": 1, "reused": 5}
    assert all('"t03"' in each for each in rows_statements(recording_postgres, start))
    (unknown,) = (each for each in warnings if each.code == "table_unknown")
    assert "`t9` in `--table` matches no table in scope" in unknown.message


@pytest.mark.parametrize("driver", LAKES)
@pytest.mark.parametrize("change", ["append", "delete", "add_column", "recreate"])
def test_only_changed_tables_of_a_lake_are_read(driver: str, change: str, tmp_path: Path) -> None:
    lake = LAKES[driver](tmp_path / "lake")
    world = World(project_at(tmp_path / "project", f"{{driver: {driver}, path: '{tmp_path}/lake'}}"), lambda: None)
    world.scan()
    getattr(lake, change)("b")
    world.scan_fully(tmp_path / "full")
    assert counts(world.scan()) == {"tables": 2, "changed": 1, "profiled": 1, "reused": 1}
    assert result(world.project) == result(tmp_path / "full")


def test_only_tables_in_use_are_read(tmp_path: Path, recording_postgres: RecordingPostgresServer) -> None:
    world = postgres_world(tmp_path, recording_postgres, f"nightly_{random.randrange(10**9)}")
    world.change(*creations(6))
    with (world.project / "ktx.yaml").open("a") as file:
        file.write("scan: {profile: used}\n")
    layer = world.project / "semantic-layer" / "shop"
    layer.mkdir(parents=True)
    (layer / "sales.yaml").write_text(
        "name: sales\ntable: public.t02\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
    )
    (layer / "own.yaml").write_text("name: own\nsql: select id from public.t04 where id > 1\ngrain: [id]\n")
    git(world.project, "add", "-A")
    git(world.project, *USER, "commit", "-qm", "sources")
    start = len(recording_postgres.log)
    assert counts(world.scan()) == {"tables": 6, "changed": 2, "profiled": 2, "skipped": 4}
    sent = rows_statements(recording_postgres, start)
    assert sent
    assert not [each for each in sent if any(f'"t0{number}"' in each for number in (0, 1, 3, 5))]


def test_a_budget_of_bytes_is_spent_in_turns(tmp_path: Path, recording_postgres: RecordingPostgresServer) -> None:
    world = postgres_world(tmp_path, recording_postgres, f"nightly_{random.randrange(10**9)}")
    world.change(*creations(8), "ANALYZE")
    world.scan()
    before = result(world.project)["profiles"]
    with (world.project / "ktx.yaml").open("a") as file:
        file.write("scan: {budget: {gigabytes: 0.00001}, relationships: {profileConcurrency: 1}}\n")
    world.change(*(f"UPDATE t0{number} SET amount = amount + 1000" for number in range(8)))
    waiting = []
    for _ in range(9):
        report = world.scan()
        assert report.status in ("done", "unchanged"), "a budget that is used up is no failure"
        found = counts(report)
        assert found.get("profiled", 0) + found.get("waiting", 0) + found.get("reused", 0) == 8
        waiting.append(found.get("waiting", 0))
        if len(waiting) == 1:
            kept = set(before) & set(result(world.project)["profiles"])
            assert len(kept) == waiting[0], "a table that waits keeps its profile"
        if not waiting[-1]:
            break
    assert 0 < waiting[0] < 8
    assert waiting == sorted(waiting, reverse=True)
    assert waiting[-1] == 0


def test_a_larger_sample_takes_effect(tmp_path: Path) -> None:
    world = sqlite_world(tmp_path)
    numbers = "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2000)"
    world.change(f"CREATE TABLE t90 AS {numbers} SELECT i AS id FROM s")
    settings = (world.project / "ktx.yaml").read_text()
    for rows in (1000, 1150, 1150, 1000):
        size = f"scan: {{relationships: {{profileSampleRows: {rows}}}}}\n"
        (world.project / "ktx.yaml").write_text(settings + size)
        world.scan()
        with contextlib.closing(sqlite3.connect(world.project / ".ktx" / "state.sqlite")) as database:
            found = database.execute("SELECT sample_rows, sample_setting FROM scanned_tables").fetchall()
            (profile,) = database.execute("SELECT json_extract(profile, '$.rows') FROM profiles").fetchall()
        assert (found, profile) == ([(rows, rows)], (rows,))


def test_the_evidence_is_read_once_at_the_start_and_compared_at_the_end(
    tmp_path: Path, recording_postgres: RecordingPostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = postgres_world(tmp_path, recording_postgres, f"nightly_{random.randrange(10**9)}")
    world.change(*creations(3))
    read = []
    for name in ("table_evidence", "reader"):
        method = getattr(PostgresConnector, name)

        def counted(*given: Any, name: str = name, method: Any = method) -> Any:
            read.append(name)
            return method(*given)

        monkeypatch.setattr(PostgresConnector, name, counted)
    for times in (2, 1):
        read.clear()
        world.scan()
        assert sorted(read) == ["reader"] * times + ["table_evidence"] * times
    monkeypatch.undo()


def test_a_killed_scan_continues(
    tmp_path: Path, recording_postgres: RecordingPostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = postgres_world(tmp_path, recording_postgres, f"nightly_{random.randrange(10**9)}")
    world.change(*creations(8))
    with (world.project / "ktx.yaml").open("a") as file:
        file.write("scan: {relationships: {profileConcurrency: 1}}\n")
    query, sent = PostgresConnector.query, []

    def dying(self: PostgresConnector, sql: str, *rest: Any, **options: Any) -> Any:
        sent.append(sql)
        if len(sent) == 6:
            raise KeyboardInterrupt
        return query(self, sql, *rest, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PostgresConnector, "query", dying)
        world.scan()
    start = len(recording_postgres.log)
    assert counts(world.scan())["profiled"] <= 8 - 4
    again = rows_statements(recording_postgres, start)
    assert not [each for each in again if any(each.endswith(sql) for sql in sent[:4])]


def test_private_values_are_not_kept(tmp_path: Path, recording_postgres: RecordingPostgresServer) -> None:
    world = postgres_world(tmp_path, recording_postgres, f"nightly_{random.randrange(10**9)}")
    world.change(
        "CREATE TABLE t90 (id integer, email text)",
        "INSERT INTO t90 SELECT i, 'ada.lovelace' || i || '@example.com' FROM generate_series(1, 40) AS s(i)",
        "CREATE TABLE t91 (id integer, state text)",
        "INSERT INTO t91 SELECT i, 'open' FROM generate_series(1, 40) AS s(i)",
    )
    world.scan()
    world.change("UPDATE t91 SET state = 'paid'")
    assert counts(world.scan()) == {"tables": 2, "changed": 1, "profiled": 2}
    with contextlib.closing(sqlite3.connect(world.project / ".ktx" / "state.sqlite")) as database:
        answers = [zlib.decompress(content) for (content,) in database.execute("SELECT answer FROM scan_answers")]
    assert answers
    assert not [each for each in answers if b"lovelace" in each]
    with (world.project / "ktx.yaml").open("a") as file:
        file.write("scan: {privacy: strict}\n")
    world.scan()
    with contextlib.closing(sqlite3.connect(world.project / ".ktx" / "state.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM scan_answers WHERE NOT counts").fetchone() == (0,)


def test_private_values_that_only_a_list_shows_are_not_kept(tmp_path: Path) -> None:
    world = sqlite_world(tmp_path)
    with (world.project / "ktx.yaml").open("a") as file:
        file.write("scan: {relationships: {profileSampleRows: 500}}\n")
    numbers = "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 20000)"
    world.change(
        f"CREATE TABLE t90 AS {numbers} SELECT i AS id, CASE i % 2 WHEN 0 THEN 'phone' ELSE 'web' END AS via FROM s",
        f"CREATE TABLE t91 AS {numbers} SELECT i AS id, CASE i % 2 WHEN 0 THEN 'open' ELSE 'paid' END AS state FROM s",
        "UPDATE t90 SET via = 'ada.lovelace@example.com' WHERE id = 7777",
    )
    for _ in range(2):
        world.scan()
        with contextlib.closing(sqlite3.connect(world.project / ".ktx" / "state.sqlite")) as database:
            assert database.execute("SELECT DISTINCT column_name FROM dictionary_columns").fetchall() == [("state",)]
            stored = database.execute("SELECT tables, answer FROM scan_answers WHERE NOT counts").fetchall()
        assert {tables.count("t91") for tables, _ in stored} == {1}, "nothing of the other table is kept"
        assert any(b"paid" in zlib.decompress(content) for _, content in stored)
        assert not any(b"lovelace" in zlib.decompress(content) for _, content in stored)
        assert b"lovelace" not in (world.project / ".ktx" / "state.sqlite").read_bytes()
        world.change("UPDATE t91 SET state = 'sent' WHERE id % 5 = 0")


def test_another_user_does_not_get_the_rows_of_the_former_one(
    tmp_path: Path, recording_postgres: RecordingPostgresServer
) -> None:
    world = postgres_world(tmp_path, recording_postgres, f"nightly_{random.randrange(10**9)}")
    names = [f"{name}_{random.randrange(10**9)}" for name in ("auditor", "guest")]
    world.change(
        "CREATE TABLE t90 AS SELECT i AS id, CASE i % 2 WHEN 0 THEN 'open' ELSE 'secret' END AS state"
        " FROM generate_series(1, 100) AS s(i)",
        "ALTER TABLE t90 ENABLE ROW LEVEL SECURITY",
        *(f"CREATE ROLE {name} LOGIN PASSWORD 'x'" for name in names),
        *(f"GRANT SELECT ON t90 TO {name}" for name in names),
        f"CREATE POLICY all_rows ON t90 TO {names[0]} USING (true)",
        f"CREATE POLICY open_rows ON t90 TO {names[1]} USING (state = 'open')",
        "ANALYZE",
    )
    settings = (world.project / "ktx.yaml").read_text()
    found = []
    for name in (*names, names[1]):
        parts = f"username: {name}, password: x}}"
        (world.project / "ktx.yaml").write_text(settings.replace("'}", f"', {parts}"))
        found.append((counts(world.scan()).get("profiled", 0), result(world.project)["dictionary_values"]))
    assert found[0] == (1, ["('\"open\"', 50)", "('\"secret\"', 50)"])
    assert found[1:] == [(1, ["('\"open\"', 50)"]), (0, ["('\"open\"', 50)"])]
