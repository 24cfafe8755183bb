"""What `ktx doctor` makes of a connection that answers."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from ktx_cli.jobs import connections
from ktx_cli.jobs.health.doctor import diagnose
from ktx_cli.jobs.health.model import Level
from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.port import ConnectionTest, TableRef

CONFIG = "connections:\n  pg:\n    driver: postgres\n    url: env:PG_URL\n"
A, B = TableRef("public", "a"), TableRef("public", "b")


@pytest.mark.parametrize(
    ("more", "tables", "closed", "can_write", "level", "says"),
    [
        ("", 2, (), False, Level.OK, "2 tables"),
        ("", 2, (A,), False, Level.OK, "without SELECT on 1 of them"),
        ("", 2, (), True, Level.WARN, "has write access"),
        ("", 2, (A, B), False, Level.WARN, "any table in scope: `public.a`, `public.b`"),
        ("", 0, (), False, Level.WARN, "no tables to read"),
        ("    enabled_tables: [a, b]\n", 2, (A,), False, Level.WARN, "`public.a`"),
        ("    enabled_tables: [a, b]\n", 2, (A, B), False, Level.FAIL, "any table in scope"),
        ("    enabled_tables: [a]\n", 0, (), False, Level.FAIL, "no tables to read"),
    ],
)
def test_levels(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: str,
    tables: int,
    closed: tuple[TableRef, ...],
    can_write: bool,
    level: Level,
    says: str,
) -> None:
    (tmp_path / "ktx.yaml").write_text(CONFIG + more)
    test = ConnectionTest(1.0, "PostgreSQL 16", tables, can_write=can_write, user="reader", closed=closed)
    monkeypatch.setattr(connections, "probe_connection", lambda *_, **__: test)
    (finding,) = diagnose(tmp_path, {"PG_URL": "postgresql://x"}, only=["connections"])
    assert finding.level is level
    assert says in finding.message
    assert (finding.hint is None) is (level is Level.OK)


@pytest.mark.parametrize("fact", ["superuser", "pg_execute_server_program", "pg_read_server_files"])
def test_a_role_that_can_leave_its_session_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fact: str) -> None:
    (tmp_path / "ktx.yaml").write_text(CONFIG)
    test = ConnectionTest(1.0, "PostgreSQL 16", 2, can_write=True, user="root", privileges=("SELECT on 2", fact))
    monkeypatch.setattr(connections, "probe_connection", lambda *_, **__: test)
    (finding,) = diagnose(tmp_path, {"PG_URL": "postgresql://x"}, only=["connections"])
    assert finding.level is Level.FAIL
    assert fact in finding.message
    assert finding.hint == (
        "as an administrator: CREATE ROLE ktx_reader LOGIN PASSWORD '...'; GRANT pg_read_all_data TO ktx_reader; "
        "then: export PG_URL=..."
    )


@pytest.mark.postgres
def test_the_superuser_of_a_server_fails(tmp_path: Path, postgres_server: PostgresServer) -> None:
    (tmp_path / "ktx.yaml").write_text(CONFIG)
    (finding,) = diagnose(tmp_path, {"PG_URL": postgres_server.url()}, only=["connections"])
    assert finding.level is Level.FAIL
    assert "a superuser, so it can leave a read-only session" in finding.message


@pytest.mark.postgres
def test_the_grant_it_names_is_the_one_that_helps(tmp_path: Path, postgres_server: PostgresServer) -> None:
    name = f"Grant-{uuid.uuid4().hex[:8]}"
    postgres_server.create_database(
        name, 'CREATE TABLE a (id integer); CREATE SCHEMA "My Schema"; CREATE TABLE "My Schema".b (id integer)'
    )
    postgres_server.execute(
        f"""CREATE ROLE "{name}" LOGIN PASSWORD 'x'""",
        f'REVOKE CREATE ON SCHEMA public FROM PUBLIC, "{name}"',
        database=name,
    )
    (tmp_path / "ktx.yaml").write_text(CONFIG)
    environ = {"PG_URL": postgres_server.url(name, user=name, password="x")}
    (finding,) = diagnose(tmp_path, environ, only=["connections"])
    assert finding.level is Level.WARN
    postgres_server.execute((finding.hint or "").partition(": ")[2], database=name)
    (finding,) = diagnose(tmp_path, environ, only=["connections"])
    assert finding.level is Level.OK, finding
