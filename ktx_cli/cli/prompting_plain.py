"""Questions on a terminal that knows no cursor: numbered lines, an answer a line; `<` goes back."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Sequence
from typing import Final

from ktx_cli.cli import streams
from ktx_cli.jobs.setup.wizard.asking import BackAsked, Check, Choice, Kind

_BACK: Final = ("<", "\x1b")
"""What goes back when it is typed alone: the second is what Esc sends."""


class PlainPrompter:
    """Asks line by line on stderr, and reads lines of stdin."""

    back = "<"

    def say(self, text: str, kind: Kind = "fact") -> None:
        """Tell something."""
        from ktx_cli.cli.prompting import told

        streams.write_err(("\n" if kind == "title" else "") + told(text, kind) + "\n")

    def select(self, question: str, choices: Sequence[Choice], default: str | None) -> str:
        """Let one choice be made, by its number."""
        self._list(question, choices)
        values = [choice.value for choice in choices]
        proposed = str(values.index(default) + 1) if default in values else ""
        return values[int(self._typed("Number", proposed, _number_of(values))) - 1]

    def several(self, question: str, choices: Sequence[Choice], chosen: Sequence[str]) -> list[str]:
        """Let any number of choices be made, by their numbers."""
        self._list(question, choices)
        values = [choice.value for choice in choices]
        one = _number_of(values)

        def check(text: str) -> str | None:
            return next((said for part in _parts(text) if (said := one(part))), None)

        proposed = " ".join(str(values.index(each) + 1) for each in chosen)
        return [values[int(part) - 1] for part in _parts(self._typed("Numbers, none: Enter", proposed, check))]

    def text(self, question: str, default: str, check: Check) -> str:
        """Let a text be typed."""
        return self._typed(question, default, check)

    def secret(self, question: str, check: Check) -> str:
        """Let a secret be typed unseen."""
        return self._typed(question, "", check, read=lambda said: getpass.getpass(said, stream=sys.stderr))

    def confirm(self, question: str, default: bool) -> bool:
        """Let a question be answered by yes or no."""

        def check(text: str) -> str | None:
            return None if text.lower() in ("y", "yes", "n", "no") else "y or n"

        return self._typed(f"{question} y/n", "y" if default else "n", check).lower().startswith("y")

    def _list(self, question: str, choices: Sequence[Choice]) -> None:
        self.say(question)
        for number, choice in enumerate(choices, 1):
            self.say(f"{number}) {choice.line}")

    def _typed(self, question: str, default: str, check: Check, read: Callable[[str], str] | None = None) -> str:
        proposed = f" [{default}]" if default else ""
        while True:
            typed = (read or _line)(f"? {question}{proposed}: ")
            if typed.strip() in _BACK:
                raise BackAsked
            answer = typed.strip() or default
            wrong = check(answer)
            if wrong is None:
                return answer
            self.say(wrong, "bad")


def _line(question: str) -> str:
    """Ask for a line; the end of stdin stops the wizard."""
    streams.write_err(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.rstrip("\n")


def _parts(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _number_of(values: Sequence[str]) -> Check:
    def check(text: str) -> str | None:
        right = text.isascii() and text.isdigit() and 1 <= int(text) <= len(values)
        return None if right else f"a number from 1 to {len(values)}"

    return check
