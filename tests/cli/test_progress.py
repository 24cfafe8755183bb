"""Progress on stderr: the view that moves on a terminal, plain lines, JSON Lines."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ktx_cli.cli import streams
from ktx_cli.cli.progress import LiveDrawing, RunView, drawing
from ktx_cli.cli.settings import ProgressMode, Settings
from ktx_cli.core import events
from ktx_cli.core.events import (
    CommandFinished,
    Event,
    Notice,
    ReconcileStep,
    RunFinished,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
    UnitsPlanned,
    UsageSoFar,
    Waiting,
    WorkUnitFinished,
    WorkUnitResumed,
    WorkUnitStarted,
    WorkUnitStep,
    WorkUnitUsage,
    event_of,
)

NASTY = "a\x1b[2J\x9b31m\x07\nb"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SAMPLES: list[Event] = [
    RunStarted(NASTY, NASTY),
    StepStarted(NASTY, NASTY),
    StepProgress(NASTY, 1, 2, NASTY),
    UnitsPlanned(NASTY, NASTY, 3),
    WorkUnitStarted(NASTY, NASTY, NASTY, 1),
    WorkUnitResumed(NASTY, NASTY, 3, 4),
    WorkUnitStep(NASTY, NASTY, 1, 40, 2),
    WorkUnitUsage(NASTY, NASTY, 10, 0.5, 1),
    WorkUnitFinished(NASTY, NASTY, "failed", NASTY, True),
    ReconcileStep(1, 60, 2),
    UsageSoFar(10, 0.5, 1),
    Waiting(NASTY, 2.0),
    Waiting(NASTY),
    Notice(NASTY),
    StepFinished(NASTY, NASTY, 1.0, NASTY),
    RunFinished(NASTY, "done", 1.0),
    CommandFinished(NASTY, 1, 1.0, NASTY, "failed", NASTY, NASTY),
]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MOVES = re.compile(r"\x1b\[(?:2K|1A|\?25[lh])")
WORKING = (
    RunStarted("r", "ktx ingest"),
    StepStarted("units"),
    UnitsPlanned("docs", "files", 12),
    *(WorkUnitStarted("docs", f"{name}.md", "", 1) for name in "abcd"),
    WorkUnitFinished("docs", "a.md", "done", ""),
    WorkUnitStep("docs", "b.md", 4, 40, 7),
    UsageSoFar(12_345, 0.0312, 0),
)


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Screen:
    """What a person sees of what was written: lines and a cursor, moved by what rich writes."""

    def __init__(self, text: str) -> None:
        self.lines = [""]
        row = column = 0
        for piece in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", COLOUR.sub("", text)):
            if piece == "\n":
                row, column = row + 1, 0
                self.lines += [""] * (row + 1 - len(self.lines))
            elif piece == "\r":
                column = 0
            elif piece == "\x1b[2K":
                self.lines[row] = ""
            elif piece == "\x1b[1A":
                row -= 1
            elif not piece.startswith("\x1b"):
                old = self.lines[row].ljust(column)
                self.lines[row] = old[:column] + piece + old[column + len(piece) :]
                column += len(piece)
        self.lines = [line.rstrip() for line in self.lines]


def shown(monkeypatch: pytest.MonkeyPatch, settings: Settings, *wanted: Event) -> str:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    view = drawing(settings)
    for event in wanted:
        view.emit(event)
    view.close()
    return stream.getvalue()


def clean(text: str) -> bool:
    return all(character == "\n" or character.isprintable() for character in text)


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.delenv("CI", raising=False)
    yield


def test_every_event_is_in_the_samples_and_comes_back_from_its_json() -> None:
    kinds = {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)}
    assert {type(event) for event in SAMPLES} == kinds - {Event}
    for event in SAMPLES:
        assert event_of({"at": "2026-01-31T12:00:00Z", **json.loads(json.dumps(event.to_json()))}) == event
    assert event_of({"event": "of a newer version"}) is None
    assert event_of({"event": "notice", "other": 1}) is None


@pytest.mark.table("mode", list(ProgressMode))
def test_progress_holds_nothing_a_terminal_obeys(monkeypatch: pytest.MonkeyPatch, mode: ProgressMode) -> None:
    for event in SAMPLES:
        text = shown(monkeypatch, Settings(progress=mode), event)
        assert clean(MOVES.sub("", COLOUR.sub("", text)).replace("\r", "")), event
        if mode is not ProgressMode.AUTO:
            assert text.count("\n") <= 1


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    drawn = shown(monkeypatch, Settings(), StepStarted("scan"), StepFinished("scan", "3 tables", 1.0))
    assert drawn == "scan: 3 tables (1.0 s)\n"


def test_plain_lines_say_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Settings(progress=ProgressMode.PLAIN)
    assert shown(monkeypatch, plain, Waiting("x"), Waiting("x", 3.0)) == "waiting: x\nwaiting: x (at most 3 s)\n"
    assert shown(monkeypatch, plain, *WORKING) == "docs: 12 units for agents\ndocs: a.md: done\n"


def test_the_view_names_sources_units_tokens_and_cost() -> None:
    view = RunView()
    for event in WORKING:
        view.take(event, NOON)
    assert [line.text for line in view.lines(NOON + timedelta(seconds=65), 20)] == [
        "ktx ingest · 1:05 · 12,345 tokens, $0.0312",
        "  docs: 1 of 12 units done",
        "    b.md: step 4 of at most 40, 7 tool calls · 1:05",
        "    c.md: begun · 1:05",
        "    d.md: begun · 1:05",
    ]
    view.take(Waiting("the provider", 60.0), NOON)
    view.take(UsageSoFar(12_345, 0.0312, 2), NOON)
    assert [line.text for line in view.lines(NOON, 4)] == [
        "ktx ingest · 0 s · 12,345 tokens, $0.0312 +?",
        "  docs: 1 of 12 units done",
        "  … and 3 more",
        "  waiting: the provider (at most 1:00)",
    ]
    assert "waiting" not in str(view.lines(NOON + timedelta(seconds=61), 20))
    assert view.take(WorkUnitFinished("docs", "b.md", "failed", "why"), NOON) == "docs: b.md: failed: why"
    assert view.lines(NOON, 20)[1].text == "  docs: 1 of 12 units done, 1 failed"
    view.take(RunFinished("r", "done", 1.0), NOON)
    assert (view.is_active, view.lines(NOON, 20)) == (False, [])


def test_the_view_names_what_units_take_and_what_earlier_runs_did_of_them() -> None:
    view = RunView()
    said = [
        view.take(event, NOON)
        for event in (
            *WORKING,
            WorkUnitUsage("docs", "b.md", 900, 0.0012, 1),
            WorkUnitResumed("docs", "c.md", 3, 5),
            WorkUnitFinished("docs", "e.md", "done", "", replayed=True),
            WorkUnitUsage("docs", "a.md", 7, 0.0, 0),
        )
    ]
    assert set(said) == {None}
    assert [line.text for line in view.lines(NOON, 20)][1:] == [
        "  docs: 2 of 12 units done, 1 of them from an earlier run",
        "    b.md: step 4 of at most 40, 7 tool calls, 900 tokens, $0.0012 +? · 0 s",
        "    c.md: continues after step 3 of an earlier run · 0 s",
        "    d.md: begun · 0 s",
    ]
    view.take(WorkUnitStep("docs", "c.md", 4, 40, 2), NOON)
    assert view.lines(NOON, 20)[3].text == "    c.md: step 4 of at most 40, 7 tool calls · 0 s"


def test_plain_lines_say_what_earlier_runs_did(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (WorkUnitResumed("docs", "c.md", 3, 5), WorkUnitFinished("docs", "e.md", "done", "", replayed=True))
    assert shown(monkeypatch, Settings(progress=ProgressMode.PLAIN), *found) == (
        "docs: c.md continues after 3 steps of an earlier run\ndocs: e.md: done, from an earlier run\n"
    )


def test_a_step_without_a_beginning_is_shown_until_it_is_done() -> None:
    view = RunView()
    view.take(StepProgress("index", 1, 2), NOON)
    assert [line.text for line in view.lines(NOON, 20)] == ["  index 1/2 · 0 s"]
    view.take(StepProgress("index", 2, 2), NOON)
    assert not view.is_active


def test_the_live_view_leaves_what_stays_and_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    view = drawing(Settings())
    for event in WORKING:
        view.emit(event)
    streams.write_err("warning: in between\n")
    view.emit(StepFinished("scan", "3 tables", 1.0, "shop"))
    below = Screen(stream.getvalue()).lines
    assert below[:3] == ["warning: in between", "shop: scan: 3 tables (1.0 s)", below[2]]
    assert below[2].startswith("ktx ingest · ")
    assert below[2].endswith("12,345 tokens, $0.0312")
    assert all(len(line) <= 79 for line in below)
    view.close()
    view.close()
    streams.write_err("after\n")
    said = stream.getvalue()
    assert [line for line in Screen(said).lines if line] == [
        "warning: in between", "shop: scan: 3 tables (1.0 s)", "after",
    ]  # fmt: skip
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h") > 0
    assert sys.stderr is stream


def test_a_line_that_stays_is_wrapped_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    view = LiveDrawing(stream, lambda: NOON, colour=False)
    view.emit(StepFinished("relationships", "1 declared foreign key", 0.1, "warehouse"))
    view.close()
    assert stream.getvalue().splitlines() == ["warehouse: relationships: 1 declared", "  foreign key (0.1 s)"]


def test_a_narrower_terminal_loses_no_line_and_keeps_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name)
    width = 40
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((width, 24)))
    stream = Terminal()
    view = LiveDrawing(stream, lambda: NOON, colour=False)
    view.emit(RunStarted("r", "ktx ingest"))
    view.emit(StepStarted("s" * 60, "c"))
    view.emit(Notice("wide"))
    before = len(stream.getvalue())
    width = 20  # a line of 39 cells now stands in two
    view.emit(Notice("narrow"))
    taken_away = stream.getvalue()[before:].partition("narrow")[0]
    assert taken_away == "\x1b[2K\x1b[1A" + "\r\x1b[2K" + "\x1b[1A\x1b[2K"
    view.close()


def test_nothing_is_drawn_while_nothing_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = shown(monkeypatch, Settings(), Notice("x"), StepStarted("a"), StepFinished("a", "b", 1.0), Notice("y"))
    assert [line for line in Screen(drawn).lines if line] == ["x", "a: b (1.0 s)", "y"]
    assert drawn.endswith("y\n")


def test_the_look_over_everything_is_shown_until_the_next_step_begins() -> None:
    view = RunView()
    for event in (RunStarted("r", "ktx ingest"), ReconcileStep(1, 60, 2)):
        view.take(event, NOON)
    assert any("reconciling the run" in line.text for line in view.lines(NOON, 9))
    view.take(StepStarted("commit"), NOON)
    assert not any("reconciling the run" in line.text for line in view.lines(NOON, 9))
