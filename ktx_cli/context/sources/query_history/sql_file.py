"""Reads a file of SQL: statements that end in `;`, each with an optional comment `-- user: NAME executions: N`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ktx_cli.context.sources.query_history.blanking import quiet
from ktx_cli.context.sources.query_history.model import Coverage, History, Observation
from ktx_cli.core.errors import ConfigError
from ktx_cli.project.files import read_bytes

MAX_BYTES: Final = 50_000_000

_COMMENT: Final = re.compile(r"^[ \t]*--(?P<said>.*)$", re.MULTILINE)
_USER: Final = re.compile(r"\buser:\s*([^\s,;]+)", re.IGNORECASE)
_EXECUTIONS: Final = re.compile(r"\bexecutions:\s*(\d{1,12})\b", re.IGNORECASE)


def read(path: Path, shown: str, *, dialect: str, executions: int) -> History:
    """Return the statements of a file; `executions`: of one that does not say it. `shown`: the file as it was given.

    Raises `ConfigError` where there is no such file, or it is too large.
    """
    content = read_bytes(path)
    if content is None or len(content) > MAX_BYTES:
        what = "there is no file" if content is None else f"more than {MAX_BYTES // 1_000_000} MB are in"
        raise ConfigError(
            f"query history: {what} {shown}",
            hint="correct context.queryHistory.file; a relative path begins at the folder of ktx.yaml",
            details={"path": str(path)},
        )
    found = tuple(parse(content.decode("utf-8-sig", "replace"), dialect, executions))
    return History(found, shown, Coverage.LISTED)


def parse(text: str, dialect: str, executions: int) -> Iterator[Observation]:
    """Yield the statements of a text."""
    for piece in _pieces(text, dialect):
        said = " ".join(match["said"] for match in _COMMENT.finditer(piece))
        user, count = _USER.search(said), _EXECUTIONS.search(said)
        if _COMMENT.sub("", piece).strip():
            yield Observation(piece.strip(), int(count[1]) if count else executions, user[1] if user else None)


def _pieces(text: str, dialect: str) -> Iterator[str]:
    """Yield what stands between semicolons; where the text cannot be read to its end, between those that end lines."""
    from sqlglot import tokenize
    from sqlglot.errors import SqlglotError

    quiet()
    try:
        ends = [token.start for token in tokenize(text, read=dialect) if token.token_type.name == "SEMICOLON"]
    except SqlglotError:
        ends = [match.start() for match in re.finditer(r";[ \t]*$", text, re.MULTILINE)]
    start = 0
    for end in (*ends, len(text)):
        yield text[start:end]
        start = end + 1
