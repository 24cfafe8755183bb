"""`pg_stat_statements` of a real server: what it keeps, who may see it, what is missing; and the whole source on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ktx_cli.core.errors import CancelledError
from ktx_cli.documents.raw import Changes
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.sources.port import FetchContext, ProjectContext
from ktx_cli.sources.query_history import readers
from ktx_cli.sources.query_history.model import (
    Coverage,
    HistoryExtensionError,
    HistoryGrantError,
    HistoryUnavailableError,
    HistoryVersionError,
)
from ktx_cli.sources.query_history.source import QueryHistorySource
from ktx_cli.testing.servers import PostgresServer, RecordingPostgresServer
from ktx_cli.warehouses.port import ConnectionSpec, Scope
from ktx_cli.warehouses.postgres import PostgresConnection
from ktx_cli.warehouses.postgres.connector import PostgresConnector
from ktx_cli.warehouses.registry import connect

pytestmark = pytest.mark.postgres

FUTURE = timedelta(days=100)
TABLES = (
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int, region_id int, status text, total int, created_at date)",
    "CREATE TABLE customers (id int PRIMARY KEY, name text, country text)",
    "CREATE TABLE regions (region_id int PRIMARY KEY, label text)",
    "CREATE SCHEMA archive",
    "CREATE TABLE archive.orders (id int PRIMARY KEY, total int)",
)
CANARY = "kanarie-4711"
ASKED = (
    f"SELECT c.name, sum(o.total) FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.status = '{CANARY}' "
    "AND o.created_at > date '2024-01-01' GROUP BY c.name LIMIT 10",
    f"SELECT total FROM orders WHERE status IN ('{CANARY}', 'b') -- for {CANARY}",
)


Opens = Callable[..., PostgresConnector]


@pytest.fixture
def opens() -> Iterator[Opens]:
    opened: list[PostgresConnector] = []

    def make(url: str) -> PostgresConnector:
        opened.append(PostgresConnector(ConnectionSpec("shop", "postgres", {"url": url})))
        return opened[-1]

    yield make
    for connector in opened:
        connector.close()


def read(connector: PostgresConnector, **options: Any) -> Any:
    now = datetime.now(UTC) + FUTURE
    return readers.read_postgres(connector, "shop", **{"window_days": 90, "now": now, **options})


def test_statements_are_read_with_users_and_counts(recording_postgres: RecordingPostgresServer, opens: Opens) -> None:
    url = recording_postgres.create_database("counts", "CREATE EXTENSION pg_stat_statements", *TABLES)
    for _ in range(3):
        recording_postgres.execute(*ASKED, database="counts")
    opens(url).query("SELECT total FROM public.orders WHERE id = 5")
    history = read(opens(url))
    found = {each.text: each for each in history if "orders" in each.text and each.text.startswith("SELECT")}
    assert {(each.executions, each.user, each.rows) for each in found.values()} == {(3, "postgres", 0)}
    assert len(found) == 2
    assert all(each.mean_ms is not None and each.mean_ms >= 0 for each in found.values())
    assert [each.text for each in history if each.text.startswith("/* ktx */ SELECT total")]
    assert (history.origin, history.coverage, history.unread) == ("pg_stat_statements", Coverage.ALL, 0)


def test_absence_counts_from_the_last_reset(recording_postgres: RecordingPostgresServer, opens: Opens) -> None:
    url = recording_postgres.create_database("young", "CREATE EXTENSION pg_stat_statements")
    assert read(opens(url), now=datetime.now(UTC) + timedelta(days=89)).coverage is Coverage.PART
    assert read(opens(url), now=datetime.now(UTC) + timedelta(days=91)).coverage is Coverage.ALL


def test_other_databases_of_the_server_are_not_read(recording_postgres: RecordingPostgresServer, opens: Opens) -> None:
    recording_postgres.create_database("neighbour", "CREATE TABLE secret_plans (id int)", "SELECT * FROM secret_plans")
    url = recording_postgres.create_database("alone", "CREATE EXTENSION pg_stat_statements")
    assert not [each for each in read(opens(url)) if "secret_plans" in each.text]


def test_an_extension_in_a_schema_of_its_own_is_found(
    recording_postgres: RecordingPostgresServer, opens: Opens
) -> None:
    schema = 'CREATE SCHEMA "Odd ""one"""'
    url = recording_postgres.create_database("odd", schema, 'CREATE EXTENSION pg_stat_statements SCHEMA "Odd ""one"""')
    assert len(read(opens(url)).observations) > 0


def test_without_the_extension(recording_postgres: RecordingPostgresServer, opens: Opens) -> None:
    with pytest.raises(HistoryExtensionError) as caught:
        read(opens(recording_postgres.create_database("bare")))
    assert caught.value.message.endswith("the database bare does not have the extension pg_stat_statements")
    assert (caught.value.hint or "").startswith("run as the database owner: CREATE EXTENSION pg_stat_statements (")


def test_an_extension_the_server_has_not_loaded(postgres_server: PostgresServer, opens: Opens) -> None:
    url = postgres_server.create_database("not_loaded", "CREATE EXTENSION pg_stat_statements")
    with pytest.raises(HistoryExtensionError) as caught:
        read(opens(url))
    assert "has not loaded" in caught.value.message
    assert "shared_preload_libraries" in (caught.value.hint or "")


def test_an_extension_that_was_not_updated(recording_postgres: RecordingPostgresServer, opens: Opens) -> None:
    url = recording_postgres.create_database("outdated", "CREATE EXTENSION pg_stat_statements VERSION '1.8'")
    with pytest.raises(HistoryVersionError) as caught:
        read(opens(url))
    assert caught.value.hint == "run as the database owner: ALTER EXTENSION pg_stat_statements UPDATE"
    recording_postgres.execute("ALTER EXTENSION pg_stat_statements UPDATE", database="outdated")
    read(opens(url))


def test_a_user_who_sees_only_his_own(recording_postgres: RecordingPostgresServer, opens: Opens) -> None:
    recording_postgres.create_database("closed", "CREATE EXTENSION pg_stat_statements", *TABLES)
    recording_postgres.execute('CREATE ROLE "Re""ader" LOGIN PASSWORD \'x\'')
    url = recording_postgres.url("closed", "Re%22ader", "x")
    with pytest.raises(HistoryGrantError) as caught:
        read(opens(url))
    assert caught.value.hint == 'run as a superuser: GRANT pg_read_all_stats TO "Re""ader"'
    recording_postgres.execute((caught.value.hint or "").partition(": ")[2])
    assert [each for each in read(opens(url)) if each.user == "postgres"]


def test_an_old_server_is_refused_before_it_is_read() -> None:
    class Old:
        def query(self, sql: str, *rest: Any, **options: Any) -> Any:
            from ktx_cli.warehouses.port import QueryResult

            return QueryResult((), ((130_011, "13.11", "ada", "shop", True, "public", "1.8", "top", 5000),))

    with pytest.raises(HistoryVersionError, match=r"PostgreSQL 13\.11") as caught:
        read(Old())  # type: ignore[arg-type]
    assert isinstance(caught.value, HistoryUnavailableError)


def test_a_server_that_records_nothing_says_so(recording_postgres: RecordingPostgresServer, opens: Opens) -> None:
    url = recording_postgres.create_database("untracked", "CREATE EXTENSION pg_stat_statements")
    recording_postgres.execute("ALTER DATABASE untracked SET pg_stat_statements.track = 'none'")
    history = read(opens(url))
    assert [each.code for each in history.warnings] == ["query_history_not_tracked"]
    assert history.coverage is Coverage.PART


def test_the_whole_way(
    recording_postgres: RecordingPostgresServer, fetch_context: Callable[..., FetchContext], workspace: Workspace
) -> None:
    """From a server to files, to the manifest and to units; the second run finds nothing changed."""
    url = recording_postgres.create_database("whole", "CREATE EXTENSION pg_stat_statements", *TABLES)
    for _ in range(6):
        recording_postgres.execute(*ASKED, database="whole")
    with connect(ConnectionSpec("shop", "postgres", {"url": url})) as connector:
        connector.introspect(Scope())  # whose statements are then in the history too
    entry = PostgresConnection.model_validate(
        {"driver": "postgres", "url": url, "context": {"queryHistory": {"enabled": True}}}
    )
    model = load_tree(workspace, "shop", "postgres")
    source = QueryHistorySource(
        model, lambda: connect(ConnectionSpec("shop", "postgres", {"url": url})), lambda: datetime.now(UTC) + FUTURE
    )
    context = fetch_context(connection="shop")
    snapshot = source.fetch(entry, context)
    assert snapshot.complete
    names = [json.loads(file.read())["table"] for path, file in snapshot.files.items() if path.startswith("tables/")]
    assert sorted(names) == ["public.customers", "public.orders"]
    assert not [path for path, file in snapshot.files.items() if b"4711" in file.read() or b"ktx" in file.read()]

    projection = source.project(entry, snapshot, ProjectContext("shop", workspace, {"shop": model}))
    text = workspace.read_text("semantic-layer/shop/_schema/public.yaml") or ""
    assert "status = ?" in text
    assert "frequencyTier: unused" in text
    assert [item.target for item in projection.report] == ["customers.usage", "orders.usage"]
    assert projection.left == (
        "narratives about the use of 2 tables",
        "wiki pages for the questions in 1 pattern files",
    )

    changes = Changes(added=tuple(snapshot.files))
    units = source.units(entry, snapshot, changes, projection)
    assert [unit.label.partition(" patterns")[0] for unit in units] == ["query", "public.customers", "public.orders"]
    assert all(not unit.semantic and len(unit.files) == 1 for unit in units)

    recording_postgres.execute(*ASKED, database="whole")
    again = source.fetch(entry, context)
    assert {path: file.sha256 for path, file in again.files.items()} == {
        path: file.sha256 for path, file in snapshot.files.items()
    }
    with pytest.raises(CancelledError):
        source.fetch(entry, fetch_context(connection="shop", stopped=lambda: True))

    place = context.layout.root / "semantic-layer/shop/_schema/public.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(text, "utf-8")
    alone = QueryHistorySource(clock=source.clock).fetch(entry, context)
    assert {path: file.sha256 for path, file in alone.files.items()} == {
        path: file.sha256 for path, file in snapshot.files.items()
    }
