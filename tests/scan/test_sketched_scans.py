"""Scans of tables that are too large to join: the sketches decide, and are asked for again only if a table changed."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.scan.profile import profiler
from ktx_cli.scan.profile.answers import decoded
from ktx_cli.scan.relationships import row_checks
from ktx_cli.scan.relationships.record import Relationship, Status, read_record
from ktx_cli.scan.relationships.sketches import SketchReader
from ktx_cli.testing.servers import RecordingPostgresServer
from ktx_cli.warehouses import base
from ktx_cli.warehouses.postgres.connector import PostgresConnector
from tests.cli.agents import git
from tests.scan.test_nightly import World, postgres_world

ORDERS, CUSTOMERS, PRODUCTS = 40_000, 15_000, 12_000


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SETTLED_SECONDS", -60.0)
    monkeypatch.setattr(row_checks, "EXACT_ROWS", 10_000)


def creations(orphans: str = "false", label: str = "'c' || n AS label") -> list[str]:
    """Return the statements. `orphans`: the orders `n` whose product does not exist."""
    product = f"CASE WHEN {orphans} THEN 5000 + {PRODUCTS} + n ELSE 1 + n::bigint * 7919 % {PRODUCTS} END"
    columns = f"n + 700000 AS order_id, 1 + n::bigint * 104729 % {CUSTOMERS} AS customer_id, {product} AS product_id"
    rows = "FROM generate_series(1, {}) AS s(n)".format
    return [
        f"CREATE TABLE customers AS SELECT n AS customer_id, {label} {rows(CUSTOMERS)}",
        f"CREATE TABLE products AS SELECT n AS product_id, 'p' || n AS label {rows(PRODUCTS)}",
        f"CREATE TABLE orders AS SELECT {columns} {rows(ORDERS)}",
        "ANALYZE",
    ]


def relationships(world: World) -> dict[str, Relationship]:
    (path,) = (world.project / "raw-sources").rglob("relationships.json")
    record = read_record(path.read_bytes(), "here")
    return {".".join((each.child.name, *each.child_columns)): each for each in record.relationships}


def new_world(tmp_path: Path, server: RecordingPostgresServer) -> World:
    tmp_path.mkdir(exist_ok=True)
    return postgres_world(tmp_path, server, f"sketched_{random.randrange(10**9)}")


def sketched(server: RecordingPostgresServer, since: int) -> list[str]:
    """Return the tables of the sketches that the server was asked for, one for each statement."""
    lines = [
        line for line in server.log[since:].splitlines() if "LOG:  execute" in line and "hashtextextended(" in line
    ]
    return sorted(re.findall(r'FROM "public"\."(\w+)"', line)[0] for line in lines)


def unsampled_orders(tmp_path: Path, server: RecordingPostgresServer, patch: pytest.MonkeyPatch) -> str:
    """Return the condition for a third of the orders `n`, none of which is in the sample of a table of this size."""
    seen: dict[str, list[int]] = {}
    count = profiler.count_sample

    def counted(table: Any, sample: Any, *rest: Any) -> Any:
        if table.ref.name == "orders":
            seen["orders"] = [int(number) for number in sample.values[0]]
        return count(table, sample, *rest)

    world = new_world(tmp_path / "first", server)
    world.change(*creations())
    with patch.context() as within:
        within.setattr(profiler, "count_sample", counted)
        world.scan()
    listed = ", ".join(str(number - 700_000) for number in seen["orders"])
    assert 1000 < len(seen["orders"]) < ORDERS
    return f"n % 3 = 0 AND n NOT IN ({listed})"


def test_sketches_refuse_what_a_sample_alone_accepts(
    tmp_path: Path, recording_postgres: RecordingPostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphans = unsampled_orders(tmp_path, recording_postgres, monkeypatch)
    world = new_world(tmp_path / "second", recording_postgres)
    world.change(*creations(orphans))
    with monkeypatch.context() as patch:
        patch.setattr(SketchReader, "can_compare", lambda *arguments: False)
        other = World(shutil.copytree(world.project, tmp_path / "by_sample"), world.change)
        other.scan()
    by_sample = relationships(other)
    assert {each.status for each in by_sample.values()} == {Status.ACCEPTED}
    assert "all sampled values exist" in by_sample["orders.product_id"].reason

    since = len(recording_postgres.log)
    world.scan()
    found = relationships(world)
    true, wrong = found["orders.customer_id"], found["orders.product_id"]
    assert (true.status, wrong.status) == (Status.ACCEPTED, Status.REVIEW)
    assert "all sketched values exist in `public.customers.customer_id`" in true.reason
    match = re.search(r"; ([\d.]+)% of sketched rows have a match in `public.products.product_id`", wrong.reason)
    assert match is not None
    assert float(match[1]) == pytest.approx(75, abs=6)
    assert set(sketched(recording_postgres, since)) == {"customers", "orders", "products"}


def test_only_a_changed_table_is_sketched_again(tmp_path: Path, recording_postgres: RecordingPostgresServer) -> None:
    world = new_world(tmp_path, recording_postgres)
    world.change(*creations())
    world.scan()
    before = relationships(world)
    assert {each.status for each in before.values()} == {Status.ACCEPTED}

    since = len(recording_postgres.log)
    world.scan()
    assert sketched(recording_postgres, since) == []

    world.change("UPDATE orders SET product_id = 1 + (order_id * 31) % 12000", "ANALYZE")
    since = len(recording_postgres.log)
    world.scan()
    assert set(sketched(recording_postgres, since)) == {"orders"}
    assert relationships(world) == before


def test_what_took_too_long_for_one_statement_is_not_tried_again(
    tmp_path: Path, recording_postgres: RecordingPostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = PostgresConnector.query

    def slow(self: PostgresConnector, sql: str, *rest: Any, **options: Any) -> Any:
        if "hashtext" in sql and "UNION ALL" in sql:
            raise SourceError("shop: stopped after 30 seconds", code="timeout")
        return query(self, sql, *rest, **options)

    world = new_world(tmp_path, recording_postgres)
    world.change(*creations())
    with monkeypatch.context() as patch:
        patch.setattr(PostgresConnector, "query", slow)
        world.scan()
    assert {each.status for each in relationships(world).values()} == {Status.ACCEPTED}
    world.change("UPDATE products SET label = 'x' || label", "ANALYZE")
    since = len(recording_postgres.log)
    world.scan()
    assert set(sketched(recording_postgres, since)) == {"products"}


def test_sketches_are_kept_under_the_rules_for_values(
    tmp_path: Path, recording_postgres: RecordingPostgresServer
) -> None:
    world = new_world(tmp_path, recording_postgres)
    world.change(*creations(label="'ada.lovelace' || n || '@example.com' AS email"))
    world.scan()
    assert "all sketched values" in relationships(world)["orders.customer_id"].reason
    with contextlib.closing(sqlite3.connect(world.project / ".ktx" / "state.sqlite")) as database:
        answers = [decoded(content) for (content,) in database.execute("SELECT answer FROM scan_answers")]
    kept = [answer for answer in answers if "filled" in answer.columns]
    assert {int(row[3]) for answer in kept for row in answer.rows} == {ORDERS, PRODUCTS}, "customers are personal data"
    hashes = {str(row[1]).encode() for answer in kept for row in answer.rows if row[1]}
    assert len(hashes) > 1000
    committed = b"".join(git(world.project, "show", f"HEAD:{path}").encode() for path in paths(world.project))
    assert b"sketched" in committed
    assert not [each for each in hashes if each in committed]


def paths(project: Path) -> list[str]:
    return git(project, "ls-files").splitlines()
