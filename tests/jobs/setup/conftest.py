"""Somebody who answers the wizard by a script, and a folder to set up without anything of the developer's."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import pytest

from ktx_cli.jobs.setup.answers import Answers, SetupStep
from ktx_cli.jobs.setup.detect import embeddings as detection
from ktx_cli.jobs.setup.detect import models as gateways
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest
from ktx_cli.jobs.setup.wizard.dialog import Check, Kind, MenuItem
from ktx_cli.jobs.setup.wizard.wizard import run_wizard
from ktx_cli.llm.errors import llm_error

Place = tuple[str, str]


@dataclass
class Person:
    """Answers by the words of a question; what no script says is answered as proposed.

    `before`: called with the place of a question before it is answered; it may go back, or stop. `asked` are the
    places, each the title of a step and a question; `said` is what was told, `proposed` what each question proposed.
    """

    script: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[Place], None] = lambda place: None
    asked: list[Place] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    proposed: dict[str, Any] = field(default_factory=dict)
    step: str = ""
    back: str = "Esc"

    @property
    def questions(self) -> list[str]:
        return [question for _, question in self.asked]

    def say(self, text: str, kind: Kind = "fact") -> None:
        self.said.append(text)
        if kind == "title":
            self.step = text.partition(":")[0]

    def select(self, question: str, choices: Sequence[MenuItem], default: str | None) -> str:
        answer = self._answer(question, default)
        assert answer in [choice.value for choice in choices], (question, answer, choices)
        return str(answer)

    def several(self, question: str, choices: Sequence[MenuItem], chosen: Sequence[str]) -> list[str]:
        answer = self._answer(question, list(chosen))
        assert set(answer) <= {choice.value for choice in choices}, (question, answer, choices)
        return list(answer)

    def text(self, question: str, default: str, check: Check) -> str:
        return self._checked(question, default, check)

    def secret(self, question: str, check: Check) -> str:
        return self._checked(question, "", check)

    def confirm(self, question: str, default: bool) -> bool:
        return bool(self._answer(question, default))

    def _checked(self, question: str, default: str, check: Check) -> str:
        answer = str(self._answer(question, default))
        assert check(answer) is None, (question, answer, check(answer))
        return answer

    def _answer(self, question: str, proposed: Any) -> Any:
        place = (self.step, question)
        self.asked.append(place)
        self.proposed[question] = proposed
        assert len(self.asked) < 400, f"it does not end: {self.asked[-6:]}"
        self.before(place)
        said = next((said for words, said in self.script.items() if question.startswith(words)), proposed)
        if not isinstance(said, tuple):
            return said
        times = self.asked.count(place)
        return said[min(times, len(said)) - 1]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """A machine that shows nothing: no key, no gateway, no keyring, no session of Claude Code; return its variables."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "KTX_")):
            monkeypatch.delenv(name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.setattr(gateways, "LOCAL_GATEWAYS", ())
    monkeypatch.setattr(detection, "EMBEDDING_SERVERS", ())

    monkeypatch.setattr("ktx_cli.jobs.setup.wizard.dialog.usable_keyring", lambda: False)

    async def nobody(*args: Any, **options: Any) -> Any:
        raise llm_error("auth", backend="claude-code")

    monkeypatch.setattr("ktx_cli.llm.backends.claude.session.local_session", nobody)
    return {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "home")}


@pytest.fixture
def folder(tmp_path: Path, machine: dict[str, str]) -> Path:
    """A folder with a database and a handbook."""
    made = tmp_path / "shop"
    (made / "handbook").mkdir(parents=True)
    (made / "handbook" / "refunds.md").write_text("# Refunds\n\nWithin 30 days.\n")
    with sqlite3.connect(made / "shop.sqlite") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL)")
    database.close()
    return made


Wizard = Callable[..., SetupReport]


@pytest.fixture
def wizard(folder: Path, machine: dict[str, str]) -> Wizard:
    """Go through the wizard as somebody; models are not asked, databases are."""

    def run(person: Person, *only: SetupStep, test: bool = False, **answers: Any) -> SetupReport:
        request = SetupRequest(folder, machine, Answers(**answers), test=test)
        return run_wizard(request, person, only)

    return run


class Ring(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.error: Exception | None = None

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.error is not None:
            raise self.error
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def ring() -> Iterator[Ring]:
    before, made = keyring.get_keyring(), Ring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)
