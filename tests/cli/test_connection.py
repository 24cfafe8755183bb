from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.forks import Forks

Run = Callable[..., Any]


def test_list(ktx: Run, project: Path) -> None:
    assert ktx("connection", "list", "--plain").out == (
        "id\tdriver\tkind\ttested on\tlast read\nwarehouse\tsqlite\tdatabase\treal database\tnever\n"
    )
    (listed,) = ktx("connection", "list", "--json").data["connections"]
    assert listed["verified"] == "real"


def test_test_says_version_latency_and_privileges(ktx: Run, project: Path) -> None:
    (found,) = ktx("connection", "test", "--json").data["connections"]
    assert found["ok"] is True
    assert found["tables"] == 3
    assert found["latency_ms"] >= 0
    assert "SQLite" in found["server_version"]


def test_test_ends_with_4_when_one_is_unreachable(ktx: Run, project: Path) -> None:
    (project / "shop.sqlite").unlink()
    answer = ktx("connection", "test", "warehouse", "--json")
    assert answer.code == 4
    assert answer.data["connections"][0]["error"]["code"] == "connection"
    assert not (project / "shop.sqlite").exists()


def test_test_of_an_unknown_id(ktx: Run, project: Path) -> None:
    answer = ktx("connection", "test", "warehous", "--json")
    assert answer.code == 2
    assert "`warehouse`" in answer.envelope["error"]["hint"]


def test_add_tests_first_and_keeps_the_file(ktx: Run, project: Path) -> None:
    config = project / "ktx.yaml"
    before = "# a comment\r\n" + config.read_text().replace("\n", "\r\n")
    config.write_bytes(before.encode())
    assert ktx("connection", "add", "copy", "--driver", "sqlite", "--path", "none.sqlite").code == 4
    assert config.read_bytes() == before.encode()
    answer = ktx("connection", "add", "copy", "--driver", "sqlite", "--path", "shop.sqlite", "--json")
    assert answer.code == 0
    assert answer.data == {"id": "copy", "tested": True, "tables": 3}
    assert config.read_bytes().startswith(before.encode())
    assert b"\n  copy:\r\n    driver: sqlite\r\n" in config.read_bytes()


@pytest.mark.parametrize("bad", ["warehouse", "../evil", "list", "a b", ""])
def test_add_refuses_ids(ktx: Run, project: Path, bad: str) -> None:
    before = (project / "ktx.yaml").read_bytes()
    assert ktx("connection", "add", bad, "--driver", "sqlite", "--path", "shop.sqlite").code == 2
    assert (project / "ktx.yaml").read_bytes() == before


@pytest.mark.usefixtures("project")
def test_the_help_of_add_lists_all_drivers(ktx: Run) -> None:
    refused = ktx("connection", "add", "x", "--driver", "nope").err
    listed = " ".join(ktx("connection", "add", "--help").out.split())
    (names,) = re.findall(r"drivers: (.*?):", refused)
    shown = re.findall(r"Drivers of (?:databases|context sources): (.*?)\.", listed)
    assert ", ".join(shown) == names


def test_add_takes_any_field(ktx: Run, project: Path) -> None:
    args = ("--driver", "postgres", "--set", "host=localhost", "--set", "port=5433", "--set", "schemas=[a, b]")
    assert ktx("connection", "add", "pg", *args, "--no-test").code == 0
    shown = ktx("config", "get", "connections.pg", "--json").data["value"]
    assert (shown["host"], shown["port"], shown["schemas"]) == ("localhost", 5433, ["a", "b"])
    assert ktx("connection", "add", "x", "--driver", "postgres", "--set", "nonsense").code == 2


def test_add_takes_the_fields_of_a_server_as_flags(ktx: Run, project: Path) -> None:
    words = ("--driver", "postgres", "--host", "db1", "--port", "5433", "--database", "shop", "--user", "reader")
    assert ktx("connection", "add", "pg", *words, "--password", "env:PW", "--no-test").code == 0
    shown = ktx("config", "get", "connections.pg", "--json").data["value"]
    expected = {"host": "db1", "port": 5433, "database": "shop", "username": "reader", "password": "env:PW"}
    assert {key: shown[key] for key in expected} == expected
    refused = ktx("connection", "add", "x", "--driver", "sqlite", "--path", "shop.sqlite", "--host", "db1")
    assert (refused.code, "the driver `sqlite` does not accept --host" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("--host", "db1", "--database", "d", "--password", "hunter2"), ("password", "hunter2")),
        (("--url", "postgresql://u:hunter2@db1/d"), ("url", "postgresql://u:hunter2@db1/d")),
    ],
)
def test_add_keeps_a_plaintext_password_out_of_the_configuration(
    ktx: Run, project: Path, git: Run, words: tuple[str, ...], kept: tuple[str, str]
) -> None:
    key, secret = kept
    answer = ktx("connection", "add", "pg", "--driver", "postgres", *words, "--no-test", "--plain")
    assert answer.code == 0, answer
    assert f"secret: stored in .ktx/secrets/pg-{key}, which git ignores" in answer.out
    assert "plaintext" not in answer.err
    assert "hunter2" not in (project / "ktx.yaml").read_text()
    file = project / ".ktx" / "secrets" / f"pg-{key}"
    assert (file.read_text(), file.stat().st_mode & 0o777) == (f"{secret}\n", 0o600)
    assert ktx("config", "get", f"connections.pg.{key}", "--plain").out.strip().endswith(f"file:.ktx/secrets/pg-{key}")
    assert ".ktx" not in git(project, "status", "--short", "--untracked-files=all")


def test_a_connection_that_is_not_saved_keeps_no_secret(ktx: Run, project: Path) -> None:
    words = ("--driver", "postgres", "--host", "127.0.0.1", "--port", "1", "--password", "hunter2")
    assert ktx("connection", "add", "pg", *words).code != 0
    assert not (project / ".ktx" / "secrets").exists()


def test_add_takes_a_field_inside_another(ktx: Run, project: Path) -> None:
    begins = ("connection", "add", "mf", "--driver", "metricflow", "--no-test")
    missing = ktx(*begins)
    assert (missing.code, "--set metricflow.repoUrl=REPO_URL" in missing.err) == (2, True)
    assert ktx(*begins, "--set", "metricflow=text", "--set", "metricflow.repoUrl=x").code == 2
    assert ktx(*begins, "--set", "metricflow.repoUrl=git@host:a/b.git", "--set", "metricflow.branch=main").code == 0
    shown = ktx("config", "get", "connections.mf.metricflow", "--json").data["value"]
    assert (shown["repoUrl"], shown["branch"]) == ("git@host:a/b.git", "main")


def test_remove_keeps_the_context_and_says_so(ktx: Run, ingested: Path) -> None:
    answer = ktx("connection", "remove", "warehouse", "--yes", "--json")
    assert answer.code == 0
    assert answer.data["kept"] == ["semantic-layer/warehouse", "raw-sources/warehouse"]
    assert (ingested / "semantic-layer" / "warehouse" / "_schema" / "main.yaml").exists()
    assert ktx("connection", "list", "--json").data["connections"] == []


def test_remove_lists_the_secrets_that_only_it_used(ktx: Run, project: Path) -> None:
    secrets = project / ".ktx" / "secrets"
    secrets.mkdir(parents=True, exist_ok=True)
    for name in ("j-api-token", "j-api-token-2", "shared"):
        (secrets / name).write_text("made-up")
    with (project / "ktx.yaml").open("a") as config:
        for name in ("j", "k"):
            own = "file:.ktx/secrets/j-api-token" if name == "j" else "file:.ktx/secrets/shared"
            config.write(
                f"  {name}: {{driver: jira, base_url: 'https://x.example.com', projects: [A], api_token: '{own}', "
                "email: 'file:.ktx/secrets/shared'}\n"
            )
    answer = ktx("connection", "remove", "j", "--yes", "--json")
    assert (answer.code, answer.data["kept"]) == (0, [".ktx/secrets/j-api-token"])
    assert answer.envelope.get("next_steps", []) == []


def test_remove_forgets_what_was_seen_in_rows(ktx: Run, ingested: Path) -> None:
    def stored() -> list[int]:
        with contextlib.closing(sqlite3.connect(ingested / ".ktx" / "state.sqlite")) as state:
            counts = (f"SELECT count(*) FROM {table}" for table in ("profiles", "dictionary_values", "value_scans"))
            return [state.execute(count).fetchone()[0] for count in counts]

    assert all(stored())
    assert ktx("connection", "remove", "warehouse", "--yes").code == 0
    assert stored() == [0, 0, 0]


def test_remove_says_that_what_stays_closes_the_other_databases(ktx: Run, ingested: Path) -> None:
    ktx("connection", "add", "other", "--driver", "sqlite", "--path", "shop.sqlite")
    overlay = ingested / "semantic-layer" / "warehouse" / "orders.yaml"
    overlay.write_text("name: orders\npolicies: [{name: own, filter: \"status = 'paid'\"}]\n")
    answer = ktx("connection", "remove", "warehouse", "--yes", "--json")
    (warning,) = answer.envelope["warnings"]
    assert (answer.code, warning["code"]) == (0, "no_connection")
    assert "agents cannot run SQL on any database" in warning["message"] and overlay.name in warning["message"]
    assert "or remove it" in warning["hint"]
    told = ktx("sl", "validate", "-c", "other", "--no-data", "--json")
    assert (told.code, [each["code"] for each in told.data["problems"]]) == (1, ["no_connection"])


def test_many_at_once_are_all_saved(project: Path, tmp_path: Path, forks: Forks) -> None:
    add = ("connection", "add", "--driver", "sqlite", "--path", "shop.sqlite")
    running = [
        forks((*add, f"copy{n}"), folder=project, environ=os.environ, said=tmp_path / f"said-{n}") for n in range(6)
    ]
    assert [process.wait() for process in running] == [0] * 6
    text = (project / "ktx.yaml").read_text()
    assert all(f"  copy{n}:\n" in text for n in range(6))
    assert [path.name for path in project.glob(".*.ktx-tmp")] == []


def test_list_starts_no_git(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktx_cli.project.git import Git

    monkeypatch.setattr(Git, "read", lambda *_, **__: pytest.fail("git was started"))
    assert ktx("connection", "list", "--json").data["connections"][0]["id"] == "warehouse"


def test_sources_are_looked_at_and_read_nothing(ktx: Run, project: Path, git: Run) -> None:
    docs, models = project / "docs", project / "models"
    docs.mkdir()
    models.mkdir()
    (models / "dbt_project.yml").write_text("name: shop\n")
    git(models, "init", "--quiet", "-b", "trunk")
    git(models, "add", ".")
    git(models, "commit", "-m", "first")
    with (project / "ktx.yaml").open("a") as config:
        config.write("  docs: {driver: documents, path: docs}\n  gone: {driver: documents, path: nowhere}\n")
        config.write("  models: {driver: dbt, repo_url: models}\n  other: {driver: dbt, repo_url: models, branch: x}\n")
        config.write("  notes: {driver: notion, auth_token: secret_a, base_url: 'http://127.0.0.1:9'}\n")
    answer = ktx("connection", "test", "docs", "models", "--json")
    assert answer.code == 0, answer
    folder, repository = answer.data["connections"]
    assert folder["origin"] == f"folder {docs}"
    assert repository["origin"].startswith(f"file://{models} (trunk, ")
    assert "tables" not in repository
    assert not (project / ".ktx").exists() or not (project / ".ktx/cache").exists()
    for source, code, said in (("gone", 4, "does not exist"), ("other", 2, "trunk"), ("notes", 4, "Notion")):
        failed = ktx("connection", "test", source)
        assert (failed.code, said in failed.err) == (code, True), failed
    added = ktx("connection", "add", "more", "--driver", "documents", "--path", "docs")
    assert (added.code, f"found: folder {docs}" in added.out) == (0, True)
    assert ktx("connection", "add", "less", "--driver", "documents", "--path", "nothing").code == 4
    findings = ktx("doctor", "--json").data["findings"]
    levels = {each["check"]: each["level"] for each in findings}
    assert (levels["connection:docs"], levels["connection:gone"]) == ("ok", "fail")


def test_status_says_when_a_source_was_fetched(ktx: Run, project: Path) -> None:
    (project / "docs").mkdir()
    (project / "docs/a.md").write_text("# A\n")
    with (project / "ktx.yaml").open("a") as config:
        config.write("  docs: {driver: documents, path: docs}\n")
    assert "docs\tdocuments\t\t\tnever\n" in ktx("status").out
    assert ktx("ingest").code == 0
    (docs,) = (each for each in ktx("status", "--json").data["connections"] if each["id"] == "docs")
    assert (docs["last_fetch"]["kind"], docs["last_fetch"]["files"]) == ("files", 1)
    text = ktx("status").out
    assert re.search(r"docs\tdocuments\tfiles\t1\t\d+ s ago\n", text), text
    assert "\tktx ingest\tdone\t" in text
    assert f"docs\tdocuments\tsource\t\t{docs['last_fetch']['finished']}\n" in ktx("connection", "list").out
