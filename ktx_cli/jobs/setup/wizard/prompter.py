"""How the wizard asks: the port that a terminal implements, and what a person may do besides answering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["title", "fact", "good", "bad", "hint"]
Check = Callable[[str], str | None]
"""Says what is wrong with a text, None where nothing is."""


class BackAsked(Exception):
    """The person wants to go back to the question before."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a menu. `note`: what is to be known before it is chosen."""

    value: str
    label: str
    note: str = ""

    @property
    def line(self) -> str:
        """The line as it is shown."""
        return f"{self.label} ({self.note})" if self.note else self.label


class Prompter(Protocol):
    """Asks one question at a time; raises `BackAsked`, and `KeyboardInterrupt` where a person stops.

    `back`: what a person types to go back.
    """

    back: str

    def say(self, text: str, kind: Kind = "fact") -> None:
        """Tell something."""
        ...

    def select(self, question: str, choices: Sequence[Choice], default: str | None) -> str:
        """Let one choice be made; returns its value."""
        ...

    def several(self, question: str, choices: Sequence[Choice], chosen: Sequence[str]) -> list[str]:
        """Let any number of choices be made; returns their values."""
        ...

    def text(self, question: str, default: str, check: Check) -> str:
        """Let a text be typed that `check` has nothing against."""
        ...

    def secret(self, question: str, check: Check) -> str:
        """Let a secret be typed unseen."""
        ...

    def confirm(self, question: str, default: bool) -> bool:
        """Let a question be answered by yes or no."""
        ...


def capital(label: str) -> str:
    """Return a label with a capital first."""
    return label[:1].upper() + label[1:]
