"""The state in Postgres: the same statements, the same answers, one writer, and errors that say where."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core import BusyError, ConfigError, StorageError
from ktx_cli.llm.types import Cost, Usage
from ktx_cli.llm.usage import UsageFact, record_usage, usage_by
from ktx_cli.project import (
    Layout,
    StateDatabase,
    StateEnrichmentStore,
    clock_of,
    copy_shared,
    current_holder,
    hold_run_lock,
    open_for_writing,
    open_local,
    read_local,
    read_state,
    shared_state_of,
    state_version,
    transaction,
)
from ktx_cli.project.lock import STALE_SECONDS
from ktx_cli.project.migrations import LOCAL_TABLES, MIGRATIONS, UNCOPIED_TABLES, state_tables
from ktx_cli.project.shared_state import (
    CONNECT_SECONDS,
    READING_SECONDS,
    SharedDatabase,
    SharedStateConnection,
    close_readers,
    configured_state,
    connect,
    copy_statement,
    is_outage,
    limit_patience,
    loaded_text,
    open_shared,
    report_outages,
    stored_text,
    translated_definition,
    translated_statement,
)
from ktx_cli.testing.servers import PostgresServer

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")


@pytest.fixture
def database(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[SharedDatabase]:
    parameters = {"host": postgres_server.host, "port": str(postgres_server.port), "dbname": "postgres"}
    login = {"user": postgres_server.user, "password": postgres_server.password}
    schema = f"ktx_{os.getpid()}_{abs(hash(request.node.nodeid)) % 10**9}"
    yield SharedDatabase(parameters | login, schema)
    close_readers()
    postgres_server.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def project(folder: Path, database: SharedDatabase, monkeypatch: pytest.MonkeyPatch) -> Layout:
    folder.mkdir(exist_ok=True)
    (folder / "ktx.yaml").write_text(
        "storage:\n  state: postgres\n  postgres: {url: env:KTX_STATE_URL, schema: " + database.schema + "}\n"
    )
    login = "postgres:postgres"
    monkeypatch.setenv("KTX_STATE_URL", f"postgresql://{login}@127.0.0.1:{database.parameters['port']}/postgres")
    return Layout(folder)


@pytest.fixture
def layout(tmp_path: Path, database: SharedDatabase, monkeypatch: pytest.MonkeyPatch) -> Layout:
    return project(tmp_path / "project", database, monkeypatch)


STATEMENTS = [
    ("SELECT a FROM t WHERE a = ? AND b LIKE ?", "SELECT a FROM t WHERE a = %s AND b LIKE %s"),
    ("SELECT '?', a % 2 FROM t", "SELECT '?', a %% 2 FROM t"),
    ("SELECT ?1 WHERE ?2 IS NULL OR ?2 = ?1", "SELECT %(p1)s WHERE %(p2)s IS NULL OR %(p2)s = %(p1)s"),
    ("SELECT :one, x::text FROM t", "SELECT %(one)s, x::text FROM t"),
    ("DELETE FROM t WHERE a IS ? AND b IS NULL", "DELETE FROM t WHERE a IS NOT DISTINCT FROM %s AND b IS NULL"),
    (
        "INSERT OR REPLACE INTO enrichment VALUES (?, ?, ?, ?)",
        "INSERT INTO enrichment (kind, key, value, stored) VALUES (%s, %s, %s, %s) ON CONFLICT (kind, key) DO UPDATE"
        " SET value = excluded.value, stored = excluded.stored",
    ),
    (
        "INSERT OR REPLACE INTO runs (run_id, command, status, started) VALUES (?, ?, 'running', ?)",
        "INSERT INTO runs (run_id, command, status, started) VALUES (%s, %s, 'running', %s) ON CONFLICT (run_id)"
        " DO UPDATE SET command = excluded.command, status = excluded.status, started = excluded.started,"
        " finished = DEFAULT, commit_id = DEFAULT",
    ),
    (
        "INSERT INTO profiles VALUES (?, ?, ?, ?)",
        "INSERT INTO profiles (connection, schema_name, table_name, profile) VALUES (%s, %s, %s, %s)",
    ),
]


COPIED = {
    "INSERT INTO fetches (kind) VALUES (?)": "COPY fetches (kind) FROM STDIN",
    "INSERT INTO run_reports VALUES (?, ?)": "COPY run_reports (run_id, report) FROM STDIN",
    "INSERT OR REPLACE INTO enrichment VALUES (?, ?, ?, ?)": None,
    "INSERT INTO runs (run_id, status) VALUES (?, 'running')": None,
    "INSERT INTO audit_lines VALUES (?, ?) RETURNING seq": None,
    "UPDATE shared_files SET used = ? WHERE sha256 = ?": None,
}


@pytest.mark.table("sql", COPIED)
def test_rows_are_copied_if_they_are_only_added(sql: str) -> None:
    assert copy_statement(sql) == COPIED[sql]


@pytest.mark.table("sql", [sql for sql, _ in STATEMENTS])
def test_a_statement_is_translated(sql: str) -> None:
    assert translated_statement(sql) == dict(STATEMENTS)[sql]


def test_every_table_has_its_columns_and_an_order() -> None:
    definitions = [each for script in MIGRATIONS for each in script.split(";") if "CREATE TABLE" in each]
    assert {each.split()[2] for each in definitions} == state_tables().keys() > LOCAL_TABLES
    for each in map(translated_definition, definitions):
        assert "STRICT" not in each and "IDENTITY" in each


@given(st.text())
def test_a_stored_text_comes_back(text: str) -> None:
    stored = stored_text(text)
    assert "\0" not in stored and "\\u0000" not in stored
    assert loaded_text(stored) == text


def test_values_come_back_as_from_a_file(layout: Layout) -> None:
    values = ["", "a\0b", '{"x": "\\u0000"}', "\U0010fffe", "𝔘ñí", "%s ? :x", "x" * 100_000]
    with open_for_writing(layout) as database:
        store = StateEnrichmentStore(layout, database)
        for number, value in enumerate(values):
            store.put("test", str(number), value)
        assert [store.get("test", str(number)) for number in range(len(values))] == values
        rows = [("shop", None, "t", json) for json in ('{"problem": "a\\u0000b"}', '{"problem": null}')]
        database.executemany("INSERT INTO profiles VALUES (?, ?, ?, ?)", rows)
        query = "SELECT json_extract(profile, '$.problem') FROM profiles WHERE schema_name IS ? ORDER BY rowid"
        assert [row[0] for row in database.execute(query, (None,))] == ["a\\u0000b", None]
        assert database.execute("SELECT sum(length(profile)), count(*) > 1 FROM profiles").fetchone() == (36, True)


def test_many_rows_come_back_as_from_a_file(layout: Layout, tmp_path: Path) -> None:
    """However they are sent."""
    texts = ["", "\\N", "\\.", "a\tb\nc\\d\r", "a\0b", "\U0010fffe", "𝔘ñí", None, *map(str, range(50))]
    given = [
        ("INSERT INTO profiles VALUES (?, ?, ?, ?)", [("shop", text, str(n), "{}") for n, text in enumerate(texts)]),
        ("INSERT INTO shared_files VALUES (?, ?, ?)", [(f"{n}", bytes(range(256)) * n, "") for n in range(20)]),
        ("INSERT INTO agent_usage VALUES (?, ?, ?, ?, ?)", [("c", n / 7, n % 2 == 0, -n, 2**62) for n in range(20)]),
    ]
    found = []
    with open_for_writing(layout) as shared, open_local(Layout(tmp_path / "local")) as local:
        for database in (shared, local):
            for statement, rows in given:
                database.executemany(statement, rows)
            queries = (
                "SELECT schema_name, table_name FROM profiles ORDER BY rowid",
                "SELECT content FROM shared_files ORDER BY rowid",
                "SELECT at, row_count, bytes FROM agent_usage ORDER BY at",
            )
            found.append([database.execute(query).fetchall() for query in queries])
    assert found[0] == found[1] and [row[0] for row in found[0][0]] == texts


@pytest.mark.parametrize("count", [9, 11])
def test_numbers_are_stored_alike_however_many_rows_there_are(layout: Layout, tmp_path: Path, count: int) -> None:
    """`at` is a column of real numbers, and the others have integers."""
    numbers = [0.0, -0.0, 1.0, -7.0, 2.0**40, True, 5]
    rows = [(f"{number}", each, each, each, number) for number, each in enumerate((numbers * 2)[:count])]
    rows += [("c", each, 0, 0, 100) for each in (0.5, 1e300, -1e300, float("inf"))]
    found = []
    with open_for_writing(layout) as shared, open_local(Layout(tmp_path / "local")) as local:
        for database in (shared, local):
            for some in (rows[:count], rows[count:]):
                database.executemany("INSERT INTO agent_usage VALUES (?, ?, ?, ?, ?)", some)
            found.append(database.execute("SELECT * FROM agent_usage ORDER BY bytes, at").fetchall())
    assert [row[:5] for row in found[0]] == [row[:5] for row in found[1]] and len(found[0]) == count + 4


def test_many_rows_are_sent_one_after_the_other(layout: Layout) -> None:
    size, count = 100_000, 200
    rows = ((f"{number}", b"x" * size, "") for number in range(count))
    with open_for_writing(layout) as database:
        database.execute("SELECT 1")
        tracemalloc.start()
        try:
            database.executemany("INSERT INTO shared_files VALUES (?, ?, ?)", rows)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        stored = database.execute("SELECT count(*), sum(length(content)) FROM shared_files").fetchone()
    assert stored == (count, size * count)
    assert most < size * count / 4


def test_rows_that_cannot_be_made_are_not_stored(layout: Layout) -> None:
    def rows() -> Iterator[tuple[str, bytes, str]]:
        for number in range(50):
            yield str(number), b"", ""
        raise ValueError("no more")

    with open_for_writing(layout) as database:
        with pytest.raises(ValueError, match="no more"):
            database.executemany("INSERT INTO shared_files VALUES (?, ?, ?)", rows())
        assert database.execute("SELECT count(*) FROM shared_files").fetchone() == (0,)


def test_many_rows_are_stored_together_or_not_at_all(layout: Layout) -> None:
    rows = [(str(number), b"", "") for number in range(50)]
    with open_for_writing(layout) as database:
        for many in ([*rows, rows[0]], [*rows[:5], rows[0]]):
            with pytest.raises(StorageError, match="duplicate key"):
                database.executemany("INSERT INTO shared_files VALUES (?, ?, ?)", many)
            assert database.execute("SELECT count(*) FROM shared_files").fetchone() == (0,)
        database.executemany("INSERT INTO shared_files VALUES (?, ?, ?)", rows)
        assert database.execute("SELECT count(*) FROM shared_files").fetchone() == (50,)


def test_usage_is_summed_as_in_a_file(layout: Layout, tmp_path: Path) -> None:
    def fill(database: Any) -> list[Any]:
        for number in range(4):
            usage, cost = Usage(10 + number, 2, 3, 4), Cost(0.25 * number, "list_price") if number % 2 else Cost()
            fact = UsageFact("run", 1, f"u{number}", "anthropic", "writer", "ingest", None, usage, cost)
            record_usage(database, fact)
            record_usage(database, fact)
        return usage_by(database, ("role", "model", "day"), since="2020")

    with open_for_writing(layout) as shared, open_local(Layout(tmp_path / "local")) as local:
        assert fill(shared) == fill(local)


def test_the_usage_of_a_run_is_found_with_an_index(layout: Layout, database: SharedDatabase) -> None:
    statement = "EXPLAIN SELECT * FROM usage WHERE run_id = 'r'"
    with open_shared(database):
        pass
    with contextlib.closing(connect(database)) as session:
        session.execute("SET enable_seqscan = off")  # the table is empty
        plan = " ".join(row[0] for row in session.execute(statement.encode()))
    assert "usage_of_run" in plan, plan


def test_what_describes_this_host_stays_in_the_file(layout: Layout) -> None:
    with open_local(layout) as local:
        local.execute("INSERT INTO probes (backend, model, finished) VALUES ('claude-code', 'sonnet', 'now')")
    assert read_local(layout, lambda state: len(state.execute("SELECT * FROM probes").fetchall())) == 1
    with open_for_writing(layout) as shared:
        assert shared.execute("SELECT count(*) FROM probes").fetchone() == (0,)


def test_reading_creates_nothing(layout: Layout, database: SharedDatabase, postgres_server: PostgresServer) -> None:
    assert read_state(layout, lambda state: state.execute("SELECT 1").fetchone()) is None
    assert state_version(layout) == {"changes": 0}
    with psycopg.connect(postgres_server.url()) as session:
        found = session.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", (database.schema,)).fetchone()
    assert found == (0,)
    assert not layout.private.exists()
    with open_for_writing(layout):
        pass
    assert state_version(layout) == {"changes": 1}
    with pytest.raises(StorageError, match="read-only transaction"):
        read_state(layout, lambda state: state.execute("DELETE FROM runs"))


def test_reading_takes_one_more_statement_and_survives_a_dropped_schema(
    layout: Layout, database: SharedDatabase, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_for_writing(layout):
        pass
    asked: list[str] = []
    real = SharedStateConnection.execute

    def execute(self: SharedStateConnection, sql: str, *rest: Any) -> Any:
        asked.append(sql)
        return real(self, sql, *rest)

    def count_runs(state: StateDatabase) -> int:
        return int(state.execute("SELECT count(*) FROM runs").fetchone()[0])

    assert read_state(layout, count_runs) == 0
    monkeypatch.setattr(SharedStateConnection, "execute", execute)
    assert read_state(layout, count_runs) == 0 and len(asked) == 2, asked
    asked.clear()
    assert state_version(layout) == {"changes": 1} and len(asked) == 1, asked
    postgres_server.execute(f'DROP SCHEMA "{database.schema}" CASCADE')
    assert read_state(layout, count_runs) is None and state_version(layout) == {"changes": 0}
    with open_for_writing(layout):
        pass
    assert read_state(layout, count_runs) == 0


def test_servers_notice_what_only_this_working_tree_has(layout: Layout) -> None:
    """Who accepted a definition is in the file: after `ktx sl accept`, a server must not answer with the old status."""
    with open_for_writing(layout):
        pass
    before = state_version(layout)
    with open_local(layout) as local:
        local.execute("INSERT INTO accepted_files VALUES ('wh', 'a.yaml', 'x', 'y')")
    assert state_version(layout) != before


def test_a_transaction_is_all_or_nothing_and_the_only_one(database: SharedDatabase) -> None:
    order: list[str] = []
    with open_shared(database) as one, open_shared(database) as other:

        def second() -> None:
            with transaction(other):
                order.append("second")

        with pytest.raises(ZeroDivisionError), transaction(one):
            one.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 's', 't')")
            raise ZeroDivisionError
        assert one.execute("SELECT count(*) FROM runs").fetchone() == (0,)
        with transaction(one):
            waiting = threading.Thread(target=second)
            waiting.start()
            time.sleep(0.2)
            order.append("first")
        waiting.join(10)
    assert order == ["first", "second"]


def test_a_transaction_that_cannot_begin_leaves_a_usable_connection(layout: Layout, database: SharedDatabase) -> None:
    """The lock of another transaction lasts longer than this one may wait."""
    with open_shared(database) as other, open_shared(database) as one:
        with transaction(other):
            one.execute("SET lock_timeout = '50ms'")
            with pytest.raises(StorageError, match="lock timeout"), transaction(one):
                pass
            assert not one.in_transaction
            assert one.execute("SELECT count(*) FROM runs").fetchone() == (0,)
        with transaction(one):
            one.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 's', 't')")
        assert other.execute("SELECT count(*) FROM runs").fetchone() == (1,)
        with pytest.raises(StorageError, match="lock timeout"), hold_run_lock(layout, run_id="a", command="c") as held:
            held[1].execute("SET lock_timeout = '50ms'")
            with transaction(other), transaction(held[1]):
                pass
        assert current_holder(other) is None, "a failed run releases the lock"


def test_ctrl_c_while_waiting_for_a_transaction(database: SharedDatabase) -> None:
    with open_shared(database) as other, open_shared(database) as one:
        with transaction(other):
            timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
            timer.start()
            with pytest.raises(KeyboardInterrupt), transaction(one):
                pass
            timer.join()
            assert one.execute("SELECT count(*) FROM runs").fetchone() == (0,)
        with transaction(one):
            assert one.in_transaction


def test_a_lost_connection_does_not_hide_why_a_transaction_failed(database: SharedDatabase) -> None:
    with open_shared(database) as other, open_shared(database) as one:
        with pytest.raises(ZeroDivisionError), transaction(one):
            pid = one.execute("SELECT pg_backend_pid()").fetchone()[0]
            other.execute("SELECT pg_terminate_backend(?)", (pid,))
            raise ZeroDivisionError
        with pytest.raises(StorageError), transaction(one):
            pid = one.execute("SELECT pg_backend_pid()").fetchone()[0]
            other.execute("SELECT pg_terminate_backend(?)", (pid,))
            insert = "INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 's', 't')"
            for _ in range(2):  # the second one must not be sent outside the transaction
                with contextlib.suppress(StorageError):
                    one.execute(insert)
            one.execute("SELECT 1")
        assert one.execute("SELECT count(*) FROM runs").fetchone() == (0,)


def test_several_hosts_create_the_schema_once(database: SharedDatabase) -> None:
    failures: list[BaseException] = []

    def open_it() -> None:
        try:
            with open_shared(database) as state:
                state.execute("SELECT * FROM leases").fetchall()
        except BaseException as error:  # noqa: BLE001 - the thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert not failures


def test_two_working_trees_share_the_run_lock(
    tmp_path: Path, database: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (project(tmp_path / name, database, monkeypatch) for name in ("one", "two"))
    with hold_run_lock(one, run_id="a", command="ktx ingest"):
        with pytest.raises(BusyError) as caught, hold_run_lock(two, run_id="b", command="ktx scan"):
            pass
        assert caught.value.details["run_id"] == "a" and caught.value.exit_code == 6
        holder, now = read_state(two, lambda state: (current_holder(state), clock_of(state))) or (None, 0.0)
        assert holder is not None and holder.is_alive(now)
    with hold_run_lock(two, run_id="b", command="ktx scan"):
        pass


def test_a_holder_on_another_host_is_dead_by_the_clock_of_the_server(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock of this host that is a day ahead ends nobody's run."""
    with hold_run_lock(layout, run_id="a", command="ktx ingest") as (_, database):
        database.execute("UPDATE leases SET host = 'elsewhere', hostname = 'elsewhere'")
        ahead = time.time() + 86_400
        monkeypatch.setattr(time, "time", lambda: ahead)
        with pytest.raises(BusyError, match="on elsewhere"), hold_run_lock(layout, run_id="b", command="ktx scan"):
            pass
        database.execute("UPDATE leases SET heartbeat = heartbeat - ?", (STALE_SECONDS + 1,))
        with hold_run_lock(layout, run_id="b", command="ktx scan") as (lock, _):
            lock.check()
    monkeypatch.undo()


def test_a_copy_of_a_project_has_its_own_state(layout: Layout, database: SharedDatabase) -> None:
    with open_for_writing(layout) as state:
        state.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 's', 't')")
        state.execute("INSERT INTO profiles VALUES (?, ?, ?, ?)", ("shop", "a", "b", "c\0"))
    layout.own_state.touch()
    with open_local(layout) as local:
        copy_shared(database, local)
    assert read_state(layout, lambda own: own.execute("SELECT * FROM profiles").fetchall()) == [
        ("shop", "a", "b", "c\0")
    ]


def test_a_copy_has_what_is_known_and_nothing_that_hosts_exchange(
    layout: Layout, database: SharedDatabase, tmp_path: Path
) -> None:
    """Least of all the lock of a run, and an audit log that goes on elsewhere."""
    values = {"TEXT": "x", "INTEGER": 1, "REAL": 1.0, "BLOB": b"x"}
    with open_for_writing(layout) as state, open_local(Layout(tmp_path / "copy")) as copy:
        for table, (columns, _) in state_tables().items():
            types = dict(copy.execute(f"SELECT name, type FROM pragma_table_info('{table}')"))
            places = ", ".join("?" * len(columns))
            for each in (state, copy):
                row = [values[types[column]] for column in columns]
                each.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", row)
        copy.execute("UPDATE unit_steps SET step = 'of another project'")
        copy_shared(database, copy)
        counts = {table: copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in state_tables()}
        assert copy.execute("SELECT step FROM unit_steps").fetchone() == ("x",)
    exchanged = {table for table, count in counts.items() if count == 0}
    assert exchanged == UNCOPIED_TABLES - LOCAL_TABLES
    assert {"leases", "shared_files", "audit_lines", "published", "agent_usage", "run_packages"} <= exchanged


def test_a_state_is_copied_a_few_rows_at_a_time(
    layout: Layout, database: SharedDatabase, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    rows = [("shop", None, f"t{number}", "{}") for number in range(1200)]
    with open_for_writing(layout) as state, open_local(Layout(tmp_path / "copy")) as copy:
        state.executemany("INSERT INTO profiles VALUES (?, ?, ?, ?)", rows)
        before = len(postgres_server.log)
        with transaction(state):  # of a scan that saves something
            copy_shared(database, copy)
        assert copy.execute("SELECT * FROM profiles ORDER BY rowid").fetchall() == rows
    statements = [line for line in postgres_server.log[before:].splitlines() if "profiles" in line or "FETCH" in line]
    assert not [line for line in statements if "SELECT" in line and "DECLARE" not in line]
    assert len([line for line in statements if "FETCH FORWARD 500" in line]) >= 3


INVALID = {
    "mysql://x@h/d": "not a valid Postgres URL",
    "postgresql://h/d?sslkey=/etc/passwd": "sets `sslkey`",
    "postgresql://h/d?service=x": "sets `service`",
    "postgresql://h/d?options=-csession_replication_role%3Dreplica": "sets `options`",
}


@pytest.mark.table("url", INVALID)
def test_an_invalid_url(url: str, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTX_STATE_URL", url)
    with pytest.raises(ConfigError, match=INVALID[url]):
        configured_state(layout)


@pytest.mark.parametrize("place", [".ktx/secrets/url", "../url"])
def test_a_copy_of_a_project_has_its_database(place: str, layout: Layout, database: SharedDatabase) -> None:
    (layout.root / place).parent.mkdir(parents=True, exist_ok=True)
    (layout.root / place).write_text(os.environ["KTX_STATE_URL"])
    settings = layout.config.read_text().replace("env:KTX_STATE_URL", f"file:{place}")
    copy = Layout(layout.snapshots / "0a1b")
    copy.root.mkdir(parents=True)
    for each in (layout, copy):
        each.config.write_text(settings)
    found = configured_state(copy)
    assert found is not None and found == configured_state(layout) and found.schema == database.schema


@pytest.mark.parametrize("url", ["postgresql://elsewhere.example.com/x", "file:url.txt", "file:./link", "file:../up"])
def test_a_repository_names_no_server_to_send_rows_to(url: str, layout: Layout) -> None:
    (layout.root.parent / ".git").mkdir()
    for name in ("url.txt", "../up"):
        (layout.root / name).write_text("postgresql://elsewhere.example.com/x")
    (layout.root / "link").symlink_to("url.txt")
    layout.config.write_text(layout.config.read_text().replace("env:KTX_STATE_URL", url))
    with pytest.raises(ConfigError, match="must come from this machine"):
        configured_state(layout)


@pytest.mark.parametrize(
    "text",
    [
        "  storage:\n    state: postgres\n    postgres: {url: env:KTX_STATE_URL, schema: SCHEMA}\n",
        "{storage: {state: postgres, postgres: {url: 'env:KTX_STATE_URL', schema: SCHEMA}}}\n",
        '{"connections": {}, "storage" : {"state": "postgres", "postgres": {"url": "env:KTX_STATE_URL",'
        ' "schema": "SCHEMA"}}}\n',
    ],
    ids=["indented", "flow", "json"],
)
def test_the_state_is_shared_however_the_settings_are_written(text: str, layout: Layout) -> None:
    expected = shared_state_of(layout)
    assert expected is not None
    layout.config.write_text(text.replace("SCHEMA", expected.schema))
    assert shared_state_of(layout) == expected


def test_a_file_of_this_machine_may_contain_the_url(layout: Layout, tmp_path: Path) -> None:
    for place in (tmp_path / "url.txt", layout.secrets / "state-url"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(os.environ["KTX_STATE_URL"])
        place.chmod(0o600)
        text = layout.config.read_text()
        layout.config.write_text(text.replace("env:KTX_STATE_URL", f"file:{place}"))
        assert configured_state(layout) is not None
        layout.config.write_text(text)


def test_an_unreachable_server_is_named_without_its_password(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.project.shared_state.OUTAGE_SECONDS", 0.3)
    monkeypatch.setenv("KTX_STATE_URL", "postgresql://me:very-secret@127.0.0.1:9/none")
    with pytest.raises(StorageError, match=r"Postgres at 127\.0\.0\.1:9/none") as caught, open_for_writing(layout):
        pass
    assert "very-secret" not in str(caught.value) + str(caught.value.details)


def test_who_waits_for_the_database_is_told_once(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    attempts: list[float] = []

    def refusing(*arguments: Any, **options: Any) -> Any:
        attempts.append(time.monotonic())
        if len(attempts) < 5:
            raise psycopg.OperationalError("connection failed: Connection refused")
        return connect(*arguments, **options)

    monkeypatch.setattr("ktx_cli.project.shared_state.REPORT_SECONDS", 0.3)
    monkeypatch.setattr("ktx_cli.project.shared_state.connect", refusing)
    with report_outages(messages.append), open_for_writing(layout):
        assert len(messages) == 2, messages
    assert "does not respond; waiting for it: connection failed: Connection refused" in messages[0]
    assert messages[1].endswith(" responds again")


def test_a_process_that_ends_cuts_its_waiting_short() -> None:
    parameters = {"host": "127.0.0.1", "port": "9", "user": "me", "dbname": "none"}
    connection = SharedStateConnection(SharedDatabase(parameters, "ktx_ending"))
    cut = threading.Timer(0.3, lambda: limit_patience(connection, 0.5))
    cut.start()
    began = time.monotonic()
    with pytest.raises(StorageError, match="Connection refused"):
        connection.execute("SELECT 1")
    assert 0.4 < time.monotonic() - began < 10
    cut.join()


def test_a_command_that_only_reads_waits_for_seconds(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.project.shared_state.READING_SECONDS", 0.5)
    monkeypatch.setenv("KTX_STATE_URL", "postgresql://me@127.0.0.1:9/none")
    began = time.monotonic()
    with pytest.raises(StorageError, match="Connection refused"):
        read_state(layout, lambda state: state.execute("SELECT 1"))
    assert 0.5 <= time.monotonic() - began < 5


def test_readers_wait_for_a_silent_server_together(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system accepts connections for a server that never answers."""
    monkeypatch.setattr("ktx_cli.project.shared_state.READING_SECONDS", 1.0)
    waits: list[float] = []

    def read() -> None:
        with pytest.raises(StorageError, match="timeout expired"):
            read_state(layout, lambda state: state.execute("SELECT 1"))
        waits.append(time.monotonic() - began)

    with socket.create_server(("127.0.0.1", 0), backlog=16) as silent:
        monkeypatch.setenv("KTX_STATE_URL", f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/none")
        began = time.monotonic()
        threads = [threading.Thread(target=read) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
    assert len(waits) == 4 and max(waits) < 5, waits


def test_a_connection_notices_a_server_that_falls_silent(database: SharedDatabase) -> None:
    for seconds, limit in ((READING_SECONDS, "3000"), (CONNECT_SECONDS, "30000")):
        with connect(database, seconds=seconds) as session:
            given = session.info.get_parameters()
        assert (given["connect_timeout"], given["tcp_user_timeout"]) == (str(int(seconds)), limit)


REFUSED = (
    'connection failed: connection to server at "::1", port 5 failed: Connection refused\n\tIs the server running?'
)
ANSWERED = 'connection to server at "127.0.0.1", port 5 failed: '
OUTAGES = {
    REFUSED: True,
    'connection is bad: connection to server on socket "/x/.s.PGSQL.5" failed: No such file or directory\n'
    "\tIs the server running locally and accepting connections on that socket?": True,
    "connection timeout expired": True,
    "failed to resolve host 'db': [Errno -2] Name or service not known": True,
    ANSWERED + "FATAL:  the database system is starting up": True,
    ANSWERED + "server closed the connection unexpectedly": True,
    ANSWERED + "session is read-only": True,
    "consuming input failed: server closed the connection unexpectedly": True,
    "the connection is lost": True,
    ANSWERED + 'FATAL:  password authentication failed for user "ktx"': False,
    ANSWERED + "fe_sendauth: no password supplied": False,
    ANSWERED + 'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "ktx", database "ktx", no encryption': False,
    ANSWERED + 'FATAL:  permission denied for database "ktx"': False,
    ANSWERED + "SSL error: certificate verify failed": False,
    ANSWERED + 'FATAL:  database "none" does not exist': False,
    ANSWERED + "FATAL:  Passwort-Authentifizierung für Benutzer »ktx« fehlgeschlagen": False,
    f"{REFUSED}\n{ANSWERED}fe_sendauth: no password supplied": False,
    f"connection timeout expired\nMultiple connection attempts failed. All failures were:\n- {REFUSED}": True,
}


@pytest.mark.table("message", OUTAGES)
def test_what_passes_by_itself(message: str) -> None:
    assert is_outage(psycopg.OperationalError(message)) is OUTAGES[message]


def test_a_wrong_password_is_not_waited_for(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    url = os.environ["KTX_STATE_URL"].replace("postgres:postgres@", "postgres:other@")
    monkeypatch.setenv("KTX_STATE_URL", url)
    began = time.monotonic()
    with pytest.raises(StorageError, match="password authentication failed"), open_for_writing(layout):
        pass
    assert time.monotonic() - began < 5


def test_a_schema_of_a_newer_ktx_is_refused(layout: Layout) -> None:
    with open_for_writing(layout) as database:
        database.execute("UPDATE ktx_state SET version = 1000")
    for use in (lambda: read_state(layout, lambda state: 1), lambda: open_for_writing(layout).__enter__()):
        with pytest.raises(StorageError, match="created by a newer ktx"):
            use()


def test_a_statement_waits_for_a_server_that_restarts(tmp_path: Path) -> None:
    with PostgresServer() as server:
        parameters = {"host": server.host, "port": str(server.port), "dbname": "postgres"}
        mine = SharedDatabase(parameters | {"user": "postgres", "password": "postgres"}, "ktx_restart")
        with open_shared(mine) as state:
            store = StateEnrichmentStore(Layout(tmp_path), state)
            store.put("a", "1", 1)
            with pytest.raises(StorageError), transaction(state):
                server.end()
                server.begin_again()
                state.execute("UPDATE enrichment SET value = '2'")
            assert store.get("a", "1") == 1
            for number, how in enumerate((signal.SIGINT, signal.SIGKILL, signal.SIGQUIT)):
                server.end(how)
                starting = begin_later(server)
                store.put("a", "1", number)
                assert store.get("a", "1") == number
                starting.join()


def test_a_run_waits_for_a_lost_server_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.project.shared_state.OUTAGE_SECONDS", 1.0)
    with PostgresServer() as server:
        parameters = {"host": server.host, "port": str(server.port), "dbname": "postgres"}
        mine = SharedDatabase(parameters | {"user": "postgres", "password": "postgres"}, "ktx_lost")
        with open_shared(mine) as state:
            for _ in range(2):
                server.end(signal.SIGQUIT)  # which ends its sessions too
                waits = []
                for _ in range(3):
                    began = time.monotonic()
                    with pytest.raises(StorageError):
                        state.execute("SELECT 1")
                    waits.append(time.monotonic() - began)
                assert waits[0] > 1.0 and sum(waits[1:]) < 1.0, waits
                server.begin_again()
                deadline = time.monotonic() + 20
                while time.monotonic() < deadline:
                    with contextlib.suppress(StorageError):
                        assert state.execute("SELECT 1").fetchone() == (1,)
                        break
                    time.sleep(0.1)


def begin_later(server: PostgresServer) -> threading.Thread:
    def begin() -> None:
        time.sleep(0.5)
        server.begin_again()

    thread = threading.Thread(target=begin)
    thread.start()
    return thread


def test_a_closed_connection_rolls_back(database: SharedDatabase) -> None:
    with open_shared(database) as state:
        state.execute("BEGIN IMMEDIATE")
        assert state.in_transaction
        state.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 's', 't')")
        state.close()
        assert not state.in_transaction
    with open_shared(database) as state:
        assert state.execute("SELECT count(*) FROM runs").fetchone() == (0,)
