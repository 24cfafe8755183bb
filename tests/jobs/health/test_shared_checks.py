"""What `ktx doctor` finds in a shared database: each situation once, and nothing is written."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ktx_cli.core import StorageError, isoformat, now
from ktx_cli.engine import queue_version
from ktx_cli.engine.queue import prepare_queue
from ktx_cli.jobs.health import shared_checks
from ktx_cli.jobs.health.doctor import Diagnosis, examine, verdict
from ktx_cli.jobs.health.status import project_status
from ktx_cli.jobs.index import index_project
from ktx_cli.project import Layout, hold_run_lock, load_config, open_for_writing, shared_state_of
from ktx_cli.project.migrations import MIGRATIONS
from ktx_cli.search.shared_session import PREFIX, table_statements
from ktx_cli.testing.servers import PostgresServer, free_port
from tests.worlds.shared_schema import SharedSchema

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")

SECRET = "very-secret"
WORKERS = "ingest:\n  executor: postgres\n  workers: {coordinator: %s}\n"


class Host:
    """A host with a clone of the project, whose user of the database may do what it is granted."""

    def __init__(self, folder: Path, schema: SharedSchema, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.schema, self.patch = folder, schema, patch
        self.role = f"{schema.name}_role"
        self.stack = contextlib.ExitStack()
        self.settings()

    @property
    def layout(self) -> Layout:
        return Layout(self.folder)

    def settings(self, text: str = "", **storage: str) -> None:
        (self.folder / "ktx.yaml").write_text(f"{self.schema.storage(**storage)}{text}")

    def url(self, **parameters: str) -> None:
        """Change the URL of the database."""
        place = {"host": "127.0.0.1", "port": self.schema.server.port, "dbname": "postgres", **parameters}
        self.patch.setenv("KTX_STATE_URL", make_conninfo(**place))

    def limit(self, *grants: str) -> None:
        """Connect as a role that has only some rights."""
        self.do(f"CREATE ROLE $U LOGIN PASSWORD '{SECRET}'", *grants)
        self.url(user=self.role, password=SECRET)

    def do(self, *statements: str) -> None:
        """Run statements as an administrator. `$S`, `$Q` and `$U` stand for the schemas and the role."""
        for statement in statements:
            for name, meaning in (("$S", self.schema.name), ("$Q", self.schema.queue), ("$U", self.role)):
                statement = statement.replace(name, f'"{meaning}"')
            self.schema.rows(statement)

    def migrate(self) -> None:
        with open_for_writing(self.layout):
            pass

    def queue(self, *statements: str) -> None:
        """Create the queue with the state, then change it."""
        self.migrate()
        shared = shared_state_of(self.layout)
        assert shared is not None
        prepare_queue(shared)
        self.do(*statements)

    def close(self) -> None:
        """Release what is held, and drop the schemas and the role."""
        self.stack.close()
        self.schema.drop()
        if self.schema.rows(f"SELECT 1 FROM pg_roles WHERE rolname = '{self.role}'"):
            self.do("DROP OWNED BY $U CASCADE", "DROP ROLE $U")

    def diagnosis(self) -> Diagnosis:
        return examine(self.folder, os.environ, only=["shared"])

    def contents(self) -> list[tuple[object, ...]]:
        """Return what is in the schemas, with the number of the last transaction that changed each row."""
        names = f"('{self.schema.name}', '{self.schema.queue}')"
        query = f"SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN {names}"
        found: list[tuple[object, ...]] = []
        for schema, table in self.schema.rows(query):
            found += [(table, *row) for row in self.schema.rows(f'SELECT xmin::text, * FROM "{schema}"."{table}"')]
        return found


@pytest.fixture
def host(tmp_path: Path, shared_schema: SharedSchema, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(tmp_path, shared_schema, monkeypatch)
    yield made
    made.close()


def nothing_shared(host: Host) -> None:
    (host.folder / "ktx.yaml").write_text("")


def no_block(host: Host) -> None:
    (host.folder / "ktx.yaml").write_text("storage: {state: postgres}")


def search_without_block(host: Host) -> None:
    (host.folder / "ktx.yaml").write_text("storage: {search: postgres}")


def server_down(host: Host) -> None:
    host.url(port=str(free_port()), user="postgres", password=SECRET)


def wrong_password(host: Host) -> None:
    host.url(user="postgres", password=SECRET)


def no_database(host: Host) -> None:
    host.url(user="postgres", password="postgres", dbname="nowhere")


def no_variable(host: Host) -> None:
    host.patch.delenv("KTX_STATE_URL")


def no_schema(host: Host) -> None:
    pass


def no_schema_nor_right(host: Host) -> None:
    host.limit()


def empty_schema(host: Host) -> None:
    host.limit("CREATE SCHEMA $S AUTHORIZATION $U")


def current(host: Host) -> None:
    host.migrate()


def newer(host: Host) -> None:
    host.migrate()
    host.do("UPDATE $S.ktx_state SET version = 1000", "COMMENT ON TABLE $S.ktx_state IS 'ktx 9.8.7'")


def older(host: Host) -> None:
    host.patch.setattr("ktx_cli.project.shared_state.MIGRATIONS", MIGRATIONS[:-1])
    host.migrate()
    host.patch.setattr("ktx_cli.project.shared_state.MIGRATIONS", MIGRATIONS)


def older_of_another(host: Host) -> None:
    older(host)
    host.limit("GRANT USAGE, CREATE ON SCHEMA $S TO $U", "GRANT ALL ON ALL TABLES IN SCHEMA $S TO $U")


def no_right_to_read(host: Host) -> None:
    host.migrate()
    host.limit()


def reader(host: Host) -> None:
    host.migrate()
    host.limit("GRANT USAGE ON SCHEMA $S TO $U", "GRANT SELECT ON ALL TABLES IN SCHEMA $S TO $U")


def other_clock(host: Host) -> None:
    host.migrate()
    real = shared_checks.connect

    def later(*arguments: object, **settings: object) -> psycopg.Connection[object]:
        host.patch.setattr("ktx_cli.project.shared_status.time.time", lambda: real_time() + 300.0)
        return real(*arguments, **settings)  # type: ignore[arg-type]

    real_time = time.time
    host.patch.setattr(shared_checks, "connect", later)


def tables_of_others(host: Host) -> None:
    host.do("CREATE SCHEMA $S", "CREATE TABLE $S.runs (a integer)", "CREATE TABLE $S.customers (a integer)")


def queue_with_others(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.migrate()
    host.do("CREATE SCHEMA $Q", "CREATE TABLE $Q.customers (a integer)")


def queue_with_tables_of_another_user(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.limit("CREATE SCHEMA $S AUTHORIZATION $U", "CREATE SCHEMA $Q AUTHORIZATION $U")
    host.migrate()
    host.do("CREATE TABLE $Q.customers (a integer)")


def queue_beside_a_table_of_another_user(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.limit("CREATE SCHEMA $S AUTHORIZATION $U", "CREATE SCHEMA $Q AUTHORIZATION $U")
    host.queue("CREATE TABLE $Q.customers (a integer)")


def own_schema_with_a_queue_of_another(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.queue()
    host.limit("GRANT USAGE ON SCHEMA $S TO $U", "GRANT ALL ON ALL TABLES IN SCHEMA $S TO $U")
    host.do("ALTER SCHEMA $Q OWNER TO $U")


def queue_later(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.migrate()


def queue_without_right(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.limit("CREATE SCHEMA $S AUTHORIZATION $U")
    host.migrate()


def queue_of_another(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.queue()
    host.limit("GRANT USAGE ON SCHEMA $S TO $U", "GRANT ALL ON ALL TABLES IN SCHEMA $S TO $U")


def queue_of_another_version(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.queue("COMMENT ON SCHEMA $Q IS 'procrastinate 0.1'")


def idle_queue(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.queue()


def no_worker(host: Host) -> None:
    host.settings(WORKERS % "false")
    host.queue()


def with_run(host: Host) -> None:
    """Let a run hold the lock for the rest of the test."""
    host.stack.enter_context(hold_run_lock(host.layout, run_id="20260101T000000-abcdef", command="ktx ingest"))


WORKER = "INSERT INTO $Q.procrastinate_workers (last_heartbeat) VALUES (now() - interval '{} seconds')"
UNIT = (
    "INSERT INTO $Q.procrastinate_jobs (queue_name, task_name, status, worker_id) "
    "VALUES ('units', 'ktx.unit', '{}', (SELECT max(id) FROM $Q.procrastinate_workers))"
)
EARLIER = "UPDATE $Q.procrastinate_events SET at = now() - interval '3 hours'"


def left_units(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.queue(UNIT.format("todo"), UNIT.format("todo"))


def waiting_units(host: Host) -> None:
    host.settings(WORKERS % "false")
    host.queue(UNIT.format("todo"), UNIT.format("todo"), EARLIER)
    with_run(host)


def stuck_units(host: Host) -> None:
    host.settings(WORKERS % "false")
    host.queue(WORKER.format(3600), UNIT.format("doing"), WORKER.format(0))
    with_run(host)


def busy_queue(host: Host) -> None:
    host.settings(WORKERS % "false")
    host.queue(WORKER.format(1), UNIT.format("doing"), UNIT.format("todo"), EARLIER)
    with_run(host)


def slow_worker(host: Host) -> None:
    """Its heartbeats are rarer than those of this host, as it has stored."""
    host.settings(WORKERS % "false")
    host.queue(WORKER.format(100), "INSERT INTO $S.queue_workers VALUES (1, 60)", UNIT.format("doing"))
    with_run(host)


def snapshot(host: Host) -> None:
    host.migrate()
    published = isoformat(now()).replace("20", "19", 1)
    row = f"'served', 'a', 'b', '0123456789abcdef', '{published}', 'db1'"
    host.do(f"INSERT INTO $S.published (name, tree, statuses, commit_id, published, host) VALUES ({row})")


@dataclass(frozen=True)
class Situation:
    """What is found, by check, with words of the message and the hint."""

    arrange: Callable[[Host], None]
    check: str
    level: str
    says: str
    hint: str | None = None
    code: int = 0

    @property
    def name(self) -> str:
        return self.arrange.__name__


UPGRADE = "pip install --upgrade"
EXPORT = "export KTX_STATE_URL=..."
ADMIN = "as an administrator: "
SCHEMA = "ktx config set storage.postgres.schema SCHEMA"
SITUATIONS = [
    Situation(nothing_shared, "shared", "ok", "nothing is shared"),
    Situation(no_block, "shared", "warn", "nothing is shared with other hosts", "ktx config set storage.postgres "),
    Situation(
        search_without_block, "shared", "warn", "config set storage '{search: ", "ktx config set storage.postgres "
    ),
    Situation(server_down, "shared", "fail", "Connection refused", "pg_isready -h 127.0.0.1 -p ", 1),
    Situation(wrong_password, "shared", "fail", "password authentication failed", EXPORT, 3),
    Situation(no_database, "shared", "fail", '"nowhere" does not exist', f'{ADMIN}CREATE DATABASE "nowhere"', 3),
    Situation(tables_of_others, "shared", "fail", "that ktx did not create: runs", SCHEMA, 3),
    Situation(no_variable, "shared", "fail", "KTX_STATE_URL", EXPORT, 3),
    Situation(no_schema, "shared", "ok", "the first run creates it"),
    Situation(no_schema_nor_right, "shared", "fail", "may not create it", "as an administrator: CREATE SCHEMA ", 3),
    Situation(empty_schema, "shared", "ok", "has no tables yet"),
    Situation(current, "shared", "ok", " ms"),
    Situation(newer, "shared", "fail", "created by a newer ktx (ktx 9.8.7, version 1000; ", UPGRADE, 3),
    Situation(older, "shared", "warn", "the next run updates them", "ktx ingest"),
    Situation(
        older_of_another, "shared", "fail", "may not change them", 'as an administrator: GRANT "postgres" TO ', 3
    ),
    Situation(
        no_right_to_read, "shared", "fail", "may not read the schema", "as an administrator: GRANT USAGE, CREATE ON", 3
    ),
    Situation(reader, "shared", "warn", "lacks INSERT, UPDATE, DELETE", "as an administrator: GRANT USAGE, CREATE ON"),
    Situation(other_clock, "shared", "warn", "s ahead of that of the shared database", "date -u"),
    Situation(queue_later, "shared:queue", "ok", "the first run with sources and a model creates the queue"),
    Situation(
        queue_without_right, "shared:queue", "fail", "may not create it", "as an administrator: CREATE SCHEMA", 3
    ),
    Situation(queue_of_another, "shared:queue", "fail", "may not use the schema", "as an administrator: GRANT ", 3),
    Situation(queue_with_others, "shared:queue", "fail", "objects that ktx did not create", SCHEMA, 3),
    Situation(queue_with_tables_of_another_user, "shared:queue", "fail", "objects that ktx did not create", SCHEMA, 3),
    Situation(queue_beside_a_table_of_another_user, "shared:queue", "ok", "runs process their units themselves"),
    Situation(
        own_schema_with_a_queue_of_another, "shared:queue", "fail", "may not use", f'{ADMIN}GRANT "postgres" TO ', 3
    ),
    Situation(queue_of_another_version, "shared:queue", "warn", "procrastinate 0.1 created the queue", UPGRADE),
    Situation(idle_queue, "shared:queue", "ok", "runs process their units themselves"),
    Situation(no_worker, "shared:queue", "warn", "runs would wait for one", "ktx worker"),
    Situation(left_units, "shared:queue", "warn", "an interrupted run left 2 work units", "ktx ingest"),
    Situation(waiting_units, "shared:queue", "warn", "the first was queued 3 h ago", "ktx worker"),
    Situation(stuck_units, "shared:queue", "warn", "1 unit of workers that do not respond", "ktx worker"),
    Situation(slow_worker, "shared:queue", "ok", "1 worker, 0 waiting units, 1 in progress"),
    Situation(busy_queue, "shared:queue", "ok", "1 worker, 1 waiting unit, 1 in progress, the first queued 3 h ago"),
    Situation(snapshot, "shared:snapshot", "ok", "commit 0123456789ab, published 36"),
]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.name)
def test_what_is_found(situation: Situation, host: Host) -> None:
    situation.arrange(host)
    before = host.contents()
    diagnosis = host.diagnosis()
    assert host.contents() == before, "nothing is written"
    found = {each.check: each for each in diagnosis.findings}
    assert situation.check in found, diagnosis.findings
    each = [each for each in diagnosis.findings if each.check == situation.check][-1]
    assert each.level == situation.level and situation.says in each.message, each
    hint = each.hint or ""
    assert hint.startswith(situation.hint) if situation.hint else not hint, each
    error = verdict(diagnosis, strict=False)
    assert (0 if error is None else error.exit_code) == situation.code
    assert SECRET not in str(diagnosis.to_json()) and "postgres:postgres" not in str(diagnosis.to_json())
    others = [each for each in diagnosis.findings if each.check != situation.check]
    assert [each for each in others if each.level != "ok"] == []


@pytest.mark.parametrize(
    ("arrange", "level", "says"),
    [
        pytest.param(no_block, "warn", "nothing is shared with other hosts", id="a project of the TypeScript ktx"),
        pytest.param(current, "fail", "needs the package psycopg", id="a project with a shared state"),
    ],
)
def test_a_plain_installation_has_no_driver(
    arrange: Callable[[Host], None], level: str, says: str, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange(host)
    with monkeypatch.context() as patch:
        for name in ("psycopg", "psycopg.conninfo"):
            patch.setitem(sys.modules, name, None)
        (found,) = host.diagnosis().findings
    assert found.level == level and says in found.message, found


OTHER = "search_1_2_"


def index_of(host: Host, prefix: str, days: int | None) -> None:
    """Create the tables of a version of the index, with a tree that was last used some days ago, if any."""
    host.do(*(each.replace(PREFIX, prefix) for each in table_statements("bytea")[0]))
    if days is not None:
        columns = "digest, root, added, gone, units, documents, size, totals, holders, used"
        values = f"'x', 1, '{{}}', '{{}}', 0, 0, 0, '{{}}', '{{}}', now() - interval '{days} days'"
        host.do(f'INSERT INTO $S."{prefix}trees" ({columns}) VALUES ({values})')


@pytest.mark.parametrize(
    ("versions", "is_found"),
    [
        pytest.param({OTHER: 8}, True, id="of another version"),
        pytest.param({OTHER: None}, True, id="without trees"),
        pytest.param({OTHER: 6}, False, id="still in use"),
        pytest.param({PREFIX: 8}, False, id="of this version"),
        pytest.param({OTHER: 8, PREFIX: 0, f"{PREFIX[:-1]}1_": 0}, True, id="beside others"),
    ],
)
def test_the_tables_of_an_unused_version_of_the_index(
    versions: dict[str, int | None], is_found: bool, host: Host
) -> None:
    host.settings(state="sqlite", search="postgres")
    host.do("CREATE SCHEMA $S")
    for prefix, days in ({PREFIX: 0} | versions).items():
        index_of(host, prefix, days)
    before = host.contents()
    warnings = [each for each in host.diagnosis().findings if each.level != "ok"]
    assert [each.check for each in warnings] == ["shared:search"] * is_found and host.contents() == before
    if is_found:
        assert f"the tables `{OTHER}*` (" in warnings[0].message
        host.do((warnings[0].hint or "").removeprefix("as their owner: "))
        left = host.schema.rows(f"SELECT tablename FROM pg_tables WHERE schemaname = '{host.schema.name}'")
        assert {name for (name,) in left if name.startswith(OTHER)} == set()
        assert len(left) == (len({PREFIX, *versions}) - 1) * len(table_statements("bytea")[0])
        assert [each.level for each in host.diagnosis().findings] == ["ok", "ok"]


@pytest.mark.parametrize("arrange", [no_schema_nor_right, no_right_to_read, queue_without_right, queue_of_another])
def test_what_an_administrator_is_told_to_do_is_enough(arrange: Callable[[Host], None], host: Host) -> None:
    arrange(host)
    (finding,) = [each for each in host.diagnosis().findings if each.level == "fail"]
    host.do(*(finding.hint or "").partition(": ")[2].split("; "))
    assert [each for each in host.diagnosis().findings if each.level not in ("ok",)] == []
    if "executor" in host.layout.config.read_text():
        host.queue()
    with open_for_writing(host.layout) as database:
        database.execute("INSERT INTO rate_pauses VALUES (?, ?)", ("models", 0.0))


def test_a_queue_of_another_version_is_created_anew_without_the_right_to_create_schemas(host: Host) -> None:
    host.settings(WORKERS % "true")
    host.limit("CREATE SCHEMA $S AUTHORIZATION $U", "CREATE SCHEMA $Q AUTHORIZATION $U")
    for _ in range(2):
        host.queue("COMMENT ON SCHEMA $Q IS 'procrastinate 0.1'")
        host.queue()
        query = f"SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = '{host.schema.queue}'"
        assert host.schema.rows(query) == [(queue_version(),)]
    assert [each.level for each in host.diagnosis().findings] == ["ok", "ok"]


def test_a_run_refuses_what_the_check_refuses(host: Host) -> None:
    tables_of_others(host)
    (finding,) = host.diagnosis().findings
    with pytest.raises(StorageError) as caught, open_for_writing(host.layout):
        pass
    assert caught.value.message in finding.message


def drop_extension(host: Host) -> None:
    host.do("DROP EXTENSION IF EXISTS vector")


def own_role(host: Host) -> None:
    drop_extension(host)
    host.limit("CREATE SCHEMA $S AUTHORIZATION $U")


def extension(host: Host) -> None:
    host.do("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")


def older_index(host: Host) -> None:
    host.do("CREATE SCHEMA $S", *table_statements("bytea")[0])


def older_than_extension(host: Host) -> None:
    extension(host)
    older_index(host)


def index_without_extension(host: Host) -> None:
    drop_extension(host)
    older_index(host)


CREATE = "as an administrator: CREATE EXTENSION vector"
DROP = 'as an administrator: DROP TABLE "ktx_test_'
VECTORS = [
    Situation(drop_extension, "shared:search", "ok", "the first `ktx index` creates the extension"),
    Situation(own_role, "shared:search", "warn", "pgvector is not installed", f"{CREATE}; then: ktx index"),
    Situation(extension, "shared:search", "ok", "pgvector compares vectors"),
    Situation(older_than_extension, "shared:search", "warn", "the index is older than the extension", DROP),
    Situation(index_without_extension, "shared:search", "warn", "pgvector is not installed", f"{CREATE}; DROP TABLE"),
]
EMBEDDINGS = "ingest:\n  embeddings: {backend: model2vec, model: some}\n"


@pytest.mark.parametrize("situation", VECTORS, ids=lambda each: each.name)
def test_what_compares_vectors(
    situation: Situation, tmp_path: Path, vector_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = SharedSchema(vector_postgres)
    monkeypatch.setenv("KTX_STATE_URL", vector_postgres.url())
    with contextlib.closing(Host(tmp_path, schema, monkeypatch)) as host:
        host.settings(EMBEDDINGS, state="sqlite", search="postgres-hybrid")
        situation.arrange(host)
        database, found, missing = host.diagnosis().findings
        assert (database.level, found.level, found.check) == ("ok", situation.level, situation.check)
        assert (missing.check, missing.level, missing.hint) == ("shared:search", "warn", "ktx index")
        assert situation.says in found.message and (found.hint or "").startswith(situation.hint or ""), found
        if found.hint is not None:
            host.do(*found.hint.partition(": ")[2].partition("; then: ")[0].split("; "))
            assert [each.level for each in host.diagnosis().findings] == ["ok", "ok", "warn"]


def test_a_shared_search_without_an_index_says_how_to_create_it(host: Host) -> None:
    host.settings(state="sqlite", search="postgres")
    for arrange in (lambda: None, lambda: host.do("CREATE SCHEMA $S"), lambda: index_of(host, PREFIX, None)):
        arrange()
        missing = host.diagnosis().findings[-1]
        assert (missing.check, missing.level, missing.hint) == ("shared:search", "warn", "ktx index"), missing
        assert missing.message == "this version of ktx has no index yet, so each search reads all files"
    host.layout.root.joinpath("wiki/global").mkdir(parents=True)
    host.layout.root.joinpath("wiki/global/revenue.md").write_text("# Revenue\n")
    assert index_project(host.layout, load_config(host.layout.config).config, os.environ, warn=print).error is None
    assert [each.level for each in host.diagnosis().findings] == ["ok", "ok"]


def test_a_server_without_pgvector(host: Host) -> None:
    host.settings(EMBEDDINGS, state="sqlite", search="postgres")
    host.do("CREATE SCHEMA $S")
    index_of(host, PREFIX, 0)
    assert [each.message for each in host.diagnosis().findings][1:] == [
        "ktx compares vectors in memory; the server has no pgvector"
    ]
    host.settings(state="sqlite", search="postgres")
    assert [each.message for each in host.diagnosis().findings][1:] == ["the index has no vectors"]


@pytest.mark.parametrize(
    ("arrange", "readiness"), [(current, "ok"), (server_down, "fail"), (nothing_shared, None), (reader, "warn")]
)
def test_status_says_whether_the_database_is_usable(
    arrange: Callable[[Host], None], readiness: str | None, host: Host
) -> None:
    arrange(host)
    found = [
        each.level for each in project_status(host.folder, os.environ, fast=True).findings if each.check == "shared"
    ]
    assert found == ([] if readiness is None else [readiness])
