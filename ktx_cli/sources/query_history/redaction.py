"""Removes literals and comments from statements, then what the project redacts."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktx_cli.core import ConfigError, Hint, SettingPath

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


BLANK: Final = "?"
"""What stands for a literal in a text that is shown or stored."""

REDACTED: Final = "[redacted]"
_INNER: Final = "'x'"
"""What stands for a literal while a statement is parsed: a text that is also a path, a date part, a number of rows."""

_UNIT_WORDS: Final = """
microsecond millisecond second minute hour day dow doy isodow week isoweek month quarter year isoyear epoch
"""
_UNITS: Final = frozenset(_UNIT_WORDS.split())
"""Words that are literals to some databases and say nothing about anybody: `date_trunc('month', x)`."""


def without_literals(sql: str, dialect: str) -> str:
    """Return a statement to parse: no comments, every text and parameter the same, numbers as they were.

    Numbers may be positions and sizes of types, which a parser needs; `shown` takes them out. Raises `SqlglotError`
    for a text that has no end.
    """
    return _spliced(sql, _tokens(sql, dialect), _INNER, numbers=False)


def shown(sql: str, dialect: str) -> str:
    """Return a statement without any literal, on one line: each is `?`. Raises `SqlglotError` as above."""
    return _spliced(sql, _tokens(sql, dialect), BLANK, numbers=True)


def comments(sql: str, dialect: str) -> str:
    """Return the comments of a statement, one a line."""
    return "\n".join(comment for token in _tokens(sql, dialect) for comment in token.comments)


def _tokens(sql: str, dialect: str) -> Sequence[Token]:
    from sqlglot import tokenize

    quiet()
    return tokenize(sql, read=dialect)


def _spliced(sql: str, tokens: Sequence[Token], blank: str, *, numbers: bool) -> str:
    parts: list[str] = []
    end = 0
    for before, token in zip((None, *tokens), tokens, strict=False):
        if parts and token.start > end:
            parts.append(" ")
        end = token.end + 1
        kind = token.token_type.name
        if kind == "NUMBER" and before is not None and _is_numbered(before, token):
            parts[-1] = blank
        elif (kind.endswith("STRING") and token.text.lower() not in _UNITS) or (numbers and kind == "NUMBER"):
            parts.append(blank)
        else:
            parts.append(sql[token.start : end])
    return "".join(parts)


def _is_numbered(before: Token, token: Token) -> bool:
    """Say whether two tokens are a parameter such as `$1`."""
    return before.token_type.name == "PARAMETER" and before.end + 1 == token.start


@dataclass(frozen=True, slots=True)
class Redactor:
    """Blanks what the project's own patterns match; called with every text that is stored."""

    patterns: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, patterns: Iterable[str], where: str) -> Redactor:
        """Compile the patterns; `where` names their setting. Raises `ConfigError` for one that is no pattern."""
        return cls(compiled(patterns, where))

    def __call__(self, text: str) -> str:
        """Return the text with everything that matches blanked."""
        for pattern in self.patterns:
            text = pattern.sub(REDACTED, text)
        return text


def compiled(patterns: Iterable[str], where: str) -> tuple[re.Pattern[str], ...]:
    """Compile regular expressions of a setting; `(?i)` may begin one. Raises `ConfigError`, for all must hold."""
    return tuple(_compiled(text, f"{where}[{position}]") for position, text in enumerate(patterns))


def _compiled(text: str, where: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(
            f"`{where}` in ktx.yaml is not a regular expression: {error}",
            hint=Hint(
                "correct {}: a special character that stands for itself gets a backslash before it", SettingPath(where)
            ),
        ) from error


Redact = Callable[[str], str]


@functools.cache
def quiet() -> None:
    """Keep the parser from writing on stderr what it does not know."""
    logging.getLogger("sqlglot").addHandler(logging.NullHandler())
