"""Reads a file of SQL: statements that end in `;`, each with an optional comment `-- user: NAME executions: N`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from ktx_cli.context.sources.query_history.blanking import quiet
from ktx_cli.context.sources.query_history.model import Coverage, History, Observation
from ktx_cli.core.errors import ConfigError
from ktx_cli.project.files import read_bytes

MAX_BYTES: Final = 50_000_000

Cut = Callable[[str, Callable[[], list[int]]], list[int]]
"""Returns where a text is cut: what is known of it, else what it is given finds."""

_COMMENT: Final = re.compile(r"^[ \t]*--(?P<said>.*)$", re.MULTILINE)
_USER: Final = re.compile(r"\buser:\s*([^\s,;]+)", re.IGNORECASE)
_EXECUTIONS: Final = re.compile(r"\bexecutions:\s*(\d{1,12})\b", re.IGNORECASE)


def read(path: Path, shown: str, *, dialect: str, executions: int, cut: Cut | None = None) -> History:
    """Return the statements of a file; `executions`: of one that does not say it. `shown`: the file as it was given.

    `cut`: finds where statements end, in place of `ends_of`. Raises `ConfigError` where there is no such file, or it
    is too large.
    """
    content = read_bytes(path)
    if content is None or len(content) > MAX_BYTES:
        what = "there is no file" if content is None else f"more than {MAX_BYTES // 1_000_000} MB are in"
        raise ConfigError(
            f"query history: {what} {shown}",
            hint="correct context.queryHistory.file; a relative path begins at the folder of ktx.yaml",
            details={"path": str(path)},
        )
    text = content.decode("utf-8-sig", "replace")
    ends = ends_of(text, dialect) if cut is None else cut(text, lambda: ends_of(text, dialect))
    found = tuple(parse(text, ends, executions))
    return History(found, shown, Coverage.LISTED)


def parse(text: str, ends: Iterable[int], executions: int) -> Iterator[Observation]:
    """Yield the statements of a text, which end where `ends` says."""
    for piece in _pieces(text, ends):
        said = " ".join(match["said"] for match in _COMMENT.finditer(piece))
        user, count = _USER.search(said), _EXECUTIONS.search(said)
        if _COMMENT.sub("", piece).strip():
            yield Observation(piece.strip(), int(count[1]) if count else executions, user[1] if user else None)


def ends_of(text: str, dialect: str) -> list[int]:
    """Return the places of the semicolons; of a text that cannot be read to its end, of those that end lines."""
    from sqlglot import tokenize
    from sqlglot.errors import SqlglotError

    quiet()
    try:
        return [token.start for token in tokenize(text, read=dialect) if token.token_type.name == "SEMICOLON"]
    except SqlglotError:
        return [match.start() for match in re.finditer(r";[ \t]*$", text, re.MULTILINE)]


def _pieces(text: str, ends: Iterable[int]) -> Iterator[str]:
    start = 0
    for end in (*ends, len(text)):
        yield text[start:end]
        start = end + 1
