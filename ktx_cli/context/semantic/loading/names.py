"""Names as SQL writes them: cut into tokens with the quotes of every dialect, and the parts of a table's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ktx_cli.connectors.scope import parse_name
from ktx_cli.core.errors import ConfigError

NAME, TEXT, NUMBER, MARK = "name", "text", "number", "mark"

_IDENTIFIER = r"""
    (?P<double>"(?:[^"]|"")+") | (?P<back>`(?:[^`]|``)+`) | (?P<bracket>\[(?:[^\]]|\]\])+\])
"""
_TOKEN = r"""\s*(?:
    (?P<word>[^\W\d][\w$#@]*) | {identifier} | {text} | (?P<number>-?\d+(?:\.\d+)?(?!\w)) | (?P<mark>[.=()])
)"""
_PLAIN_TEXT = r"(?P<text>'(?:[^']|'')*')"
_ESCAPED_TEXT = r"(?P<text>'(?:[^'\\]|''|\\.)*')"
_FLAGS = re.VERBOSE | re.DOTALL
_TOKENS = re.compile(_TOKEN.format(identifier=_IDENTIFIER, text=_PLAIN_TEXT), _FLAGS)
_ESCAPED_TOKENS = re.compile(_TOKEN.format(identifier=_IDENTIFIER, text=_ESCAPED_TEXT), _FLAGS)
_BACKSLASH = frozenset({"mysql", "bigquery", "clickhouse", "databricks", "snowflake", "spark", "hive"})
"""Dialects where a backslash in a text escapes what follows."""

TEXTS_IN_DOUBLE_QUOTES = frozenset({"mysql", "bigquery", "databricks", "spark", "hive"})
"""Dialects where double quotes hold a text; ktx writes names in them nevertheless, in every dialect."""


@dataclass(frozen=True, slots=True)
class Token:
    """A name, a text, a number or a mark (`kind`); `value` has no quotes, `quote` is the one a name stood in."""

    kind: str
    value: Any
    quote: str = ""


def tokens(text: str, dialect: str) -> list[Token] | None:
    """Return the tokens of names, constants and equalities; None where there is something else in the text."""
    pattern = _ESCAPED_TOKENS if dialect in _BACKSLASH else _TOKENS
    found: list[Token] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = pattern.match(text, position, end)
        if match is None:
            return None
        found.append(_token(match, escaped=dialect in _BACKSLASH))
        position = match.end()
    return found


def _token(match: re.Match[str], *, escaped: bool) -> Token:
    kind, text = match.lastgroup or "", match[match.lastgroup or 0]
    if kind == "word":
        return Token(NAME, text)
    if kind == "mark":
        return Token(MARK, text)
    if kind == "number":
        return Token(NUMBER, float(text) if "." in text else int(text))
    closing = text[-1]
    value = text[1:-1].replace(closing * 2, closing)
    if kind == "text":
        return Token(TEXT, re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL) if escaped else value)
    return Token(NAME, value, text[0])


def table_parts(text: str) -> tuple[str, ...]:
    """Return the parts of a table's name, outermost first: `parse_name`, and in backticks or brackets too.

    A name wholly in backticks is split at its dots, as BigQuery does. Raises `ConfigError`.
    """
    stripped = text.strip()
    try:
        if not stripped.startswith(("`", "[")) and "`" not in stripped and ".[" not in stripped:
            return parse_name(stripped)
        whole = re.fullmatch(r"`([^`]+)`", stripped)
        parts = tuple(whole[1].split(".")) if whole else _quoted_parts(stripped)
    except ConfigError:
        parts = ()
    if not parts or not all(parts):
        raise ConfigError(f"`{text}` is not a table name", hint='write schema.table; quote odd parts: public."a.b"')
    return parts


def _quoted_parts(text: str) -> tuple[str, ...]:
    """Return the parts of a name of which some are in backticks or brackets; none where it is not one."""
    part = re.compile(_IDENTIFIER + r"| (?P<plain>[^.\"`\[\]]+)", re.VERBOSE)
    found: list[str] = []
    position = 0
    while (match := part.match(text, position)) is not None:
        piece = match[0]
        found.append(piece if match.lastgroup == "plain" else piece[1:-1].replace(piece[-1] * 2, piece[-1]))
        if match.end() == len(text):
            return tuple(found)
        if text[match.end()] != ".":
            return ()
        position = match.end() + 1
    return ()
