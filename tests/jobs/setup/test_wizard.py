"""The wizard as a person goes through it: straight, back, stopped anywhere, leaving things out, mending errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core import yaml
from ktx_cli.core.errors import CancelledError
from ktx_cli.jobs.setup.answers import SetupStep
from ktx_cli.jobs.setup.wizard.dialog import BackAsked
from ktx_cli.testing.model_script import UNAUTHORIZED, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.servers import PostgresServer
from tests.jobs.setup.conftest import Person, Place, Ring, Wizard
from tests.sources.git_server import git

FULL: dict[str, Any] = {
    "Which model backend?": "anthropic",
    "Key (typed": "canary-key",
    "Which models?": "each",
    "Model": "claude-m",
    "Enable semantic search": "openai",
    "Which database?": "other",
    "Another database?": "none",
    "Which kind of database?": "sqlite",
    "Database file": "shop.sqlite",
    "Which context source": "other",
    "Another context source?": "none",
    "Which kind of context source?": "documents",
    "Folder, relative": "handbook",
    "Build the context?": "none",
    "Which agent clients": ["codex"],
}
"""Something for every step; what is not here is answered as proposed."""

EXPECTED = """\
llm:
  provider:
    backend: anthropic
    anthropic:
      api_key: file:.ktx/secrets/llm-anthropic-api-key
  models:
    default: claude-m
    triage: claude-haiku-5-5
    candidateExtraction: claude-haiku-5-5
scan:
  enrichment:
    mode: llm
ingest:
  embeddings:
    backend: openai
    model: claude-m
    openai:
      api_key: file:.ktx/secrets/embeddings-api-key
connections:
  warehouse:
    driver: sqlite
    path: shop.sqlite
  documents:
    driver: documents
    path: handbook
"""
NOTHING = {"Which database?": "none", "Which context source": "none"}
"""Every step left out: for the others that is what is proposed."""

ALL_SET = "Everything is set up. What do you want to change?"
WHAT_NOW = "What do you want to do?"


def _config(folder: Path) -> str:
    return (folder / "ktx.yaml").read_text()


def _where(folder: Path, secret: str) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and secret.encode() in path.read_bytes():
            yield path.relative_to(folder).as_posix()


def test_straight(folder: Path, wizard: Wizard) -> None:
    person = Person(FULL)
    report = wizard(person)
    assert report.created_project and report.changed and report.error is None
    assert len(set(person.asked)) == len(person.asked) == 28
    assert _config(folder).endswith(EXPECTED)
    assert [*_where(folder, "canary")] == [".ktx/secrets/embeddings-api-key", ".ktx/secrets/llm-anthropic-api-key"]
    assert not any("canary" in each for each in (*person.said, *map(str, person.proposed.values())))
    assert (folder / ".ktx" / "setup.json").stat().st_mode & 0o777 == 0o600
    assert git(folder, "show", f"{report.commit}:ktx.yaml") == _config(folder)
    assert "canary" not in git(folder, "log", "--all", "-p", "--format=%B")
    again, tip = Person(), git(folder, "rev-parse", "HEAD")
    wizard(again)
    assert (again.questions, git(folder, "rev-parse", "HEAD")) == ([ALL_SET], tip)
    assert _config(folder).endswith(EXPECTED)


def test_stopped_at_every_question(folder: Path, wizard: Wizard) -> None:
    straight: list[Place] = []
    for _ in range(60):
        person = Person(FULL, before=_stop_at(lambda place: place not in straight))
        try:
            wizard(person)
        except CancelledError as stopped:
            kept = "your answers are saved" if straight else "nothing was saved"
            assert (stopped.message, stopped.hint) == (f"setup was stopped; {kept}", "ktx setup")
            assert person.asked[:-1] == straight[-1:], "what was answered is asked again"
            straight.append(person.asked[-1])
        else:
            break
    assert (len(straight), len(set(straight))) == (28, 28)
    assert _config(folder).endswith(EXPECTED)
    assert [*_where(folder, "canary")] == [".ktx/secrets/embeddings-api-key", ".ktx/secrets/llm-anthropic-api-key"]


def _stop_at(when: Callable[[Place], bool]) -> Callable[[Place], None]:
    def stop(place: Place) -> None:
        if when(place):
            raise KeyboardInterrupt

    return stop


def test_back_at_every_question(folder: Path, wizard: Wizard) -> None:
    seen: set[Place] = set()

    def go_back(place: Place) -> None:
        if place not in seen and not place[1].startswith("Change "):
            seen.add(place)
            raise BackAsked

    person = Person(FULL, before=go_back)
    wizard(person)
    assert len(seen) >= 28
    assert _config(folder).endswith(EXPECTED)
    assert person.proposed["Which model backend?"] == "anthropic", "what was taken back is proposed"
    assert person.proposed["Which kind of database?"] == "sqlite"


def test_back_and_another_answer(folder: Path, wizard: Wizard) -> None:
    went: list[Place] = []

    def go_back(place: Place) -> None:
        if place[1].startswith("Which context source") and not went:
            went.append(place)
            raise BackAsked

    script = {
        **FULL,
        "Another database?": ("none", "other", "none"),
        "What is the id of the database": ("warehouse", "copy"),
    }
    wizard(Person(script, before=go_back))
    assert EXPECTED.replace(
        "  documents:", "  copy:\n    driver: sqlite\n    path: shop.sqlite\n  documents:"
    ) in _config(folder)


def test_everything_left_out(folder: Path, wizard: Wizard) -> None:
    person = Person(NOTHING)
    report = wizard(person)
    assert _config(folder).endswith("llm:\n  provider:\n    backend: none\n")
    assert report.next_steps == ["ktx setup --database sqlite --database-path shop.sqlite"]
    assert not (folder / ".ktx" / "secrets").exists()
    again = Person()
    wizard(again)
    assert again.questions == [ALL_SET]
    assert "4/7 Databases: none" in again.said
    more = Person({**FULL, ALL_SET: ("databases", "nothing")})
    wizard(more)
    assert _config(folder).endswith("connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n")


OF_STEP = {
    SetupStep.LLM: (["scan"], 12),
    SetupStep.EMBEDDINGS: (["ingest"], 5),
    SetupStep.DATABASES: (["connections"], 6),
    SetupStep.SOURCES: (["connections"], 6),
    SetupStep.BUILD: ([], 1),
    SetupStep.AGENTS: ([], 2),
}
"""By step: the blocks that it adds to `ktx.yaml`, and how many questions there are, that of the project among them."""


@pytest.mark.parametrize("step", OF_STEP)
def test_one_step(folder: Path, wizard: Wizard, step: SetupStep) -> None:
    person = Person(FULL)
    wizard(person, step)
    blocks, questions = OF_STEP[step]
    assert {*yaml.load(_config(folder), where="")} == {"llm", "semantic", *blocks}
    assert len(person.questions) == questions, person.questions
    assert {place[0] for place in person.asked} <= {"1/7 Project", person.step}, person.asked


def _broken(folder: Path) -> None:
    (folder / "notes.sqlite").write_text("this is no database, whatever its name says")


@pytest.mark.parametrize(
    ("decides", "ends"),
    [
        (("change",), "warehouse:\n    driver: sqlite\n    path: shop.sqlite\n"),
        (("again", "again", "change"), "warehouse:\n    driver: sqlite\n    path: shop.sqlite\n"),
        (("leave",), "backend: none\n"),
        (("again", "leave"), "backend: none\n"),
    ],
)
def test_an_error_and_then(folder: Path, wizard: Wizard, decides: tuple[str, ...], ends: str) -> None:
    _broken(folder)
    script = {**FULL, "Database file": ("notes.sqlite", "shop.sqlite"), WHAT_NOW: decides}
    person = Person(script)
    before = []
    person.before = lambda place: before.append(_config(folder)) if place[1] == WHAT_NOW else None  # type: ignore[func-returns-value]
    wizard(person, SetupStep.DATABASES)
    assert _config(folder).endswith(ends)
    assert all("notes" not in text for text in before) and len(before) == len(decides)
    assert any("notes.sqlite" in said and "not" in said for said in person.said)
    if "change" in decides:
        assert person.proposed["Database file, relative to the project"] == "notes.sqlite"


def test_a_model_that_refuses_the_key(folder: Path, wizard: Wizard, model_server: ModelServer) -> None:
    model_server.play(lambda asked: says("ready") if "right-key" in str(asked.headers) else UNAUTHORIZED)
    script = {
        **FULL, "Which model backend?": "gateway", "URL of the gateway": model_server.url, "Which models?": "one",
        "Key (typed": "canary-wrong-key", "Key (typed unseen, or env:NAME, file:PATH; empty: unchanged)": "right-key",
    }  # fmt: skip
    script = dict(sorted(script.items(), key=lambda each: -len(each[0])))
    person = Person({**script, WHAT_NOW: "change"})
    saved: list[str] = []
    person.before = lambda place: saved.append(_config(folder)) if place[1] == WHAT_NOW else None  # type: ignore[func-returns-value]
    wizard(person, SetupStep.LLM, test=True)
    assert [text.endswith("backend: none\n") for text in saved] == [True]
    assert person.proposed["URL of the gateway"] == model_server.url
    assert "backend: gateway" in _config(folder)
    assert [*_where(folder, "canary-wrong-key")] == []
    assert [*_where(folder, "right-key")] == [".ktx/secrets/llm-gateway-api-key"]
    assert not any("canary" in said for said in person.said)


def test_a_server_that_needs_no_key(folder: Path, wizard: Wizard, model_server: ModelServer) -> None:
    model_server.play(lambda asked: says("ready"))
    script = {"Which model backend?": "openai-compatible", "URL of the API": model_server.url, "Key, if the server": ""}
    script |= {"Which models?": "one", "Model": "qwen3:8b"}
    wizard(Person({**FULL, **script}), SetupStep.LLM, test=True)
    found = yaml.load(_config(folder), where="")["llm"]
    assert found["provider"] == {"backend": "openai-compatible", "openai_compatible": {"base_url": model_server.url}}
    assert found["models"] == {"default": "qwen3:8b"}


SCOPES = {
    "all": ({"Which tables?": "all"}, None),
    "schemas": ({"Which tables?": "schemas", "Which schemas?": ["mart"]}, ["mart.*"]),
    "patterns": ({"Which tables?": "patterns", "Patterns of the tables": "mart.o*, main.* "}, ["mart.o*", "main.*"]),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_which_tables(folder: Path, wizard: Wizard, scope: str) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as database:
        database.execute("CREATE SCHEMA mart; CREATE TABLE mart.orders (id int); CREATE TABLE raw (id int)")
    typed, expected = SCOPES[scope]
    database_answers = {"Which kind of database?": "duckdb", "Database file": "shop.duckdb"}
    wizard(Person({**FULL, **database_answers, **typed}), SetupStep.DATABASES)
    entry = yaml.load(_config(folder), where="")["connections"]["warehouse"]
    assert entry.get("include") == expected


def test_the_schemas_of_the_marts_of_dbt_are_offered_first(folder: Path, wizard: Wizard) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as database:
        database.execute("CREATE SCHEMA main_marts; CREATE TABLE main_marts.orders (id int); CREATE TABLE raw (id int)")
    (folder / "dbt_project.yml").write_text("name: shop\nmodels: {shop: {marts: {+schema: marts}}}\n")
    person = Person({**FULL, "Which kind of database?": "duckdb", "Database file": "shop.duckdb"})
    wizard(person, SetupStep.DATABASES)
    assert person.proposed["Which tables?"] == "marts"
    entry = yaml.load(_config(folder), where="")["connections"]["warehouse"]
    assert entry.get("include") == ["main_marts.*"]


UNREACHABLE = {
    **FULL, "Which kind of database?": ("postgres", "sqlite"), "Host": "127.0.0.1", "Port": "1",
    "Name of the database": "d", "User": "u", "Password": "canary-pw", WHAT_NOW: "over",
}  # fmt: skip
"""A Postgres where nothing listens, then what FULL says."""


def test_a_secret_that_was_refused_is_not_kept(folder: Path, wizard: Wizard) -> None:
    person = Person(UNREACHABLE)
    wizard(person, SetupStep.DATABASES)
    assert [*_where(folder, "canary-pw")] == [], "one that was refused and left out is not kept"
    assert not any("canary" in said for said in person.said)
    assert "canary" not in (folder / ".ktx" / "setup.json").read_text()


@pytest.mark.postgres
def test_a_wrong_password_is_asked_for_again_and_nothing_before_it(
    folder: Path, wizard: Wizard, postgres_server: PostgresServer
) -> None:
    person = Person({
        **FULL, "Which kind of database?": "postgres", "Host": "127.0.0.1", "Port": str(postgres_server.port),
        "Name of the database": "postgres", "User": postgres_server.user,
        "Password (typed unseen, or env:NAME, file:PATH; empty: unchanged)": postgres_server.password,
        "Password": "canary-wrong",
        WHAT_NOW: "change",
    })  # fmt: skip
    wizard(person, SetupStep.DATABASES)
    assert "check the username and the password" in person.said
    counts = {name: sum(each.startswith(name) for each in person.questions) for name in ("Host", "User", "Password")}
    assert counts == {"Host": 1, "User": 2, "Password": 2}
    assert "username: postgres" in _config(folder)
    assert [*_where(folder, "canary-wrong")] == []


@pytest.mark.parametrize("decides", ["over", "leave"])
@pytest.mark.parametrize("typed", ["file:.ktx/secrets/mine", "canary-mine"])
def test_a_secret_of_the_user_stays_where_it_is(folder: Path, wizard: Wizard, typed: str, decides: str) -> None:
    wizard(Person(NOTHING), SetupStep.PROJECT)
    mine = folder / ".ktx" / "secrets" / ("mine" if ":" in typed else "warehouse-password")
    mine.parent.mkdir(mode=0o700)
    mine.write_text("canary-mine\n")
    wizard(Person({**UNREACHABLE, "Password": typed, WHAT_NOW: decides}), SetupStep.DATABASES)
    assert mine.read_text() == "canary-mine\n"


def test_where_there_is_a_keyring(folder: Path, wizard: Wizard, ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.jobs.setup.wizard.dialog.usable_keyring", lambda: True)
    person = Person({**FULL, "Where do you want to store secrets?": "keyring"})
    wizard(person)
    assert person.questions.count("Where do you want to store secrets?") == 1
    assert sorted(ring.kept.values()) == ["canary-key", "canary-key"]
    assert [*_where(folder, "canary")] == []
    assert _config(folder).count("keyring:ktx-") == 2


def test_no_project_is_wanted(folder: Path, wizard: Wizard) -> None:
    before = sorted(folder.rglob("*"))
    with pytest.raises(CancelledError, match="nothing was created"):
        wizard(Person({"Create a ktx project": False}))
    assert sorted(folder.rglob("*")) == before


def test_a_file_written_by_hand_keeps_its_form(folder: Path, wizard: Wizard) -> None:
    text = "# mine\r\nllm:   { provider: {backend: none} }  # for now\r\nconnections:\r\n\r\n  # none yet\r\n"
    (folder / "ktx.yaml").write_bytes(text.encode())
    wizard(Person(FULL))
    after = (folder / "ktx.yaml").read_bytes().decode()
    assert after.startswith("# mine\r\nllm:   { provider: {backend: anthropic, anthropic: {api_key: ")
    assert "}  # for now\r\nconnections:\r\n" in after and "\r\n  # none yet\r\n" in after
    assert after.count("\n") == after.count("\r\n")


SERVICES: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("tableau", {"Folder of the Tableau files": "handbook"}, {"source_dir": "handbook"}),
    (
        "tableau",
        {
            "Folder of the Tableau files": "", "Address of Tableau": "https://bi.example.com",
            "Name of the site": "acme", "Name of the personal": "ktx", "Secret of the personal": "env:TABLEAU",
        },
        {"server_url": "https://bi.example.com", "site": "acme", "token_name": "ktx", "token_secret": "env:TABLEAU"},
    ),
    (
        "jira",
        {"Base URL": "https://j.example.com", "Email": "", "API key": "env:JIRA", "Key of a project": "DATA, OPS"},
        {"base_url": "https://j.example.com", "api_token": "env:JIRA", "projects": ["DATA", "OPS"]},
    ),
    (
        "gdrive",
        {"Service account key": "file:key.json", "ID of a folder": "0AbC"},
        {"credentials_json": "file:key.json", "folder_ids": ["0AbC"]},
    ),
]  # fmt: skip
"""Driver, what a person says, and what is saved."""


@pytest.mark.parametrize(("driver", "said", "fields"), SERVICES, ids=["files", "site", "jira", "drive"])
def test_what_a_service_needs(
    folder: Path, wizard: Wizard, driver: str, said: dict[str, str], fields: dict[str, Any]
) -> None:
    person = Person({**said, **FULL, "Which kind of context source?": driver})
    wizard(person, SetupStep.SOURCES)
    assert yaml.load(_config(folder), where="")["connections"][driver] == {"driver": driver, **fields}
    assert sum(each.startswith(tuple(said)) for each in person.questions) == len(said), "and nothing twice"
    assert ("source_dir" in fields) <= ("Address of Tableau" not in str(person.questions)), "files have no address"
