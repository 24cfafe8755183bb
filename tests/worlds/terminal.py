"""Drives a program in a pseudo-terminal as a person would: reads what it shows, types, presses keys.

    with Terminal(["ktx", "setup"], folder=folder) as terminal:
        terminal.wait_for("Which language model?")
        terminal.key("down", "enter")
        assert terminal.wait() == 0
        print(terminal.transcript())

Nothing sleeps: every wait ends with the output it waits for, or fails with what the screen shows.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyte.screens import Char

    from tests.worlds.forks import Fork, Forks


WAIT: Final = 20.0
"""Seconds within which what is waited for must come."""

QUIET: Final = 0.02
"""Seconds without output, nothing of the program running, after which it has drawn all it had to."""

SETTLE: Final = 1.0
"""Seconds after which a program that never pauses (one that shows the time) counts as done drawing."""

KEYS: Final[Mapping[str, str]] = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "shift-tab": "\x1b[Z",
    "space": " ",
    "backspace": "\x7f",
    "delete": "\x1b[3~",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "page-up": "\x1b[5~",
    "page-down": "\x1b[6~",
    **{f"ctrl-{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"},
}
"""What a terminal sends for a key, by the name `Terminal.key` takes."""

_OWN_TERMINAL: Final = (
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])"
)
# Becomes the program, with its standard input as the terminal that Ctrl-C and hang-ups come from, even under nohup.


class TerminalError(AssertionError):
    """The program did not show what was waited for, or has ended; the message holds its screen."""


class Terminal:
    """A program in a terminal of its own, `columns` wide and `rows` high, that calls itself `term`.

    A `dumb` one understands no escape sequence: each stands on the screen as `^[` and what follows it.
    It starts in `folder` (the current one) with `environ` (this process's), less `CI`, so that it may ask questions.
    `stdout` names a file for its standard output, as `> FILE` does. `forks` starts it, which must be `ktx`, in a fork.
    Use as a context manager, or call `close`.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        columns: int = 80,
        rows: int = 24,
        term: str = "xterm-256color",
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
        stdout: Path | None = None,
        forks: Forks | None = None,
    ) -> None:
        try:
            import pyte

            from tests.worlds.screen import Screen
        except ImportError as error:
            raise ImportError(f"{__name__} needs {error.name}: pip install 'ktx-cli[testing]'") from error
        self._is_dumb = term == "dumb"
        self._screen = Screen(columns, rows, self._reply)
        self._stream = pyte.Stream(self._screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._output: list[str] = []
        self._is_over = False
        self._terminal, other = os.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        try:
            self._process: subprocess.Popen[bytes] | Fork
            variables = _environ(environ, term)
            if forks is None:
                self._process = _started(command, other, folder, variables, stdout)
            else:
                words, here = [str(word) for word in command[1:]], folder or Path.cwd()
                name = os.ttyname(other)
                self._process = forks.at_terminal(words, folder=here, environ=variables, terminal=name, out=stdout)
        except BaseException:
            os.close(self._terminal)
            raise
        finally:
            os.close(other)

    @property
    def pid(self) -> int:
        """The program's process id, which is its group's and its session's too."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        """Whether the program, and whatever it started, has let go of the terminal."""
        self._take_all()
        return self._is_over

    @property
    def output(self) -> str:
        """All the program has written, escape sequences included."""
        self._take_all()
        return "".join(self._output)

    def screen(self) -> str:
        """Return the visible lines, blanks at their ends left out."""
        self._take_all()
        return "\n".join(self._screen.shown())

    def transcript(self) -> str:
        """Return all that could be read, scrolled away or not, in order; what was drawn over counts as it was last."""
        self._take_all()
        return "\n".join(self._screen.read())

    def rows(self) -> list[list[Char]]:
        """Return the characters of all that could be read, a list for each line, with their styles."""
        self._take_all()
        return self._screen.rows()

    def wait_for(self, text: str, seconds: float = WAIT, *, times: int = 1) -> None:
        """Return when the transcript holds `text` (`times` times) and the program has drawn all it had to.

        White space does not count, so that `text` is found wherever its lines are broken.
        """
        wanted = "".join(text.split())
        what = repr(text) if times == 1 else f"{text!r} ({times} times)"
        self.wait_until(lambda seen: "".join(seen.split()).count(wanted) >= times, what, seconds)

    def wait_until(self, holds: Callable[[str], bool], what: str, seconds: float = WAIT) -> None:
        """Return when `holds` is true of the transcript; `what` names it in the error.

        Raises `TerminalError` where the program ends before, or `seconds` pass.
        """
        deadline = time.monotonic() + seconds
        while not holds("\n".join(self._screen.read())):
            if not self._take(deadline - time.monotonic()):
                why = "before the program ended" if self._is_over else f"within {seconds:g} s"
                raise self._error(f"{what} did not come {why}")
        self._settle(deadline)

    def send(self, text: str) -> None:
        """Type `text` as it stands; raises `TerminalError` where nobody is there to read it."""
        rest = text.encode()
        try:
            while rest:
                rest = rest[os.write(self._terminal, rest) :]
        except OSError as error:
            raise self._error(f"nobody reads {text!r}: {error.strerror}") from error

    def paste(self, text: str) -> None:
        """Paste `text`, marked as pasted where the program has asked for that."""
        self.send(f"\x1b[200~{text}\x1b[201~" if self._screen.marks_pastes else text)

    def key(self, *names: str) -> None:
        """Press keys of `KEYS` in turn. `escape` goes last: with more behind it, it begins the name of another key."""
        if "escape" in names[:-1]:
            raise ValueError("`escape` goes last: wait for what it does before the next key")
        self.send("".join(KEYS[name] for name in names))

    def wait(self, seconds: float = WAIT) -> int:
        """Return the program's exit status when it has ended, below zero where a signal ended it."""
        deadline = time.monotonic() + seconds
        while not self._is_over and self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._error(f"the program did not end within {seconds:g} s")
            self._take(min(left, QUIET))
        while self._take(QUIET):  # nothing more comes, or somebody it started holds the terminal
            pass
        return self._process.wait(max(deadline - time.monotonic(), SETTLE))

    def kill(self) -> int:
        """End the program itself with SIGKILL, and return its exit status."""
        self._process.kill()
        return self.wait()

    def hang_up(self) -> int:
        """Close the terminal under the program, as who closes its window does, and return its exit status."""
        self._let_go()
        return self._process.wait(WAIT)

    def close(self) -> int:
        """End what still runs, let go of the terminal, and return the exit status; harmless when called twice."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        self._let_go()
        return status

    def _let_go(self) -> None:
        if self._terminal >= 0:
            self._take_all()
            os.close(self._terminal)
            self._terminal, self._is_over = -1, True

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take_all(self) -> None:
        while self._take(0):
            pass

    def _take(self, seconds: float) -> bool:
        """Take in what the program writes within `seconds`; False where it writes nothing, or has ended."""
        if self._is_over or not select.select([self._terminal], [], [], max(seconds, 0))[0]:
            return False
        try:
            chunk = os.read(self._terminal, 65536)
        except OSError:  # Linux says so when nobody has the other end any more
            chunk = b""
        self._is_over = not chunk
        text = self._decoder.decode(chunk)
        self._output.append(text)
        self._stream.feed(text.replace("\x1b", "^[") if self._is_dumb else text)
        return not self._is_over

    def _reply(self, text: str) -> None:
        with contextlib.suppress(TerminalError):  # it asked and ended
            self.send(text)

    def _settle(self, deadline: float) -> None:
        """Wait until the program has drawn all it had to, and waits itself."""
        end = min(deadline, time.monotonic() + SETTLE)
        while not self._is_over and time.monotonic() < end:
            if not self._take(QUIET) and not _is_running(self._process.pid):
                return

    def _error(self, problem: str) -> TerminalError:
        rule = "-" * self._screen.columns
        return TerminalError("\n".join((f"{problem}; the screen:", rule, *self._screen.shown(), rule)))


def _started(
    command: Sequence[str | Path], terminal: int, folder: Path | None, environ: dict[str, str], to: Path | None
) -> subprocess.Popen[bytes]:
    with contextlib.ExitStack() as stack:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _OWN_TERMINAL, *map(str, command)],
            stdin=terminal,
            stdout=terminal if to is None else stack.enter_context(to.open("wb")),
            stderr=terminal,
            cwd=folder,
            env=environ,
            start_new_session=True,
        )


def _environ(environ: Mapping[str, str] | None, term: str) -> dict[str, str]:
    """Return what a program in a terminal finds: no `CI`, no size but the terminal's own."""
    given = os.environ if environ is None else environ
    return {name: value for name, value in given.items() if name not in ("CI", "COLUMNS", "LINES")} | {"TERM": term}


def _is_running(pid: int) -> bool:
    """Return whether a thread of the process runs, wants to or waits for a disk; False where `/proc` does not tell."""
    try:
        states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:  # a thread that just ended
        return True
    return "R" in states or "D" in states
