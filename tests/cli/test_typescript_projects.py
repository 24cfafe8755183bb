"""Projects as the TypeScript ktx has them: what this program cannot use costs itself, and nothing is rewritten."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

Run = Callable[..., Any]

FIXTURES: Final = Path(__file__).parent / "fixtures"
CONFIGS: Final = FIXTURES / "typescript_configs"

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "postgres_without_url": ("ferries",),
    "a_word_for_a_driver": ("other",),
    "a_mistyped_driver": ("other",),
    "a_setting_of_a_wrong_kind": ("other",),
    "a_source_without_its_place": ("other",),
    "drivers_of_its_own": (),
    "every_setting": (),
    "keys_of_a_newer_version": (),
    "anthropic_with_v1": (),
    "vertex_by_references": (),
    "gateway_without_address": ("gateway",),
    "codex": ("codex",),
}
"""Fixture -> the connection, or the backend, that a command which does not exit 0 names."""

READING: Final[tuple[tuple[str, ...], ...]] = (
    ("status", "--fast"),
    ("doctor", *(word for check in ("config", "databases", "repository") for word in ("--only", check))),
    ("sl", "list"),
    ("sl", "read", "bookings"),
    ("sl", "query", "-m", "bookings.revenue", "-d", "travellers.tier"),
    ("sl", "explain", "-m", "bookings.revenue"),
    ("sl", "validate"),
    ("wiki",),
    ("wiki", "read", "fares"),
    ("search", "fares"),
    ("lint", "--ignore", "KTX335"),
    ("diff",),
    ("sql", "SELECT 1"),
    ("config", "validate"),
    ("config", "show"),
    ("config", "get", "connections"),
    ("connection", "list"),
    ("runs", "list"),
    ("completion", "bash"),
)
PARTS: Final = 6
"""Into how many tests of each fixture the commands are divided."""

FINE: Final = frozenset(
    {"sl list", "sl read bookings", "wiki", "wiki read fares", "search fares", "connection list", "runs list"}
)
"""Commands that always exit 0."""

ASKING: Final = frozenset({"sl query -m bookings.revenue -d travellers.tier", "sql SELECT 1"})
"""Commands that do where nothing is wrong with the database."""


def a_project(work: Path, config: str) -> Path:
    """The files of a project in the current folder, with that `ktx.yaml`."""
    shutil.copytree(FIXTURES / "typescript_project", work, dirs_exist_ok=True)
    shutil.copyfile(CONFIGS / f"{config}.yaml", work / "ktx.yaml")
    (work / "models").mkdir()
    (work / "models" / "dbt_project.yml").write_text("name: harbour\nversion: '1'\n")
    with closing(sqlite3.connect(work / "ferries.db")) as database:
        database.executescript((work / "ferries.sql").read_text())
    return work


def committed(work: Path) -> None:
    """Make the project a repository of its own, as the TypeScript ktx does."""
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=work, check=True)


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "HARBOUR_KEY": "made-up-key",
        "HARBOUR_PROJECT": "harbour-42",
        "HARBOUR_REGION": "europe-west1",
        "PAGES_TOKEN": "made-up-token",
        "BOARDS_KEY": "made-up-board-key",
    }.items():
        monkeypatch.setenv(name, value)


def test_every_fixture_is_tried() -> None:
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == set(NAMES)


@pytest.mark.in_turns("config")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("config", NAMES)
def test_reading_commands_work_or_name_the_one_thing_that_is_wrong(
    config: str, part: int, ktx: Run, work: Path
) -> None:
    before = files(a_project(work, config))
    fine = FINE if "ferries" in NAMES[config] else FINE | ASKING
    for command in READING[part::PARTS]:
        words = [*command] if command == ("completion", "bash") else [*command, "--json"]
        answer = ktx(*words)
        if answer.code == 0:
            continue
        assert " ".join(command) not in fine, answer
        told = [
            f"`{name}`" in answer.out or f".{name}" in answer.out or f"{name}:" in answer.out for name in NAMES[config]
        ]
        assert any(told), (command, answer)
    assert files(work) == before


def test_a_mistyped_driver_is_an_error_where_the_settings_are_the_matter(ktx: Run, work: Path) -> None:
    a_project(work, "a_mistyped_driver")
    validated = ktx("config", "validate", "--json")
    assert validated.code == 2
    assert validated.envelope["error"]["hint"].startswith("did you mean `postgres`?")
    (finding,) = ktx("doctor", "--only", "config", "--json").data["findings"]
    assert (finding["level"], "did you mean `postgres`?" in finding["hint"]) == ("fail", True)
    asked = ktx("connection", "test", "other", "--json")
    assert asked.code == 2
    assert "connection `other` is disabled" in asked.envelope["error"]["message"]
    assert asked.envelope["error"]["hint"].startswith("did you mean `postgres`?")


@pytest.mark.parametrize("command", [("status", "--fast"), ("config", "validate"), ("ingest", "--dry-run")])
def test_what_is_wrong_is_said_once(command: tuple[str, ...], ktx: Run, work: Path) -> None:
    a_project(work, "a_mistyped_driver")
    lines = ktx(*command).err.splitlines()
    assert len([line for line in lines if "is `postgre`, which is not a driver" in line]) == 1, lines


@pytest.mark.parametrize("config", ["a_mistyped_driver", "drivers_of_its_own", "keys_of_a_newer_version"])
def test_there_is_at_most_one_warning(config: str, ktx: Run, work: Path) -> None:
    a_project(work, config)
    expected = [] if config == "keys_of_a_newer_version" else ["config_disabled"]
    for command in (("sl", "query", "-m", "bookings.revenue"), ("sql", "SELECT 1"), ("connection", "list")):
        answer = ktx(*command, "--json")
        assert [each["code"] for each in answer.envelope["warnings"]] == expected, command


def test_drivers_of_the_typescript_ktx_are_warned_about_and_nothing_fails(ktx: Run, work: Path) -> None:
    committed(a_project(work, "drivers_of_its_own"))
    validated = ktx("config", "validate", "--json")
    assert validated.code == 0
    assert [each["code"] for each in validated.envelope["warnings"]] == ["config_foreign_driver"]
    listed = ktx("connection", "list", "--json").data["connections"]
    assert [each["id"] for each in listed if each["kind"] != "disabled"] == ["ferries"]
    assert len(listed) == 2
    assert ktx("ingest", "--no-llm", "--json").code == 0
    asked = ktx("ingest", "intranet", "--no-llm", "--json")
    assert asked.code == 2
    assert "connection `intranet` is disabled" in asked.envelope["error"]["message"]


def test_a_run_skips_what_an_error_disables_and_says_so(ktx: Run, work: Path) -> None:
    committed(a_project(work, "a_mistyped_driver"))
    ran = ktx("ingest", "--no-llm", "--json")
    assert ran.code == 7, ran
    assert [(each["connection"], each["status"]) for each in ran.data["connections"]] == [
        ("other", "failed"),
        ("ferries", "done"),
    ], ran.data
    assert "`other`" in ran.envelope["error"]["message"]
    assert ktx("scan", "ferries", "--json").code == 0
    assert ktx("ingest", "--no-llm", "--json").code == 7


def test_a_run_in_a_project_that_nobody_committed_leaves_one_that_can_be_read(ktx: Run, work: Path) -> None:
    a_project(work, "every_setting")  # its shards are beside those of the run then
    ktx("ingest", "ferries", "--no-llm", "--json")
    for command in (("status", "--fast"), ("connection", "list"), ("sl", "list"), ("scan", "relationships")):
        answer = ktx(*command, "--json")
        assert (answer.envelope["error"] or {}).get("code") != "internal", (command, answer)


def test_a_project_whose_only_connection_is_disabled_says_which(ktx: Run, work: Path) -> None:
    a_project(work, "postgres_without_url")
    for command in (("ingest", "--no-llm"), ("sql", "SELECT 1"), ("sl", "query", "-m", "bookings.revenue")):
        answer = ktx(*command, "--json")
        assert answer.code in (2, 3)
        assert (
            "connection `ferries` is disabled: `connections.ferries` needs `url` or `host`"
            in (answer.envelope["error"]["message"])
        )


def test_a_disabled_connection_can_be_repaired_and_removed(ktx: Run, work: Path) -> None:
    a_project(work, "a_mistyped_driver")
    assert ktx("config", "set", "connections.other.driver", "postgres").code == 0
    assert ktx("config", "validate").code == 0
    assert ktx("config", "set", "connections.other.driver", "postgre").code == 2
    assert ktx("connection", "remove", "other", "--yes").code == 0
    assert ktx("config", "validate").code == 0
    a_project_again = (work / "ktx.yaml").read_text()
    assert "other" not in a_project_again


def test_a_project_with_the_local_codex_session_is_valid(ktx: Run, work: Path) -> None:
    a_project(work, "codex")
    answer = ktx("config", "validate", "--json")
    assert (answer.code, answer.envelope["error"]) == (0, None)


@pytest.mark.parametrize(
    ("llm", "missing"),
    [
        ("{provider: {backend: gateway}, models: {default: m}}", "gateway.api_key"),
        ("{provider: {backend: openai-compatible}, models: {default: m}}", "openai_compatible.base_url"),
        ("{provider: {backend: anthropic}, models: {default: m}}", "anthropic.api_key"),
        ("{provider: {backend: vertex, vertex: {location: x}}}", "models.default"),
    ],
)
def test_validate_refuses_a_backend_that_lacks_a_setting(llm: str, missing: str, ktx: Run, work: Path) -> None:
    (work / "ktx.yaml").write_text(f"llm: {llm}\n")
    answer = ktx("config", "validate", "--json")
    assert answer.code == 2
    assert f"{missing}` is not set" in answer.envelope["error"]["message"]
    assert ktx("wiki").code == 0, "what needs no model works"


NEWER: Final = {
    "mongodb": "url: env:MONGO_URL\ndatabases: [app]\nenabled_tables: [app.users]\nsample_size: 500",
    "sigma": "api_url: https://aws-api.example.com\nclient_id: abc\nclient_secret_ref: env:SIGMA_CLIENT_SECRET\n"
    "connectionMappings: {3f2a: ferries}",
    "gdrive": "service_account_key_ref: file:/etc/keys/drive.json\nfolder_id: 1AbCdEf\nrecursive: false",
    "jira": "base_url: https://acme.example.com\nemail: ann@example.com\napi_token_ref: env:JIRA_TOKEN\n"
    "projects: [DOCS]\nlabels: [kb, decision]\nsince: '2024-01-01'",
    "hologres": "url: env:HOLOGRES_URL",
    "athena": "region: us-east-1\ns3_staging_dir: s3://results/ktx/\nworkgroup: primary\ndatabases: [mart]",
    "bigquery": "credentials_json: file:/etc/keys/bq.json\nlocation: US\n"
    "dataset_ids: [bigquery-public-data.austin_311, mart]",
}
"""Driver -> the settings that the documentation of the TypeScript ktx 0.16 shows for it."""


@pytest.mark.table("driver", NEWER)
def test_the_settings_of_newer_drivers_are_understood(driver: str, ktx: Run, work: Path) -> None:
    settings = "".join(f"    {line}\n" for line in NEWER[driver].splitlines())
    (work / "ktx.yaml").write_text(
        f"connections:\n  ferries: {{driver: sqlite, path: x.db}}\n  newer:\n    driver: {driver}\n{settings}"
    )
    validated = ktx("config", "validate", "--json")
    assert (validated.code, validated.envelope["warnings"]) == (0, []), validated
