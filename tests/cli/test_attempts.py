"""A connection that was refused is not in ktx.yaml: the hint is the command again, with the flag that was wrong."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.servers import MariaDBServer, PostgresServer

Run = Callable[..., Any]

AGAIN = "ktx connection add"
ADD: list[tuple[str, int, str]] = [
    # what was typed behind `ktx connection add`, exit code, the whole hint
    ("c --driver sqlite --path no.sqlite", 4, "ktx connection add c --driver sqlite --path PATH"),
    ("c --driver sqlite --path .", 4, "ktx connection add c --driver sqlite --path PATH"),
    ("c --driver files --path none --include 'a b'", 4, f"{AGAIN} c --driver files --path FOLDER --include 'a b'"),
    ("c --driver duckdb --path shop.sqlite", 4, "ktx connection add c --driver sqlite --path shop.sqlite"),
    ("c --driver sqlite --path :memory:", 2, "ktx connection add c --driver sqlite --path PATH"),
    ("c --driver sqlite", 2, "ktx connection add c --driver sqlite --path PATH"),
    ("c --driver files", 2, "ktx connection add c --driver files --path PATH"),
    ("c --driver postgres", 2, "ktx connection add c --driver postgres --url URL"),
    ("c --driver postgre --url env:X", 2, "ktx connection add c --driver postgres --url env:X"),
    (
        "c --driver mysql --set host=localhost --set port=70000 --set password=hunter2",
        2,
        f"for example 3306: {AGAIN} c --driver mysql --host localhost --port PORT --password env:NAME",
    ),
    (
        "c --driver postgres --set host=127.0.0.1 --set port=1 --include a --include b",
        4,
        "start the server, or check --host and --port, then: ktx connection add c --driver postgres"
        " --include a --include b --host HOST --port PORT",
    ),
    (
        "c --driver postgres --url postgres://u:hunter2@127.0.0.1:1/x --set 'schemas=[a, b]'",
        4,
        "start the server, or check the host and the port in --url, then: ktx connection add c --driver postgres"
        " --url URL --set 'schemas=[a, b]'",
    ),
    ("list --driver sqlite --path s", 2, f"use another id: {AGAIN} list-db --driver sqlite --path s"),
    ("../x --driver sqlite --path s", 2, f"use another id: {AGAIN} x --driver sqlite --path s"),
    ("/ --driver sqlite --path s", 2, f"use another id: {AGAIN} warehouse --driver sqlite --path s"),
    ("warehouse --driver sqlite --path x", 2, "change it with ktx config set connections.warehouse.KEY VALUE"),
    ("Warehouse --driver sqlite --path x", 2, "choose another id, for example `Warehouse-2`"),
    ("c --driver postgres --url env:NOT_SET", 2, "export NOT_SET=..."),
    ("c --driver dbt --path none", 2, "ktx connection add c --driver dbt --set source_dir=none"),
    ("c --driver dbt --url https://a.b/c", 2, "ktx connection add c --driver dbt --set repo_url=https://a.b/c"),
    ("c --driver dbt --set repoUrl=/no", 2, "ktx connection add c --driver dbt --set repo_url=/no"),
    ("c --driver dbt", 2, "ktx connection add c --driver dbt --set source_dir=SOURCE_DIR"),
    ("c --driver lookml --set repo_url=/no", 2, "ktx connection add c --driver lookml --set repoUrl=/no"),
    ("c --driver lookml --path x", 2, "ktx connection add c --driver lookml --path x --set repoUrl=REPO_URL"),
    ("c --driver metricflow --set repo_url=/no", 2, f"{AGAIN} c --driver metricflow --set metricflow.repoUrl=/no"),
    (
        "c --driver metricflow --set metricflow.repo_url=/no --set branch=main",
        2,
        f"{AGAIN} c --driver metricflow --set metricflow.repoUrl=/no --set metricflow.branch=main",
    ),
    (
        "c --driver metricflow --set metricflow.repoUrl=/no/such",
        4,
        "correct --set metricflow.repoUrl, then: ktx connection add c --driver metricflow"
        " --set metricflow.repoUrl=REPO_URL",
    ),
    ("c --driver metabase --url https://a.b", 2, "ktx connection add c --driver metabase --set api_url=https://a.b"),
    (
        "c --driver looker --set baseUrl=https://a.b",
        2,
        "ktx connection add c --driver looker --set base_url=https://a.b --set client_id=CLIENT_ID",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "code", "hint"), ADD, ids=[row[0] for row in ADD])
def test_add(ktx: Run, project: Path, typed: str, code: int, hint: str) -> None:
    before = (project / "ktx.yaml").read_bytes()
    answer = ktx("connection", "add", *shlex.split(typed), "--json")
    error = answer.envelope["error"]
    assert (answer.code, error["hint"]) == (code, hint)
    assert "hunter2" not in answer.out + answer.err
    assert "ktx.yaml:" not in error["message"], "the line would be of a file that was never written"
    assert all(issue["line"] is None for issue in error["details"].get("issues", ()))
    assert (project / "ktx.yaml").read_bytes() == before


def test_an_id_taken_by_a_subcommand_is_said_to_be(ktx: Run, project: Path) -> None:
    message = ktx("connection", "add", "list", "--driver", "sqlite", "--path", "x", "--json").envelope["error"][
        "message"
    ]
    assert message == "`connections.list` is a subcommand of ktx, so it cannot be used as an id"


def test_the_hint_of_add_works(ktx: Run, project: Path) -> None:
    hint = ktx("connection", "add", "c", "--driver", "duckdb", "--path", "shop.sqlite", "--json").envelope["error"][
        "hint"
    ]
    assert ktx(*shlex.split(hint)[1:]).code == 0
    assert ktx("connection", "test", "c").code == 0


@pytest.mark.parametrize(
    "typed",
    [
        "--driver dbt --path transform",
        "--driver dbt --set sourceDir=transform",
        "--driver dbt --url {project}",
        "--driver lookml --set repo_url={project}",
        "--driver metricflow --set metricflow.repo_url={project}",
    ],
)
def test_a_setting_by_a_wrong_name_is_saved_by_the_command_of_the_hint(ktx: Run, project: Path, typed: str) -> None:
    (project / "transform").mkdir()
    (project / "transform/dbt_project.yml").write_text("name: shop\n")
    words = shlex.split(typed.format(project=shlex.quote(str(project))))
    refused = ktx("connection", "add", "c", *words, "--json")
    assert refused.code == 2, refused
    saved = ktx(*shlex.split(refused.envelope["error"]["hint"])[1:], "--json")
    assert (saved.code, saved.envelope["warnings"]) == (0, []), saved


def test_the_project_named_by_a_flag_is_named_again(ktx: Run, project: Path) -> None:
    answer = ktx(
        "connection", "add", "c", "--driver", "sqlite", "--path", "no", "--project-dir", str(project), "--json"
    )
    expected = f"ktx connection add --project-dir {shlex.quote(str(project))} c --driver sqlite --path PATH"
    assert answer.envelope["error"]["hint"] == expected


SETUP: list[tuple[str, int, str]] = [
    ("--database sqlite --database-path no.sqlite", 4, "ktx setup --database sqlite --database-path PATH"),
    (
        "--llm-backend none --database files --database-path none --database-connection-id z --exclude x",
        4,
        "ktx setup --llm-backend none --database-connection-id z --database files --database-path FOLDER --exclude x",
    ),
    (
        "--database sqlite --database-path shop.sqlite --database-connection-id list",
        2,
        "use another id: ktx setup --database-connection-id list-db --database sqlite --database-path shop.sqlite",
    ),
    ("--database postgres", 2, "ktx setup --database postgres --database-url URL"),
]


@pytest.mark.parametrize(("typed", "code", "hint"), SETUP, ids=[row[0] for row in SETUP])
def test_setup(ktx: Run, shop: Path, typed: str, code: int, hint: str) -> None:
    answer = ktx("setup", "--no-input", *shlex.split(typed), "--json")
    assert (answer.code, answer.envelope["error"]["hint"]) == (code, hint)
    assert not (shop.parent / "ktx.yaml").exists()


def check(ktx: Run, project: Path, fields: str, hint: str) -> None:
    (project / "ktx.yaml").write_text(f"connections:\n  w: {{{fields}}}\n")
    answer = ktx("connection", "test", "w", "--json")
    assert (answer.code, answer.envelope["error"]["hint"]) == (4, hint)
    assert "hunter2" not in answer.out + answer.err


@pytest.mark.postgres
def test_a_wrong_password_for_postgres(
    ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer
) -> None:
    monkeypatch.setenv("WRONG", postgres_server.url(password="hunter2"))
    in_url = "check the username and the password in connections.w.url"
    check(ktx, project, "driver: postgres, url: env:WRONG", in_url)
    check(ktx, project, f"driver: postgres, url: '{postgres_server.url(password='hunter2')}'", in_url)
    parts = f"driver: postgres, host: 127.0.0.1, port: {postgres_server.port}, user: postgres, password: hunter2"
    check(ktx, project, parts, "check connections.w.user and connections.w.password")


@pytest.mark.mysql
def test_a_wrong_password_for_mysql(
    ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch, mariadb_server: MariaDBServer
) -> None:
    monkeypatch.setenv("WRONG", mariadb_server.url(password="hunter2"))
    check(ktx, project, "driver: mysql, url: env:WRONG", "check the username and the password in connections.w.url")
