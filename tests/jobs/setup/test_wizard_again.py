"""Steps gone through again, backwards or with other answers, where some of them is settled already; a new folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktx_cli.jobs.setup.answers import Answers, SetupStep
from ktx_cli.jobs.setup.request import SetupRequest
from ktx_cli.jobs.setup.wizard.dialog import BackAsked
from ktx_cli.jobs.setup.wizard.wizard import run_wizard
from tests.jobs.setup.conftest import Person, Wizard

KINDS = {
    "Which database?": "other",
    "Which kind of database?": ("sqlite", "sqlite"),
    "Database file": ("shop.sqlite", "notes.sqlite", "more.sqlite"),
    "Another database?": ("other", "other", "none"),
    "What do you want to do?": "change",
}


@pytest.mark.parametrize("only", [(), (SetupStep.DATABASES,)])
def test_a_second_database_that_fails_is_asked_for_again(
    folder: Path, wizard: Wizard, only: tuple[SetupStep, ...]
) -> None:
    (folder / "notes.sqlite").write_text("this is no database, whatever its name says")
    (folder / "more.sqlite").write_bytes((folder / "shop.sqlite").read_bytes())
    person = Person({**KINDS, "Another database?": ("other", "none")})
    wizard(person, *only)
    assert person.questions.count("Another database?") == 2, "the answer that was right is kept"
    assert person.questions.count("Database file, relative to the project") == 3
    assert person.proposed["Database file, relative to the project"] == "notes.sqlite"
    said = (folder / "ktx.yaml").read_text()
    assert "path: shop.sqlite" in said and "path: more.sqlite" in said and "notes" not in said


def test_another_driver_than_one_without_its_package(
    folder: Path, wizard: Wizard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ktx_cli.jobs.setup.wizard.databases.missing_package",
        lambda driver: "pip install x" if driver == "snowflake" else None,
    )
    (folder / "more.sqlite").write_bytes((folder / "shop.sqlite").read_bytes())
    script = {
        **KINDS,
        "Which kind of database?": ("sqlite", "snowflake", "sqlite"),
        "Database file": ("shop.sqlite", "more.sqlite"),
        "What do you want to do?": "other",
    }
    wizard(Person(script))
    assert "path: more.sqlite" in (folder / "ktx.yaml").read_text()


@pytest.mark.parametrize(("decides", "asked"), [("again", 1), ("change", 2)])
def test_agent_clients_that_could_not_be_written_are_tried_again(
    folder: Path, wizard: Wizard, decides: str, asked: int
) -> None:
    (folder / ".mcp.json").write_text("{ not JSON")
    (folder / ".cursor").mkdir()
    script = {
        **KINDS,
        "Another database?": "none",
        "Which agent clients": ["claude-code", "cursor"],
        "What do you want to do?": decides,
    }
    person = Person(script)

    def mended(place: tuple[str, str]) -> None:
        if place[1] == "What do you want to do?":
            (folder / ".mcp.json").write_text("{}")
            script["Which agent clients"] = ["claude-code"]

    person.before = mended
    wizard(person)
    assert person.questions.count("Which agent clients should use this project?") == asked
    assert "ktx" in json.loads((folder / ".mcp.json").read_text())["mcpServers"]


def test_going_back_where_nothing_was_asked_before_stays(folder: Path, wizard: Wizard) -> None:
    (folder / "ktx.yaml").write_text("llm: {provider: {backend: none}}\n")
    person = Person({"Which database?": "none"})
    backs: list[str] = []

    def back_twice(place: tuple[str, str]) -> None:
        if place[1] == "Which model backend?" and len(backs) < 2:
            backs.append(place[1])
            raise BackAsked

    person.before = back_twice
    wizard(person)
    assert person.questions[:4] == ["Which model backend?"] * 3 + ["Enable semantic search, too?"]


def test_going_back_passes_by_a_step_with_nothing_to_ask(folder: Path, wizard: Wizard) -> None:
    person = Person({"Which database?": "none", "Which context source": "none"})
    backs: list[str] = []

    def back_once(place: tuple[str, str]) -> None:
        if place[1].startswith("Which agent clients") and not backs:
            backs.append(place[1])
            raise BackAsked

    person.before = back_once
    wizard(person)
    at = person.questions.index("Which agent clients should use this project?")
    assert person.questions[at + 1].startswith("Which context source")


def test_another_database_is_not_called_as_the_one_before(folder: Path, wizard: Wizard) -> None:
    person = Person({"Which database?": ("other", "sqlite shop"), "Which kind of database?": "sqlite"})

    def back(place: tuple[str, str]) -> None:
        begun = any("Database file" in each for each in person.questions)
        if begun and person.questions.count("Which database?") == 1:
            raise BackAsked

    person.before = back
    wizard(person)
    assert person.questions.count("What is the id of the database in ktx?") == 3
    assert person.proposed["What is the id of the database in ktx?"] == "shop"


def test_a_folder_that_is_not_there_is_made(folder: Path, machine: dict[str, str]) -> None:
    new = folder / "sub" / "project"
    person = Person({"Which database?": "none"})
    report = run_wizard(SetupRequest(new, machine, Answers(), test=False), person)
    assert report.created_project and (new / "ktx.yaml").is_file()
    assert not (folder / "ktx.yaml").exists()
