"""The calls in the text that is sent, as the server reads them: every one of a name that is built in."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from typing import Any, Final

from ktx_cli.connectors.guard.lists import read_words

CHECKED: Final = frozenset({"mysql"})
"""Dialects whose databases' own functions are called without a schema, where no built-in one has the name."""

_WORD: Final = re.compile(r"[\w$]+")
_WORDS: Final = frozenset(read_words("words_mysql.txt"))


def calls(tokens: Sequence[Any]) -> Iterator[tuple[str, bool]]:
    """Yield the word before each opening bracket that may call something, in lower case, and whether it is quoted.

    Names of tables with their columns (`AS t (a)`, `WITH t (a) AS (`) and the words of the grammar are no calls.
    """
    for place, token in enumerate(tokens[1:], start=1):
        before = tokens[place - 1]
        if token.token_type.name != "L_PAREN" or not _is_word(before) or _is_named(tokens, place):
            continue
        quoted = before.token_type.name == "IDENTIFIER"
        if quoted or before.text.lower() not in _WORDS:
            yield before.text.lower(), quoted


def strange_call(tokens: Sequence[Any], known: Container[str]) -> str | None:
    """Return the first call of a name that is not known, or that is quoted and so may be another's."""
    return next((name for name, quoted in calls(tokens) if quoted or name not in known), None)


def _is_word(token: Any) -> bool:
    return token.token_type.name == "IDENTIFIER" or _WORD.fullmatch(token.text) is not None


def _is_named(tokens: Sequence[Any], opening: int) -> bool:
    """Whether the word before a bracket is a name that is given there, or one with a schema, checked in the tree."""
    if opening >= 2 and tokens[opening - 2].text.upper() in ("AS", "."):
        return True
    end = _closing(tokens, opening)
    if tokens[opening - 1].text.upper() == "JSON_TABLE":  # in the grammar of no call
        return any(each.text.upper() == "COLUMNS" for each in tokens[opening:end])
    return [each.text.upper() for each in tokens[end + 1 : end + 3]] == ["AS", "("]


def _closing(tokens: Sequence[Any], opening: int) -> int:
    """Return the place of the bracket that closes the one at `opening`, or of the end."""
    depth = 0
    for place in range(opening, len(tokens)):
        kind = tokens[place].token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth == 0:
            return place
    return len(tokens)
