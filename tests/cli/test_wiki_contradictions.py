"""`ktx wiki contradictions`: listing what sources disagree about, deciding it, and what the lint says of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.cli.prompts import ask_contradiction
from ktx_cli.core import isoformat, now
from ktx_cli.jobs.contradictions import Answer, list_contradictions
from ktx_cli.project import Layout
from tests.cli.conftest import git

Run = Callable[..., Any]
COMMAND = ("wiki", "contradictions")

MINE = """\
# ours
contradictions:
- topic:   return window   # legal
  note: ask Legal
  statements:
  - {source: docs/old.md, text: Customers have 14 days., effect: x, date: '2023'}   # old
  - {source: docs/new.md, text: Customers have 30 days., effect: x}

- statements: [{source: data, text: "2", effect: x}, {source: wiki:a, text: "3", effect: x}]
  topic: b
  decision: three
extra: 1
"""


@pytest.fixture
def project(work: Path) -> Path:
    (work / "ktx.yaml").write_text("connections: {warehouse: {driver: sqlite, path: shop.sqlite}}\n")
    return work


@pytest.fixture
def recorded(project: Path) -> Path:
    """Return a file of contradictions that a person has edited."""
    path = project / "contradictions.yaml"
    path.write_text(MINE)
    return path


def test_what_is_open_is_listed_and_listing_writes_nothing(ktx: Run, recorded: Path) -> None:
    answer = ktx(*COMMAND, "--json")
    assert answer.code == 0
    (found,) = answer.data["contradictions"]
    assert (found["number"], found["line"], found["status"], found["topic"]) == (1, 3, "open", "return window")
    assert answer.data["open"] == 1
    shown = ktx(*COMMAND)
    assert "1\treturn window\t1\tdocs/old.md\t2023\tCustomers have 14 days." in shown.out
    assert shown.err == "next: ktx wiki contradictions --review\n"
    assert [each["status"] for each in ktx(*COMMAND, "--all", "--json").data["contradictions"]] == ["open", "decided"]
    assert "b\tthree" in ktx(*COMMAND, "b").out
    assert recorded.read_text() == MINE


def test_a_project_without_contradictions(ktx: Run, project: Path) -> None:
    answer = ktx(*COMMAND)
    assert (answer.code, answer.out) == (0, "open contradictions: none\n")
    assert not (project / "contradictions.yaml").exists()


def test_a_decision_is_written_with_who_and_when_and_nothing_else_changes(ktx: Run, recorded: Path) -> None:
    answer = ktx(*COMMAND, "Return  Window", "--holds", "2", "--because", "Legal signed it", "--by", "Ada", "--json")
    assert answer.code == 0, answer
    (found,) = answer.data["contradictions"]
    today = isoformat(now())[:10]
    assert (found["status"], found["decided_by"], found["decided_on"]) == ("decided", "Ada", today)
    assert (found["decision"], found["holds"]) == ("Customers have 30 days.", ["docs/new.md"])
    lines = recorded.read_text().splitlines()
    assert [each for each in lines if each in MINE.splitlines()] == MINE.splitlines()
    again = ktx(*COMMAND, "1", "--holds", "1", "--by", "Ada")
    assert "git commit -m 'Decide contradictions' -- contradictions.yaml" in again.err
    assert ktx(*COMMAND, "1", "--reopen").code == 0
    assert recorded.read_text() == MINE


def test_the_author_of_commits_decides_where_nobody_is_named(
    ktx: Run, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(recorded.parent, "init", "-q")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Grace")
    answer = ktx(*COMMAND, "1", "--holds", "1", "--holds", "2", "--because", "by year of the order", "--json")
    (found,) = answer.data["contradictions"]
    assert (found["decided_by"], found["decision"]) == ("Grace", "Both statements hold.")
    (found,) = ktx(*COMMAND, "1", "--neither", "--because", "7 days", "--json").data["contradictions"]
    assert (found["holds"], found["decision"], found["reason"]) == ([], "None of the statements holds.", "7 days")


@pytest.mark.table(
    ("words", "message", "hint"),
    [
        (("return windw", "--holds", "1"), "no contradiction has the topic or number", "'return window'"),
        (("7",), "no contradiction has the topic or number `7`", "--all"),
        (("1", "--holds", "3"), "--holds requires the number of a statement from 1 to 2, not 3", "'return window'"),
        (
            ("1", "--holds", "1", "--holds", "2", "--by", "A"),
            "a decision for 2 statements requires a reason",
            "--because",
        ),
        (("1", "--neither", "--by", "A"), "a decision for none of the statements requires a reason", "--because"),
        (("1", "--neither", "--holds", "1"), "cannot be used together", "remove one of them"),
        (("--holds", "1"), "--holds, --neither and --reopen require a TOPIC", "ktx wiki contradictions"),
        (("1", "--because", "x"), "--because and --by require a decision", "--holds"),
        (("1", "--reopen", "--holds", "1"), "cannot be used together", "remove all but one"),
        (("--review",), "--review requires a terminal", "--holds 1"),
        (("1", "--holds", "1", "--by", "password = hunter2hunter2"), "the decision contains", "remove it"),
    ],
)
def test_what_cannot_be_decided(words: tuple[str, ...], message: str, hint: str, ktx: Run, recorded: Path) -> None:
    answer = ktx(*COMMAND, *words, "--json")
    assert answer.code == 2
    assert message in answer.envelope["error"]["message"] and hint in answer.envelope["error"]["hint"]
    assert recorded.read_text() == MINE


def test_a_topic_that_several_have_is_named_by_its_number(ktx: Run, recorded: Path) -> None:
    recorded.write_text(MINE.replace("topic: b", "topic: return window"))
    answer = ktx(*COMMAND, "return window", "--json")
    assert (
        answer.code == 2
        and "2 contradictions have the topic `return window`: 1, 2" in answer.envelope["error"]["message"]
    )
    assert ktx(*COMMAND, "2", "--reopen").code == 0


@pytest.mark.table(
    ("text", "message"),
    [
        ("contradictions: [x]\n", "the entry `x` is not a topic with statements"),
        ("contradictions: [{topic: vip}]\n", "the entry `vip` is not a topic with statements"),
        ("contradictions: {a: 1}\n", "the value of `contradictions` is not a list"),
        ("contradictions: [\n", "contradictions.yaml"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_and_stays(text: str, message: str, ktx: Run, recorded: Path) -> None:
    recorded.write_text(text)
    for words in (COMMAND, (*COMMAND, "1", "--holds", "1", "--by", "Ada")):
        answer = ktx(*words, "--json")
        assert answer.code != 0 and message in answer.envelope["error"]["message"]
    found = ktx("lint", "--select", "KTX235", "--json")
    assert found.code == 1 and message in found.data["findings"][0]["message"]
    assert recorded.read_text() == text


def test_lint_names_what_is_open_with_its_line(ktx: Run, recorded: Path) -> None:
    answer = ktx("lint", "--select", "KTX235", "--json")
    (found,) = answer.data["findings"]
    assert (answer.code, found["path"], found["line"], found["level"]) == (1, "contradictions.yaml", 3, "warning")
    assert "Customers have 14 days." in found["message"] and "--holds 1" in found["hint"]
    assert ktx(*COMMAND, "1", "--holds", "1", "--by", "Ada").code == 0
    assert ktx("lint", "--select", "KTX235").code == 0


@pytest.mark.table(
    ("typed", "answer"),
    [
        ("2\n\n", Answer((2,))),
        ("1\nLegal said so\n", Answer((1,), "Legal said so")),
        ("2, 1\n\nby year\n", Answer((1, 2), "by year")),
        ("n\nseven days\n", Answer((), "seven days")),
        ("3\n,\n\ns\n", Answer()),
        ("q\n", None),
    ],
)
def test_a_review_asks_what_holds_and_why(
    typed: str,
    answer: Answer | None,
    recorded: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    first = list_contradictions(Layout(recorded.parent))[0]
    assert ask_contradiction(first, "1 of 1", None) == answer
    shown = capsys.readouterr().err
    assert "1 of 1: return window\n  1) docs/old.md, 2023: Customers have 14 days.\n" in shown
    assert shown.count("type numbers from 1 to 2") == (3 if "3" in typed else 0)
