"""Diagnostics that ktx reports about a project, and hints on how to resolve them.

A hint is text that knows which of its parts are commands. The parts are rendered late, so that a terminal can show a
command as it works in the current folder, and no code has to search sentences for commands:

    Hint("correct {}, then: {}", SettingPath("connections.shop.url"), Command("ingest", "shop"))
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core.text import escaped, shell_words


class Severity(StrEnum):
    """Severity of a diagnostic. Severities compare by weight: `Severity.ERROR > Severity.WARNING > Severity.INFO`."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def weight(self) -> int:
        """The weight of the severity: the more severe, the larger."""
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
    """A location in a file, a connection or an object (a source, a table, a setting), as far as known."""

    path: str | None = None
    """The file, relative to the project folder."""
    line: int | None = None
    """The line number in the file, starting at 1."""
    object: str | None = None
    connection: str | None = None

    def __str__(self) -> str:
        if self.path is None:
            return self.object or ""
        path = escaped(self.path)
        return path if self.line is None else f"{path}:{self.line}"

    def within(self, *, object: str | None = None, connection: str | None = None) -> Location:
        """Return this location within an object or a connection, unless those are None."""
        return replace(self, object=object or self.object, connection=connection or self.connection)


THEN: Final = "; then: "
"""Separates consecutive steps."""
AND: Final = " && "
"""Separates commands on one line."""


class Hint(str):
    """A sentence, a command, or both. As a string it is plain text, the form for JSON and agents.

    `Hint(sentence, *parts)` puts each part in place of a `{}` in the sentence; a sentence without parts is literal.
    Write the sentence as a literal and pass what varies as parts: an f-string could contain braces of its own, and a
    command formatted into it is only text. Hints keep their parts when they are added or nested.
    """

    parts: tuple[str, ...]
    """The text, with parts that a caller may render differently: `Command`, `Argument`, `AgentStep` ..."""

    def __new__(cls, sentence: str = "", *parts: object) -> Hint:
        """Return a hint; raises `ValueError` if the number of `{}` in the sentence differs from the number of parts."""
        if not parts:
            return Hint._of(_parts(sentence))
        texts = sentence.split("{}")
        if len(texts) != len(parts) + 1:
            raise ValueError(f"a hint with {len(texts) - 1} placeholders got {len(parts)} parts: {sentence}")
        filled = [item for text, part in zip(texts, parts, strict=False) for item in (text, *_parts(part))]
        return Hint._of([*filled, texts[-1]])

    @staticmethod
    def _of(parts: Iterable[str]) -> Hint:
        kept = tuple(part for part in parts if part)
        hint = str.__new__(Hint, "".join(kept))
        hint.parts = kept
        return hint

    @classmethod
    def of(cls, value: str | None) -> Hint | None:
        """Return a text as a hint; a hint or None is returned unchanged."""
        return value if value is None or isinstance(value, Hint) else Hint(value)

    @classmethod
    def steps(cls, *hints: str, between: str = THEN) -> Hint:
        """Return a hint that consists of consecutive commands or hints."""
        return cls._of([item for hint in hints for item in (between, *_parts(hint))][1:])

    @property
    def is_typed(self) -> bool:
        """Return whether a shell can run this hint, because it is a command or several joined by `&&`."""
        return bool(self.commands) and all(isinstance(part, Command) or part == AND for part in self.parts)

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands in this hint, in order."""
        return tuple(part for part in self.parts if isinstance(part, Command))

    @property
    def command(self) -> Command | None:
        """The command that this hint consists of, or None if it contains anything else."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Command) else None

    @property
    def suggestion(self) -> Suggestion | None:
        """The single value that this hint suggests, or None if it suggests none or several."""
        found = [part for part in self.parts if isinstance(part, Suggestion)]
        return found[0] if len(found) == 1 else None

    @property
    def settings(self) -> tuple[SettingPath, ...]:
        """The settings that this hint names, in the order of the text."""
        return tuple(part for part in self.parts if isinstance(part, SettingPath))

    def rewrite(self, change: Callable[[str], str]) -> Hint:
        """Return this hint with `change` applied to each part, which is how callers adapt commands."""
        return Hint._of([item for part in self.parts for item in _parts(change(part))])

    def rewrite_quoted(self, change: Callable[[str, bool], str]) -> Hint:
        """Return this hint like `rewrite`; `change` also receives whether the part is in backticks."""
        quoted = [False, *(part.endswith("`") for part in self.parts)]
        changed = (change(part, is_quoted) for part, is_quoted in zip(self.parts, quoted, strict=False))
        return Hint._of([item for part in changed for item in _parts(part)])

    def __add__(self, other: str) -> Hint:
        return Hint._of([*self.parts, *_parts(other)])

    def __radd__(self, other: str) -> Hint:
        return Hint._of([*_parts(other), *self.parts])


def choose_one(name: str, values: Iterable[Any], limit: int = 5) -> Hint:
    """Return a hint to pass one of several values as an argument."""
    given = list(values)
    shown = Hint.steps(*(Argument(name, each) for each in given[:limit]), between=", ")
    return Hint("choose one: ") + shown + (f" and {len(given) - limit} more" if len(given) > limit else "")


def _parts(value: object) -> tuple[str, ...]:
    """Return the parts of a value in a hint: a hint's own parts, any other string itself, or the value as text."""
    if isinstance(value, Hint):
        return value.parts
    return (value if isinstance(value, str) else str(value),)


class Command(Hint):
    """A command line as data: a program with its arguments. As a string it is quoted for a shell; it is itself a hint.

    `Command("sl", "query", "-m", name)` is a ktx command; `Command("add", "--", path, program="git")` is a git command.
    """

    program: str
    words: tuple[str, ...]

    def __new__(cls, *words: object, program: str = "ktx") -> Command:
        """Return a command; arguments are quoted if a shell requires it, except for a `Placeholder`."""
        texts = tuple(word if isinstance(word, str) else str(word) for word in words)
        shown = (word if isinstance(word, Placeholder) else shell_words(word) for word in (program, *texts))
        command = str.__new__(cls, " ".join(shown))
        command.program, command.words, command.parts = program, texts, (command,)
        return command

    @property
    def sets(self) -> tuple[SettingPath, str] | None:
        """The setting and value of a `ktx config set` command, or None for any other command."""
        if self.program != "ktx" or self.words[:2] != ("config", "set") or len(self.words) < 4:
            return None
        return SettingPath(self.words[2]), self.words[3]

    def with_words(self, *words: object, after: int | None = None) -> Command:
        """Return the command with more arguments, at the end or after the first `after` arguments."""
        at = len(self.words) if after is None else after
        return Command(*self.words[:at], *words, *self.words[at:], program=self.program)

    def __getnewargs_ex__(self) -> tuple[tuple[str, ...], dict[str, str]]:
        return self.words, {"program": self.program}

    def __getstate__(self) -> None:
        """Return nothing, because a copy is built from the arguments."""


class Placeholder(str):
    """A command argument shown without quotes, because the user replaces it or a shell expands it."""

    __slots__ = ()


class Argument(str):
    """An argument of a query, as part of a hint. As a string it is a key and its value in JSON.

    That is how agents and files write a query; the command line shows the options for the same instead:
    `Argument("via", {"regions": "ship_to"})` is `"via": {"regions": "ship_to"}`, or `--via regions=ship_to`.
    """

    __slots__ = ("name", "value")

    name: str
    value: Any

    def __new__(cls, name: str, value: Any) -> Argument:
        """Return an argument with a value that can be serialized as JSON."""
        made = super().__new__(cls, f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
        made.name, made.value = name, value
        return made

    def __getnewargs__(self) -> tuple[str, Any]:  # type: ignore[override]
        return self.name, self.value


class AgentStep(str):
    """A step that an agent takes with a tool, as part of a hint. As a string it is that step.

    The command line shows `typed` instead, the step with the same purpose for people:
    `AgentStep("find names with discover_data", typed=Hint("to list the sources: {}", Command("sl", "list")))`.
    """

    __slots__ = ("typed",)

    typed: Hint

    def __new__(cls, text: str, *, typed: Hint) -> AgentStep:
        """Return a step."""
        made = super().__new__(cls, text)
        made.typed = typed
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Hint]]:
        return (str(self),), {"typed": self.typed}


class SettingPath(str):
    """The dotted path of a setting in `ktx.yaml`, as part of a hint."""

    __slots__ = ()


class Variable(str):
    """The name of an environment variable, as part of a hint."""

    __slots__ = ()


class Statement(str):
    """SQL for a user with the required permissions, as part of a hint."""

    __slots__ = ()


class Suggestion(str):
    """A suggested replacement value; `setting` is the path in `ktx.yaml` that it is for, if known.

    `Hint("did you mean `{}`?", Suggestion("sqlite", setting="connections.shop.driver"))`
    """

    __slots__ = ("setting",)

    setting: str

    def __new__(cls, text: str, setting: str = "") -> Suggestion:
        """Return a suggestion."""
        made = super().__new__(cls, text)
        made.setting = setting
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.setting


_assign = object.__setattr__
_PLACES: Final = frozenset(("path", "line", "object", "connection"))


@dataclass(frozen=True, slots=True, init=False)
class Diagnostic:
    """An error, a warning or a note about a location, as reported by `lint`, `validate` and `doctor`."""

    code: str
    """A stable code for programs."""
    severity: Severity
    message: str
    """One sentence without a trailing full stop."""
    location: Location
    hint: Hint | None
    """How to fix the problem."""

    def __init__(
        self, code: str, severity: Severity, message: str, location: Location = Location(), hint: str | None = None
    ) -> None:
        """Return a diagnostic; plain text becomes a hint."""
        _assign(self, "code", code)
        _assign(self, "severity", severity)
        _assign(self, "message", message)
        _assign(self, "location", location)
        _assign(self, "hint", Hint.of(hint))

    @property
    def path(self) -> str:
        """The diagnostic's file, or an empty string if it has none."""
        return self.location.path or ""

    @property
    def line(self) -> int | None:
        """The diagnostic's line number, or None if it has none."""
        return self.location.line

    def select(self, keys: Mapping[str, str]) -> dict[str, Any]:
        """Return these fields of the diagnostic and its location as JSON; `keys` maps JSON keys to field names."""
        return {key: getattr(self.location if name in _PLACES else self, name) for key, name in keys.items()}

    def __str__(self) -> str:
        """Return the location and the message as one line of a report."""
        return f"{place}: {self.message}" if (place := str(self.location)) else self.message


def severity_counts(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """Return the number of diagnostics for each severity, most severe first."""
    counts = Counter(diagnostic.severity for diagnostic in diagnostics)
    return {severity.value: counts[severity] for severity in reversed(Severity)}
