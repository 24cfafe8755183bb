"""A person who answers the questions of `ktx setup` in a terminal, and what they read on the way, kept as text."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

from ktx_cli.jobs.setup.detect.embeddings import EMBEDDING_SERVERS
from ktx_cli.jobs.setup.detect.models import LOCAL_GATEWAYS, ask
from tests.worlds.forks import Forks
from tests.worlds.terminal import Terminal, TerminalError

KTX: Final = Path(sys.executable).with_name("ktx")
RECORDINGS: Final = Path(__file__).parent / "recordings"
RENEW: Final = "KTX_RENEW_RECORDINGS"
RENEWS: Final = RENEW in os.environ  # now: no test finds a variable of ktx's
STANDS_FOR: Final = "/home/ada/work/analytics/my-shop"
"""What recordings call the project's folder; the real one is as long, so that lines break at the same places."""

ENTER: Final = "<enter>"
Answers = Mapping[str, str | tuple[str, ...]]
"""What is typed, by words of the question: the same each time, or in turn. `<down>` is a key, `{words}` waits."""

_TYPED = re.compile(r"(<[a-z-]+>|\{[^}]+\})")
_QUESTION = re.compile(r"^\? ", re.MULTILINE)
_VARYING: Final = (
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "N.N.N"),  # versions
    (re.compile(r"\b\d+\.\d s\b"), "N s"),
    (re.compile(r"(?<=commit)(:? +)[0-9a-f]{10}\b"), r"\g<1>0123456789"),
)
"""What differs from run to run, and what stands for it in a recording."""

SHOP: Final = """
    CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT);
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, amount REAL, placed_on DATE);
    INSERT INTO customers VALUES (1, 'Ada', 'NO'), (2, 'Grace', 'SE');
    INSERT INTO orders VALUES (1, 1, 10.5, '2026-01-01'), (2, 2, 4.5, '2026-01-02'), (3, 2, 3, '2026-01-03');
"""


SIGNED_OUT: Final = """#!/bin/sh
case "$1" in
  --version) echo "2.1.329 (Claude Code)";;
  --help) echo "--restricted";;
  auth) echo '{"loggedIn": false, "authMethod": "none", "apiProvider": "firstParty"}'; exit 1;;
esac
"""
"""A Claude Code without a session, as far as a setup looks."""


@dataclass
class Person:
    """Answers the questions of a program; `asked` are the words of `answers` by which each was recognised."""

    terminal: Terminal
    answers: Answers
    asked: list[str] = field(default_factory=list)
    _kept: list[str] = field(default_factory=list)
    _open: int = 0

    def next_question(self) -> str | None:
        """Return the words of the question that now stands open; None when the program has ended."""
        number = len(self.asked)
        try:
            self.terminal.wait_until(lambda seen: len(_QUESTION.findall(seen)) > number, f"question {number + 1}")
        except TerminalError:
            if not self.terminal.is_over:
                raise
            self._keep()
            return None
        lines = self._keep()
        begun, self._open = self._open, max(at for at, line in enumerate(lines) if _QUESTION.match(line))
        shown = _squeezed(lines[begun + 1 if number else 0 :])
        places = {question: shown.rfind(_squeezed([question])) for question in self.answers}
        question = max(places, key=lambda each: places[each])
        assert places[question] >= 0, f"no answer to question {number + 1}:\n{self.terminal.transcript()}"
        self.asked.append(question)
        return question

    def answer(self) -> None:
        """Answer the question that stands open."""
        question = self.asked[-1]
        typed = self.answers[question]
        if not isinstance(typed, str):
            typed = typed[self.asked.count(question) - 1]
        self._kept.append(f"[{typed}]")
        for part in filter(None, _TYPED.split(typed)):
            if part.startswith("<"):
                self.terminal.key(part[1:-1])
            elif part.startswith("{"):
                self.terminal.wait_for(part[1:-1])
                self._keep()
            else:
                self.terminal.send(part)

    def go_on(self, until: str | None = None) -> bool:
        """Answer question after question; True when `until` stands open, False at the end."""
        while (question := self.next_question()) is not None:
            if question == until:
                return True
            self.answer()
        return False

    def ended(self) -> int:
        """Answer all there is, and return the exit status."""
        self.go_on()
        return self.terminal.wait()

    def story(self) -> str:
        """Return what could be read, each question as it was asked and as it was answered, and what was typed."""
        return "\n".join(self._kept) + "\n"

    def _keep(self) -> list[str]:
        lines = self.terminal.transcript().splitlines()
        self._kept += lines[self._open :]
        return lines


def _squeezed(lines: list[str]) -> str:
    return "".join("".join(lines).split())


class World:
    """A machine on which nothing is set up: an empty home, a folder with a database, git and ktx on PATH.

    Use as a context manager: it is deleted at the end.
    """

    def __init__(self) -> None:
        base = Path(tempfile.mkdtemp(prefix="ktx-")).resolve()
        room = len(STANDS_FOR) - len(str(base)) - 1
        self.base = base
        self.home = base / "home"
        self.folder = base / ("p" * max(room, 1))
        self.is_recordable = room > 0
        self.is_recorded = False
        kept = ("TMPDIR", "SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "no_proxy")
        given = {name: os.environ[name] for name in kept if name in os.environ}
        programs = base / "bin"
        self.environ = {**given, "PATH": str(programs), "HOME": str(self.home), "LANG": "C.UTF-8"}
        for folder in (self.home, self.folder, programs):
            folder.mkdir()
        for program in ("git", "sh"):
            (programs / program).symlink_to(str(shutil.which(program)))
        (programs / "ktx").symlink_to(KTX)
        self._stand_in = programs / "claude-stand-in"
        self._stand_in.write_text(SIGNED_OUT)
        self._stand_in.chmod(0o755)
        database = sqlite3.connect(self.folder / "shop.sqlite")
        database.executescript(SHOP)
        database.close()

    def start(self, *arguments: str, **how: Any) -> Terminal:
        """Start `ktx` in a terminal, in the folder. A stand-in for Claude Code, which starts slowly, is found there.

        Where what is read is recorded it is the real one, which is named otherwise.
        """
        stand_in = {} if self.is_recorded else {"KTX_CLAUDE_CLI_BIN": str(self._stand_in)}
        return Terminal([KTX, *arguments], environ={**stand_in, **self.environ}, folder=self.folder, **how)

    def text(self, name: str) -> str:
        """Return the text of a file in the folder."""
        return (self.folder / name).read_text("utf-8")

    def ktx(self, forks: Forks, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run `ktx` in the folder without a terminal."""
        return forks.run(arguments, folder=self.folder, environ=self.environ, input=stdin)

    def run(self, *command: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program in the folder without a terminal."""
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, cwd=self.folder, env=self.environ, check=False
        )

    def git(self, *arguments: str) -> str:
        """Return what git says, which must have nothing against it."""
        done = self.run("git", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def recorded(self, text: str) -> str:
        """Return text as a recording has it: without what differs from run to run."""
        text = text.replace(str(self.folder), STANDS_FOR)
        for pattern, word in _VARYING:
            text = pattern.sub(word, text)
        assert self.base.name not in text, "a path is broken between two lines"
        return text

    def compare(self, name: str, text: str) -> None:
        """Hold text against its recording; `KTX_RENEW_RECORDINGS=1` writes it anew, to be reviewed as a diff."""
        self._require_like_recorded()
        path, text = RECORDINGS / f"{name}.txt", self.recorded(text)
        if RENEWS:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8"), f"meant? {RENEW}=1 pytest tests/cli/test_setup_terminal.py"

    def _require_like_recorded(self) -> None:
        if not self.is_recordable:
            pytest.skip(f"lines break elsewhere: {self.folder} is longer than {STANDS_FOR}")
        for gateway in (*LOCAL_GATEWAYS, *EMBEDDING_SERVERS):
            if ask(gateway.url):
                pytest.skip(f"{gateway.name} listens on this machine, and is offered")

    def __enter__(self) -> World:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.base, ignore_errors=True)
