"""Statements to try the guard with: what is read from a corpus, and when two statements are the same in kind."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<name>"[^"]*"|`[^`]*`|\[[^\]]*\])|(?P<number>\d[\d.]*)|(?P<word>[A-Za-z_@#$][\w$]*)"""
    r"|(?P<sign>\S)"
)
_BUILT = {
    "{deep}": "SELECT " + "(" * 500 + "1" + ")" * 500,
    "{long}": "SELECT '" + "x" * 200_000 + "'",
    "{chain}": "SELECT 1" + " || 1" * 3000,
}
"""Statements that are too large to be written out, by what stands for them."""


@dataclass(frozen=True, slots=True)
class Case:
    """One statement of a corpus: `kind` is its class, `why` what it would do or what it shows.

    `missed`: of one written when the guard was finished, that the guard let it through then.
    """

    id: str
    kind: str
    dialect: str
    sql: str
    why: str
    missed: bool = False


def read_corpus(path: Path) -> list[Case]:
    """Return the statements of JSON Lines with `id`, `class`, `dialect`, `sql`, `why` and perhaps `missed`."""
    return [_case(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _case(row: dict[str, Any]) -> Case:
    sql = str(row["sql"])
    missed = bool(row.get("missed"))
    return Case(row["id"], row["class"], row["dialect"], _BUILT.get(sql, sql), row["why"], missed)


def shape_of(sql: str) -> str:
    """Return a statement with its texts, numbers and names blanked.

    What stays are signs, the words of SQL (any dialect's), and the names of functions: a word before a bracket.
    """
    tokens = list(_TOKEN.finditer(sql[:5000]))
    return " ".join(_shape(token, tokens[place + 1 : place + 2]) for place, token in enumerate(tokens))


def _shape(token: re.Match[str], following: list[re.Match[str]]) -> str:
    if token["text"] or token["number"]:
        return "?"
    called = bool(following) and following[0][0] == "("
    word = token[0].strip('"`').upper()
    kept = token["sign"] or called or (token["word"] and word in _words())
    return word if kept else "@x" if word.startswith("@") else "x"


def _words() -> frozenset[str]:
    from sqlglot import Tokenizer

    return frozenset(part for key in Tokenizer.KEYWORDS for part in key.upper().split()) | _MORE


_WRITTEN = """
ADD EXEC JAR
ALL BY CASCADE CONCURRENTLY CONFLICT DATA DIRECTORY DISCARD DUMPFILE EXCLUSIVE EXPORT EXTENSION FORCE FUNCTION
GLOBAL IF IMMEDIATE INFILE INSTALL LOAD LOADED LOCK LOCKED MACRO MODE NO NOTHING ONLY OPTIMIZE OUTFILE PLAN
PREPARE PROGRAM PUBLIC READ REINDEX RENAME ROLE SCHEMA SEQUENCE SHARE SHUTDOWN SKIP STAGE SYSTEM TABLES TEMP
TO TRANSACTION TRUNCATE UNDROP UNLOAD USER VACUUM VARIABLE VIEW WAITFOR WRITE BEGIN CHECKPOINT CHAIN KILL
FLUSH COMMENT REVOKE
"""
_MORE = frozenset(_WRITTEN.split())
"""Words of statements that the parser has no token for."""
