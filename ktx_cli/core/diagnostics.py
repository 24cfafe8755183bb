"""What ktx reports about a project, and the commands it advises: severity, place, sentence and hint.

A hint is text that knows which of its parts are commands. The parts are rendered late, so that a terminal can show a
command as it works where it is typed, and no code has to look for commands in sentences:

    Hint("correct {}, then: {}", SettingPath("connections.shop.url"), Command("ingest", "shop"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from ktx_cli.core.text import shell_words

KTX: Final = "ktx"


class Severity(StrEnum):
    """How bad a finding is. Severities compare by weight: `Severity.ERROR > Severity.WARNING > Severity.INFO`."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def weight(self) -> int:
        """The place in the order: the more severe, the larger."""
        return _BY_WEIGHT.index(self)

    def __lt__(self, other: str) -> bool:
        return self.weight < Severity(other).weight

    def __le__(self, other: str) -> bool:
        return self.weight <= Severity(other).weight

    def __gt__(self, other: str) -> bool:
        return self.weight > Severity(other).weight

    def __ge__(self, other: str) -> bool:
        return self.weight >= Severity(other).weight


_BY_WEIGHT: Final = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Location:
    """Where something was found: a file from the project's folder, a line in it (from 1), and the object there."""

    path: str | None = None
    line: int | None = None
    object: str | None = None

    def __str__(self) -> str:
        if self.path is None:
            return self.object or ""
        return self.path if self.line is None else f"{self.path}:{self.line}"


class Placeholder(str):
    """A word of a command that the user replaces, or that is shown as it stands: it is never quoted."""

    __slots__ = ()


class Command:
    """A command line as data: the program and its words. `str()` quotes them for a shell.

    `Command("sl", "query", "-m", name)` is one of ktx; `Command("add", "--", path, program="git")` is one of git.
    """

    __slots__ = ("program", "words")

    def __init__(self, *words: object, program: str = KTX) -> None:
        self.program = program
        self.words = tuple(word if isinstance(word, str) else str(word) for word in words)

    def with_words(self, *words: object, after: int | None = None) -> Command:
        """Return the command with more words: at its end, or behind the first `after` of its own."""
        at = len(self.words) if after is None else after
        return Command(*self.words[:at], *words, *self.words[at:], program=self.program)

    def __str__(self) -> str:
        shown = (word if isinstance(word, Placeholder) else shell_words(word) for word in self.words)
        return " ".join((shell_words(self.program), *shown))

    def __repr__(self) -> str:
        return f"Command({', '.join(map(repr, self.words))}, program={self.program!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Command) and (self.program, self.words) == (other.program, other.words)

    def __hash__(self) -> int:
        return hash((self.program, self.words))


@dataclass(frozen=True, slots=True)
class SettingPath:
    """A setting of `ktx.yaml`, named by its dotted path."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A word to write in place of what was written: `Hint("did you mean `{}`?", Suggestion("driver"))`."""

    text: str

    def __str__(self) -> str:
        return self.text


Part: TypeAlias = str | Command | SettingPath | Suggestion
"""A piece of a hint: text, or something the caller may show in another form."""

THEN: Final = "; then: "
"""What stands between commands that are typed one after the other."""


class Hint(str):
    """A sentence, a command, or both: what helps. As a string it is its plain text, as JSON and agents get it.

    `Hint(sentence, *parts)` puts each part where the sentence has `{}`; a sentence without parts is taken literally.
    Write the sentence as a literal and give what varies as parts: an f-string could hold braces of its own, and a
    command that is formatted into it is nothing but text. Hints keep their parts when they are added or nested.
    """

    parts: tuple[Part, ...]

    def __new__(cls, sentence: Part = "", *parts: object) -> Hint:
        """Return a hint; `ValueError` where the sentence has not as many `{}` as there are parts."""
        if not parts:
            return cls._of(_parts(sentence))
        texts = str(sentence).split("{}")
        if len(texts) != len(parts) + 1:
            raise ValueError(f"a hint of {len(texts) - 1} places got {len(parts)} parts: {sentence}")
        filled = [item for text, part in zip(texts, parts, strict=False) for item in (text, *_parts(part))]
        return cls._of([*filled, texts[-1]])

    @classmethod
    def _of(cls, parts: Iterable[Part]) -> Hint:
        kept = tuple(part for part in parts if part != "")
        self = super().__new__(cls, "".join(map(str, kept)))
        self.parts = kept
        return self

    @classmethod
    def of(cls, value: Part | None) -> Hint | None:
        """Return a hint for a text, a command or a hint; None for None."""
        return value if value is None or isinstance(value, Hint) else cls(value)

    @classmethod
    def steps(cls, *commands: Command) -> Hint:
        """Return a hint of commands to type one after the other."""
        return cls._of([item for command in commands for item in (THEN, command)][1:])

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands of this hint, in order."""
        return tuple(part for part in self.parts if isinstance(part, Command))

    @property
    def command(self) -> Command | None:
        """The command this hint is, None where it is anything else or more."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Command) else None

    def rewrite(self, change: Callable[[Part], Part]) -> Hint:
        """Return this hint with what `change` makes of each of its parts: how a caller adapts commands."""
        return Hint._of([item for part in self.parts for item in _parts(change(part))])

    def __add__(self, other: str) -> Hint:
        return Hint._of([*self.parts, *_parts(other)])

    def __radd__(self, other: str) -> Hint:
        return Hint._of([*_parts(other), *self.parts])


def _parts(value: object) -> tuple[Part, ...]:
    """Return what a value becomes in a hint: a hint stays what it consists of, what is no part its text."""
    if isinstance(value, Hint):
        return value.parts
    return (value,) if isinstance(value, Command | SettingPath | Suggestion) else (str(value),)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something wrong, or worth knowing, at a place: what `lint`, `validate` and `doctor` report.

    `code` is stable and meant for programs; `message` is one sentence without a full stop; `hint` says what helps.
    """

    code: str
    severity: Severity
    message: str
    location: Location = Location()
    hint: Hint | None = None
