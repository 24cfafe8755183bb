"""The audit log of several servers in one Postgres: one chain, and limits that count what all of them gave."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ktx_cli.core import KtxError
from ktx_cli.jobs.evolve.audit import audited
from ktx_cli.jobs.serve.audit import audit_lines, audit_store, check_chain, last_stored
from ktx_cli.jobs.serve.caller import CallerIdentity, Meter
from ktx_cli.project import AgentClient, Layout, open_for_writing, transaction
from ktx_cli.testing.servers import PostgresServer
from tests.mcp.wire import ktx, made, started
from tests.worlds.shared_schema import SharedSchema

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")


@pytest.fixture
def shared(tmp_path: Path, shared_schema: SharedSchema) -> tuple[list[Layout], str]:
    """Two folders of one project, and the schema that they share."""
    layouts = []
    for name in ("one", "two"):
        made(tmp_path / name)
        config = tmp_path / name / "ktx.yaml"
        config.write_text(config.read_text() + shared_schema.storage())
        layouts.append(Layout(tmp_path / name))
    return layouts, shared_schema.name


def entry(number: int, **more: Any) -> dict[str, Any]:
    return {"at": "2026-01-01T00:00:00Z", "method": "tools/call", "tool": "sl_query", "number": number, **more}


def test_servers_of_several_hosts_append_to_one_chain(shared: tuple[list[Layout], str]) -> None:
    layouts, _ = shared

    def append(layout: Layout, start: int) -> None:
        store = audit_store(layout)
        for number in range(start, start + 20):
            store.append(entry(number, arguments={"note": "a\0b ü"}))
        store.close()

    threads = [threading.Thread(target=append, args=(each, 100 * place)) for place, each in enumerate(layouts)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    for layout in layouts:
        checked = check_chain(layout)
        assert (checked.lines, checked.first, checked.last, checked.broken) == (40, 1, 40, None)
        assert {line["number"] for line in audit_lines(layout)} == {*range(20), *range(100, 120)}
        assert not layout.mcp_audit.exists()
    assert len(list(audited(layouts[0]))) == 40


def test_a_call_does_not_wait_for_what_a_scan_saves(shared: tuple[list[Layout], str]) -> None:
    """Neither its line in the log nor its limits."""
    (one, two), _ = shared
    rights = AgentClient.model_validate({"limits": {"queries_per_hour": 3}})
    meter, store = Meter(two), audit_store(two)
    done: list[int] = []

    def call() -> None:
        meter.admit(CallerIdentity({}, "https://issuer", "ada", "bot", rights), queries=1)
        store.append(entry(len(done)))
        done.append(1)

    call()
    with open_for_writing(one) as scan, transaction(scan):
        calling = threading.Thread(target=call)
        calling.start()
        calling.join(5)
        assert len(done) == 2
    meter.close()
    store.close()
    assert check_chain(one).lines == 2


TAMPERING = {
    "UPDATE audit_lines SET line = replace(line, '\"number\": 3', '\"number\": 9') WHERE seq = 4": "line 4",
    "DELETE FROM audit_lines WHERE seq = 5": "line 6",
    "UPDATE audit_lines SET line = (SELECT line FROM audit_lines WHERE seq = 2) WHERE seq = 7": "line 7",
    "DELETE FROM audit_lines WHERE seq = 1": "line 2",
    "DELETE FROM audit_lines WHERE seq < 8": "line 8",
}


@pytest.mark.parametrize("statements", TAMPERING)
def test_a_change_in_the_database_is_named(
    statements: str, shared: tuple[list[Layout], str], postgres_server: PostgresServer
) -> None:
    (layout, _), schema = shared
    store = audit_store(layout)
    for number in range(8):
        store.append(entry(number))
    store.close()
    with psycopg.connect(postgres_server.url(), autocommit=True, options=f"-csearch_path={schema}") as session:
        session.execute(statements.encode())
    assert check_chain(layout).broken == TAMPERING[statements]
    done = ktx("mcp", "logs", "--audit", "--verify", "--json", folder=layout.root)
    assert done.returncode == 1 and json.loads(done.stdout)["error"]["code"] == "audit_broken"


def test_limits_count_what_servers_of_other_hosts_gave(shared: tuple[list[Layout], str]) -> None:
    rights = AgentClient.model_validate({"limits": {"queries_per_hour": 3}})
    caller = CallerIdentity({}, "https://issuer", "ada", "bot", rights)
    meters = [Meter(each) for each in shared[0]]
    for meter in (meters[0], meters[0], meters[1]):
        meter.admit(caller, queries=1)
    for meter, layout in zip(meters, shared[0], strict=True):
        with pytest.raises(KtxError, match="3 queries per hour"):
            meter.admit(caller, queries=1)
        meter.close()
        assert not layout.mcp_usage.exists()


def test_parallel_calls_of_several_servers_do_not_exceed_a_limit(shared: tuple[list[Layout], str]) -> None:
    """Neither queries, which are counted before, nor rows, which are counted after them."""
    rights = AgentClient.model_validate({"limits": {"queries_per_hour": 30, "rows_per_hour": 100}})
    caller = CallerIdentity({}, "https://issuer", "ada", "bot", rights)
    meters = [Meter(each) for each in shared[0]]

    def ask(meter: Meter) -> tuple[int, int]:
        """Ask for 7 rows at a time; returns how many queries were admitted, and how many rows were given."""
        queries = rows = 0
        for _ in range(10):
            with contextlib.suppress(KtxError):
                meter.admit(caller, queries=1)
                queries += 1
                counted, error = meter.settle(caller, rows=7)
                rows += counted.rows if error is None else 0
        return queries, rows

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(ask, meters * 4))
    for meter in meters:
        meter.close()
    assert sum(rows for _, rows in taken) == 98
    assert 15 <= sum(queries for queries, _ in taken) <= 30


def test_calls_of_two_servers_are_in_the_log_of_each(shared: tuple[list[Layout], str]) -> None:
    (one, two), _ = shared
    for layout in (one, two):
        with started(layout.root) as wire:
            wire.initialize()
            wire.call("sl_query", {"measures": ["orders.revenue"]})
    shown = json.loads(ktx("mcp", "logs", "--audit", "--json", folder=two.root).stdout)["data"]
    tools = [json.loads(line).get("tool") for line in shown["lines"]]
    assert tools.count("sl_query") == 2 and shown["path"] is None
    assert last_stored(one, 1) == shown["lines"][-1:]
    assert json.loads(ktx("mcp", "logs", "--audit", "--verify", "--json", folder=one.root).stdout)["ok"]
