"""Tokens of SQL expressions."""

from __future__ import annotations

import re

from tests.semantic_oracle.oracle.errors import OracleError

Token = tuple[str, str]
"""What a token is (slot, number, text, quoted, word, sign) and its characters."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<slot>\{\{\s*(?:user|param)\.\w+\s*\}\})
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><>|!=|<=|>=|\|\||[-+*/%=<>(),.]))""",
    re.VERBOSE,
)


def tokens(text: str) -> list[Token]:
    """Split an expression; raises `OracleError` (query) at what is no token."""
    found: list[Token] = []
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise OracleError("query", f"cannot read `{text[at:]}`")
        found.append((match.lastgroup or "", match[match.lastgroup or ""]))
        at = match.end()
    return found
