"""Holds a T-SQL batch to one reading statement: T-SQL needs no semicolon between two, and a COMMIT ends any rollback.

What begins a statement that does more than read is a reserved word, so outside of quotes no honest query has it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from ktx_cli.connectors.statements import read_only_error

_TOKEN = re.compile(
    r"(?P<space>\s+|--[^\r\n]*|/\*(?:(?!/\*).)*?\*/)"
    r"|(?P<quoted>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\[(?:[^\]]|\]\])*\])"
    r"|(?P<number>\d\w*)"
    r"|(?P<word>[\w@#][\w@#$]*)"
    r"|(?P<mark>[^\s\w'\"\[])",
    re.DOTALL,
)
_DOING = {
    "ALTER", "BACKUP", "BEGIN", "BREAK", "BULK", "CHECKPOINT", "CLOSE", "COMMIT", "CONTINUE", "CREATE", "DBCC",
    "DEALLOCATE", "DECLARE", "DELETE", "DENY", "DROP", "EXEC", "EXECUTE", "GOTO", "GRANT", "IF", "INSERT", "INTO",
    "KILL", "OPEN", "OPENDATASOURCE", "OPENQUERY", "OPENROWSET", "PRINT", "RAISERROR", "RECONFIGURE", "RESTORE",
    "RETURN", "REVERT", "REVOKE", "ROLLBACK", "SAVE", "SET", "SETUSER", "SHUTDOWN", "TRUNCATE", "UPDATE",
    "UPDATETEXT", "WAITFOR", "WHILE", "WRITETEXT",
}  # fmt: skip
# MERGE is also a kind of join, USE also begins a hint, NEXT also counts the rows of a FETCH.
_DOING_UNLESS = {"MERGE": ("JOIN", "UNION"), "USE": ("HINT", "PLAN")}
_DOING_BEFORE = {"NEXT": "VALUE"}


def require_one_reading(sql: str, where: str) -> None:
    """Raise `SourceError` (code `read_only`) for a batch with a word that does more than read, or with two parts."""
    tokens = list(_tokens(sql))
    if "" in tokens:
        raise read_only_error(where, "a statement with an unfinished quote or a comment in a comment is")
    while tokens and tokens[-1] == ";":
        tokens.pop()
    if ";" in tokens:
        raise read_only_error(where, "more than one statement at once is")
    for word, behind in pairwise([*tokens, ""]):
        if _does(word, behind):
            raise read_only_error(where, f"a statement with {word} is")


def _does(word: str, behind: str) -> bool:
    # Between a number and the word behind it T-SQL needs no blank.
    if word[:1].isdigit():
        return word.endswith((*_DOING, *_DOING_UNLESS))
    if word in _DOING_UNLESS:
        return behind not in _DOING_UNLESS[word]
    return word in _DOING or (word in _DOING_BEFORE and behind == _DOING_BEFORE[word])


def _tokens(sql: str) -> Iterator[str]:
    """Yield words and marks in capitals, `'` for what is quoted, and an empty text where none of them fits."""
    position = 0
    while position < len(sql):
        found = _TOKEN.match(sql, position)
        if found is None or (found["mark"] == "/" and sql.startswith("/*", position)):
            yield ""
            return
        position = found.end()
        if found["space"] is None:
            yield "'" if found["quoted"] is not None else unicodedata.normalize("NFKC", found.group()).upper()
