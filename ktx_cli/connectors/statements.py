"""A first look at a statement before it is sent: only kinds that read, in forms every server lexes alike."""

from __future__ import annotations

import re
from collections.abc import Collection

from ktx_cli.core.errors import SourceError

_SPACE = " \t\n\r\f\v"
_WORD = re.compile(r"[A-Za-z]+")


def leading_keyword(sql: str) -> tuple[str, int]:
    """Return the first word of a statement in capitals and the offset behind it.

    White space, comments and opening brackets before it are skipped. Comments that servers read differently (nested
    ones, MySQL's executable `/*!`, `--` without a blank, a bare carriage return) and anything else that is no word
    give an empty word: a caller that lets only known words pass then refuses the statement.
    """
    position = 0
    while position < len(sql):
        if sql[position] in _SPACE or sql[position] == "(":
            position += 1
        elif sql.startswith(("--", "/*"), position):
            behind = _comment_end(sql, position)
            if behind is None:
                break
            position = behind
        else:
            word = _WORD.match(sql, position)
            return (word.group().upper(), word.end()) if word else ("", position)
    return "", position


def require_reading(sql: str, allowed: Collection[str], where: str) -> None:
    """Raise `SourceError` (code `read_only`) unless the statement begins with one of the allowed words."""
    word, _ = leading_keyword(sql)
    if word not in allowed:
        raise read_only_error(where, f"`{word}` statements are" if word else "this kind of statement is")


def read_only_error(where: str, what: str) -> SourceError:
    """Return the error for a statement that does more than read; `what` is a subject and its verb."""
    return SourceError(
        f"{where}: {what} not run: ktx only reads",
        hint="write one SELECT statement; change data with the database's own client",
        code="read_only",
    )


def _comment_end(sql: str, position: int) -> int | None:
    if sql.startswith("--", position):
        end = sql.find("\n", position)
        text = sql[position : len(sql) if end < 0 else end]
        plain = text[2:3] in ("", *_SPACE) and "\r" not in text.removesuffix("\r")
        return position + len(text) if plain else None
    end = sql.find("*/", position + 2)
    text = sql[position + 2 : end]
    if end < 0 or "/*" in text or text.startswith(("!", "M!")):
        return None
    return end + 2
