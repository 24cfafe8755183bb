"""Three decisions of a person in a real terminal: their time, their one commit, and the receipts around them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ktx_cli.core import isoformat, now
from tests.cli.setup_terminal import RENEW, RENEWS, World
from tests.subscription_project import AMOUNT_ID, FISCAL_ID, POINT, make_undecided
from tests.worlds.forks import Forks

RECORDING: Final = Path(__file__).resolve().parents[2] / "docs" / "recordings" / "decide.txt"
SECONDS: Final = 120.0
KEYSTROKE: Final = 0.02
"""Seconds between two keys: a quick typist."""
QUESTION: Final = ("sl", "query", "-m", "subscriptions.revenue", "-d", "metric_time:fiscal_year")
ANSWERS: Final = (
    ("Do internal accounts count?", "2", "They pay nothing"),
    ("Is revenue gross or net?", "2", "As in the annual report"),
    ("In which month does the fiscal year begin?", "2", ""),
)


@pytest.fixture
def world(forks: Forks) -> Iterator[World]:
    with World() as made:
        made_up = make_undecided(made.folder)
        done = made.ktx(forks, "scan", "--depth", "structural", "-q")
        assert done.returncode == 0 and made_up == made.folder, done.stderr
        yield made


def _asked(world: World, forks: Forks) -> str:
    """Ask for revenue by fiscal year in a terminal, and return what it shows."""
    with world.start(*QUESTION, forks=forks) as terminal:
        assert terminal.wait() == 0, terminal.transcript()
        return terminal.transcript()


def _decide(world: World) -> tuple[str, float]:
    """Answer the three questions as a person types, and return what the terminal shows and the seconds it took."""
    started = time.monotonic()
    with world.start("decide") as terminal:
        for number, (question, *typed) in enumerate(ANSWERS, start=1):
            terminal.wait_for(f"{number} of {len(ANSWERS)}: {question}")
            for prompt, text in zip(("Which reading?", "Reason (optional):"), typed, strict=True):
                terminal.wait_for(prompt, times=number)
                for letter in text:
                    terminal.send(letter)
                    time.sleep(KEYSTROKE)
                terminal.key("enter")
        assert terminal.wait() == 0, terminal.transcript()
        return terminal.transcript(), time.monotonic() - started


@pytest.mark.slow
def test_three_decisions_take_less_than_two_minutes_and_one_commit(world: World, forks: Forks) -> None:
    start = world.git("rev-parse", "HEAD")
    before = _asked(world, forks)
    session, seconds = _decide(world)
    print(f"three decisions: {seconds:.1f} s")
    assert seconds < SECONDS
    assert world.git("rev-list", "--count", f"{start}..HEAD") == "1"
    assert world.git("status", "--porcelain") == ""
    after = _asked(world, forks)
    for point in (POINT, AMOUNT_ID, FISCAL_ID):
        assert f"decide{point}" in "".join(before.split()), point
        assert point in "".join(session.split())
    assert "open:" not in after
    assert world.ktx(forks, "sl", "test").returncode == 0
    commit = world.git("log", "-1", "--format=%an: %B").strip()
    ask = f"$ ktx {' '.join(QUESTION)}"
    text = f"{ask}\n{before}\n\n$ ktx decide\n{session}\n\n$ git log -1\n{commit}\n\n{ask}\n{after}\n"
    text = world.recorded(text).replace(isoformat(now())[:10], "2026-01-31")
    text = re.sub(r"\b[0-9a-f]{10}\b(?= \(\d+ files?\))", "0f1e2d3c4b", text)
    if RENEWS:
        RECORDING.write_text(text, "utf-8")
    assert text == RECORDING.read_text("utf-8"), f"meant? {RENEW}=1 pytest tests/cli/test_decide_terminal.py; make docs"
