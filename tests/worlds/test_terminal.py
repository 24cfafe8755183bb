from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.terminal import KEYS, Terminal, TerminalError

PYTHON = (sys.executable, "-I", "-S", "-c")
LONG = "Which of the schemas of this database should be read, as patterns with a star for any name?"

QUESTIONS = f"""
import json, questionary
answers = {{
    "backend": questionary.select("Which backend?", ["none", "anthropic", "vertex"]).unsafe_ask(),
    "schemas": questionary.text({LONG!r}).unsafe_ask(),
    "password": questionary.password("Which password?").unsafe_ask(),
    "sure": questionary.confirm("Save it?", default=False).unsafe_ask(),
    "clients": questionary.checkbox("Which agents?", ["claude", "cursor", "codex"]).unsafe_ask(),
}}
print(json.dumps(answers))
"""
CHOSEN = {"backend": "vertex", "schemas": "mart.*", "password": "hunter2", "sure": True, "clients": ["claude", "codex"]}
ANSWERED = [
    "? Which backend? vertex",
    f"? {LONG} mart.*",
    "? Which password? *******",
    "? Save it? Yes",
    "? Which agents? done (2 selections)",
    json.dumps(CHOSEN),
]

Open = Callable[..., Terminal]


@pytest.fixture
def start() -> Iterator[Open]:
    """Start a program in a terminal; it is closed at the end of the test."""
    terminals: list[Terminal] = []

    def opened(*command: str, **how: Any) -> Terminal:
        terminals.append(Terminal(command, **how))
        return terminals[-1]

    yield opened
    for terminal in terminals:
        terminal.close()


def answer(terminal: Terminal) -> None:
    """Answer the five questions; each is on the screen as a person sees it before it is answered."""
    terminal.wait_for("Which backend?")
    terminal.wait_for("anthropic vertex")
    terminal.key("down", "down", "enter")
    terminal.wait_for(LONG)
    terminal.send("mart.x")
    terminal.key("backspace")
    terminal.send("*")
    terminal.key("enter")
    terminal.wait_for("Which password?")
    terminal.paste("hunter2")
    terminal.key("enter")
    terminal.wait_for("Save it?")
    terminal.send("y")
    terminal.wait_for("Which agents?")
    terminal.wait_for("codex")
    terminal.key("space", "down", "down", "space", "enter")


@pytest.mark.parametrize("columns", [80, 120])
def test_questions_leave_their_final_form(start: Open, columns: int) -> None:
    terminal = start(sys.executable, "-c", QUESTIONS, columns=columns)
    answer(terminal)
    assert terminal.wait() == 0
    lines = [line[at : at + columns].rstrip() for line in ANSWERED for at in range(0, len(line), columns)]
    assert terminal.transcript().splitlines() == lines
    assert len(lines) == (8 if columns == 80 else 6)
    assert "hunter2" not in terminal.transcript().rsplit("\n", 2)[0]


DUMB = """
import questionary
name = input("Your name: ")
print(questionary.select("Which backend?", ["none", "anthropic"]).unsafe_ask(), name)
"""


def test_a_dumb_terminal_shows_escape_sequences_as_they_are(start: Open) -> None:
    terminal = start(sys.executable, "-c", DUMB, term="dumb")
    terminal.wait_for("Your name:")
    assert terminal.screen() == "Your name:"
    terminal.send("Ada\r")
    terminal.wait_for("anthropic")
    assert "^[[0m   anthropic" in terminal.screen()
    terminal.key("down", "enter")
    assert terminal.wait() == 0
    assert terminal.transcript().endswith("anthropic Ada")
    assert "\x1b[" in terminal.output


FACTS = """
import json, os, sys
size = os.get_terminal_size()
print(json.dumps({
    "terminals": [stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)],
    "own": os.tcgetpgrp(os.open("/dev/tty", os.O_RDWR)) == os.getpid(),
    "size": list(size), "folder": os.getcwd(),
    "environ": {name: os.environ.get(name) for name in ("CI", "TERM", "COLUMNS", "LINES", "MINE")},
}))
"""


def test_the_program_finds_a_terminal_of_its_own_and_no_ci(start: Open, tmp_path: Path) -> None:
    environ = {**os.environ, "CI": "true", "COLUMNS": "7", "LINES": "7", "TERM": "other", "MINE": "kept"}
    terminal = start(*PYTHON, FACTS, columns=4000, rows=30, environ=environ, folder=tmp_path)
    assert terminal.wait() == 0
    assert json.loads(terminal.transcript()) == {
        "terminals": [True, True, True],
        "own": True,
        "size": [4000, 30],
        "folder": str(tmp_path.resolve()),
        "environ": {"CI": None, "TERM": "xterm-256color", "COLUMNS": None, "LINES": None, "MINE": "kept"},
    }


SHOWN: dict[str, tuple[str, list[str]]] = {
    "scrolled away": ("".join(f"{n}\\n" for n in range(60)), [str(n) for n in range(60)]),
    "drawn over": ("10 %%\\r50 %%\\rdone\\n", ["done"]),
    "cleared": ("before\\n\\033[H\\033[2J\\033[3Jafter\\n", ["before", "after"]),
    "blank lines": ("one   \\n\\n two\\n\\n\\n", ["one", "", " two"]),
    "wide": ("日本 two\\n", ["日本 two"]),
    "without width": ("\\342\\232\\240\\357\\270\\217 then\\n", ["⚠ then"]),
    "combined": ("e\\314\\201t\\303\\251\\n", ["été"]),
    "broken": ("x" * 45 + "\\n", ["x" * 40, "x" * 5]),
    "no end of line": ("word", ["word"]),
    "not UTF-8": ("\\377ok\\n", ["\N{REPLACEMENT CHARACTER}ok"]),
}


@pytest.mark.table(("written", "lines"), list(SHOWN.values()))
def test_the_transcript_is_what_could_be_read(start: Open, written: str, lines: list[str]) -> None:
    terminal = start("printf", written, columns=40, rows=10)
    assert terminal.wait() == 0
    assert terminal.transcript().splitlines() == lines
    assert terminal.screen().splitlines() == lines[-9:] or len(lines) < 10


ASKING = """
import os, sys, tty
tty.setraw(0)
os.write(1, b"ab\\x1b[6n")
os.write(1, b" at " + os.read(0, 20)[1:])
"""


def test_a_program_learns_where_the_cursor_is(start: Open) -> None:
    terminal = start(*PYTHON, ASKING)
    assert terminal.wait() == 0
    assert terminal.transcript() == "ab at [1;3R"


def test_text_is_found_wherever_its_lines_are_broken_and_as_often_as_asked(start: Open) -> None:
    terminal = start("sh", "-c", "echo the first question; read a; echo the first question; read b", columns=8)
    terminal.wait_for("the first question")
    with pytest.raises(TerminalError, match=r"'first question' \(2 times\) did not come within 0 s"):
        terminal.wait_for("first question", 0, times=2)
    terminal.send("a\n")
    terminal.wait_for("first question", times=2)
    terminal.send("b\n")
    assert terminal.wait() == 0


def test_what_does_not_come_fails_with_the_screen(start: Open) -> None:
    terminal = start("sh", "-c", "echo here I am; read line; echo $line; exit 7", columns=20)
    terminal.wait_for("here I am")
    with pytest.raises(TerminalError) as failed:
        terminal.wait_for("never", 0.01)
    assert str(failed.value) == f"'never' did not come within 0.01 s; the screen:\n{'-' * 20}\nhere I am\n{'-' * 20}"
    assert not terminal.is_over
    with pytest.raises(TerminalError, match="the program did not end within 0 s"):
        terminal.wait(0)
    terminal.send("bye\n")
    with pytest.raises(TerminalError, match="'never' did not come before the program ended"):
        terminal.wait_for("never")
    assert terminal.is_over
    assert (terminal.wait(), terminal.transcript()) == (7, "here I am\nbye\nbye")
    assert terminal.close() == 7
    with pytest.raises(TerminalError, match="nobody reads 'more'"):
        terminal.send("more")


READING, WAITING = "exec cat", "exec sleep 60"
"""What reads a terminal that is gone may end by itself before its signal comes."""
ENDS: dict[str, tuple[str, Callable[[Terminal], object], int]] = {
    "interrupted": (READING, lambda terminal: terminal.key("ctrl-c"), -signal.SIGINT),
    "told that nothing more comes": (READING, lambda terminal: terminal.key("ctrl-d"), 0),
    "killed": (READING, lambda terminal: terminal.kill(), -signal.SIGKILL),
    "hung up": (WAITING, lambda terminal: terminal.hang_up(), -signal.SIGHUP),
    "closed": (READING, lambda terminal: terminal.close(), -signal.SIGKILL),
}


@pytest.mark.table(("program", "ends", "status"), list(ENDS.values()))
def test_a_program_ends_as_a_person_has_it(
    start: Open, program: str, ends: Callable[[Terminal], object], status: int
) -> None:
    terminal = start("sh", "-c", f"echo ready; {program}")
    terminal.wait_for("ready")
    ends(terminal)
    assert terminal.wait() == status == terminal.close()


def test_what_a_program_leaves_behind_does_not_keep_its_terminal(start: Open) -> None:
    terminal = start("sh", "-c", "trap '' HUP; sleep 60 & echo $!")
    assert terminal.wait() == 0
    os.kill(int(terminal.transcript()), signal.SIGKILL)


def test_its_standard_output_may_go_to_a_file(start: Open, tmp_path: Path) -> None:
    terminal = start("sh", "-c", "echo data; echo question >&2; read line", stdout=tmp_path / "out")
    terminal.wait_for("question")
    terminal.key("enter")
    assert terminal.wait() == 0
    assert terminal.transcript().splitlines() == ["question"]
    assert (tmp_path / "out").read_text() == "data\n"


PASTED = """
import os, tty
tty.setraw(0)
os.write(1, b"%s ready ")
os.write(1, repr(os.read(0, 40)).encode())
"""


@pytest.mark.table(("mode", "read"), [("\\x1b[?2004h", rb"\x1b[200~key\x1b[201~"), ("", "key")])
def test_pasted_text_is_marked_where_the_program_asks_for_it(start: Open, mode: str, read: str | bytes) -> None:
    terminal = start(*PYTHON, PASTED % mode)
    terminal.wait_for("ready")
    terminal.paste("key")
    assert terminal.wait() == 0
    text = read.decode() if isinstance(read, bytes) else read
    assert terminal.transcript().strip() == f"ready b'{text}'"


def test_keys(start: Open) -> None:
    assert (KEYS["ctrl-c"], KEYS["ctrl-z"]) == ("\x03", "\x1a")
    with pytest.raises(ValueError, match="`escape` goes last"):
        start("cat").key("escape", "enter")


def test_without_pyte_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyte", None)
    with pytest.raises(ImportError, match=r"needs pyte: pip install 'ktx-cli\[testing\]'"):
        Terminal(["true"])
