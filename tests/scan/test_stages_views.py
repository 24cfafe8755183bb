"""Views of a server are not read in a whole run, by nobody, unless `scan.views` asks for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.scan.stages import Depth
from ktx_cli.testing.servers import PostgresServer

VIEWS = (
    "CREATE SCHEMA store",
    "CREATE SCHEMA mart",
    "CREATE TABLE store.customers AS SELECT i AS id, 'c' || i AS name FROM generate_series(1, 50) AS i",
    "CREATE TABLE store.orders AS SELECT i AS id, 1 + i % 50 AS customer_id FROM generate_series(1, 200) AS i",
    "CREATE VIEW mart.customers AS SELECT * FROM store.customers",
    "CREATE VIEW mart.orders AS SELECT * FROM store.orders",
    "CREATE MATERIALIZED VIEW store.counted AS SELECT count(*) AS n FROM store.orders",
)


@pytest.mark.postgres
@pytest.mark.parametrize("views", ["local", "always"])
@pytest.mark.parametrize("schemas", ["[mart]", "[mart, store]"])
def test_views_of_a_server_are_left_alone_unless_asked_for(
    views: str, schemas: str, tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    name = f"views_{views}_{len(schemas)}"
    url = postgres_server.create_database(name, *VIEWS)
    config = f"connections: {{shop: {{driver: postgres, url: 'env:SHOP_URL', schemas: {schemas}}}}}"
    (tmp_path / "ktx.yaml").write_text(f"{config}\nscan: {{views: {views}}}\n")
    offset = len(postgres_server.log)
    environ = {**os.environ, "SHOP_URL": url}
    report, warnings = ingest(IngestRequest(tmp_path, environ, depth=Depth.PROFILE, dry_run=True))
    log = postgres_server.log[offset:]
    assert ('FROM "mart"."customers"' in log, 'FROM "mart"."orders"' in log) == (views == "always",) * 2
    stored = ('FROM "store"."orders"' in log, 'FROM "store"."counted"' in log)
    assert stored == ("store" in schemas,) * 2, "tables and materialized views are read"
    assert [(each.code, each.details.get("views")) for each in warnings] == (
        [("views_not_read", 2)] if views == "local" else []
    )
    relationships = report.connections[0].relationships
    assert relationships is not None
    if schemas == "[mart]":
        assert relationships["accepted" if views == "always" else "review"] == 1
