"""What is looked at before a statement is parsed: its length, its depth, its characters, its dialect's comments."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from ktx_cli.connectors.guard.errors import refused

MAX_CHARACTERS: Final = 100_000
"""How long a statement may be, in characters."""

MAX_TOKENS: Final = 20_000
"""How many words, numbers and signs a statement may have."""

MAX_DEPTH: Final = 60
"""How deep brackets and CASE may be nested; the parser itself ends at about 100."""

MAX_CHAIN: Final = 400
"""How many operators (||, +, ::, UNION ...) may follow each other on one level; AND and OR are not counted."""

_EXECUTABLE = re.compile(r"/\*M?!")
_OPENING = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"})
_CLOSING = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE", "END"})
_CHAINED = frozenset(
    {"NOT", "DPIPE", "PLUS", "DASH", "STAR", "SLASH", "DIV", "MOD", "CARET", "AMP", "PIPE", "TILDE", "ARROW", "DARROW"}
    | {"UNION", "EXCEPT", "INTERSECT", "DCOLON", "DOT", "COLLATE"}
)
_HINT = "split it into smaller statements"


def require_short(sql: str) -> None:
    """Raise for a text that is too long to look at."""
    if len(sql) > MAX_CHARACTERS:
        raise refused("size", "it", f"has {len(sql):,} characters, more than {MAX_CHARACTERS:,}", hint=_HINT)


def require_plain(sql: str, tokens: Sequence[Any]) -> None:
    """Raise unless what is outside of texts shows, and has no comment that some server runs."""
    rest = _without_texts(sql, tokens)
    if _EXECUTABLE.search(rest):
        raise refused("comment", "a comment `/*!`", "is code on MySQL and MariaDB", hint="leave the comment out")
    if "\0" in sql:
        raise refused("character", "the character NUL", "ends a statement on some servers", hint="take it out")
    for position, character in enumerate(rest):
        if not _is_plain(character):
            name = unicodedata.name(character, f"U+{ord(character):04X}")
            raise refused(
                "character", f"the character {name}", f"at position {position + 1} does not show", hint="take it out"
            )


def _without_texts(sql: str, tokens: Sequence[Any]) -> str:
    """Return the statement with every text blanked, at the same positions."""
    pieces, behind = [], 0
    for token in tokens:
        if token.token_type.name.endswith("STRING"):
            pieces += [sql[behind : token.start], " " * (token.end + 1 - token.start)]
            behind = token.end + 1
    return "".join([*pieces, sql[behind:]])


def _is_plain(character: str) -> bool:
    """Whether a character shows, or is a blank or the end of a line that servers take for one."""
    return character in " \t\n\r" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs")


def require_shallow(tokens: Sequence[Any]) -> None:
    """Raise for a statement whose tree would be too deep or too large to walk."""
    if len(tokens) > MAX_TOKENS:
        raise refused("size", "it", f"has {len(tokens):,} words and signs, more than {MAX_TOKENS:,}", hint=_HINT)
    chains = [0]
    for token in tokens:
        kind = token.token_type.name
        if kind in _OPENING:
            chains.append(0)
        elif kind in _CLOSING and len(chains) > 1:
            chains.pop()
        elif kind in _CHAINED:
            chains[-1] += 1
        elif kind == "COMMA":
            chains[-1] = 0
        if len(chains) > MAX_DEPTH:
            raise refused("size", "it", f"is nested deeper than {MAX_DEPTH} levels", hint=_HINT)
        if chains[-1] > MAX_CHAIN:
            raise refused("size", "it", f"has a chain of more than {MAX_CHAIN} operators", hint=_HINT)
