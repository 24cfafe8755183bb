"""Captures on the command line: the options and tables that `ktx ingest` and `ktx memory` share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Option

from ktx_cli.cli.blocks import Block, Table
from ktx_cli.cli.contract import Result, Session
from ktx_cli.cli.streams import STDIN, text_of
from ktx_cli.core import Command, KtxError, PartialError, listing, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.capture.capture import Captured, CaptureOptions
    from ktx_cli.jobs.capture.records import CaptureRequest, MemoryRecord

TEXTS = Annotated[list[str] | None, Option("--text", metavar="TEXT", help="Text to capture. Can be repeated.")]
FILES = Annotated[
    list[str] | None,
    Option("--file", metavar="FILE", help="Capture the text of a file, or of stdin with `-`. Can be repeated."),
]
MAX_USD = Annotated[
    float | None, Option("--max-usd", metavar="USD", min=0, help="Stop calling models at this cost, at list prices.")
]
MAX_TOKENS = Annotated[
    int | None, Option("--max-tokens", metavar="N", min=1, help="Stop calling models after this many tokens.")
]

_TOO_LARGE: Final = "split it into parts"
_STDIN_NAME: Final = "stdin"
_FOR_ALL: Final = frozenset(
    {"busy", "no_backend", "auth", "billing", "isolation", "rate_limit", "connection", "git", "git_missing", "config"}
)
"""Error codes that would also affect every remaining text."""


@dataclass(slots=True)
class _Items:
    """The results of the texts so far, as plain values, and the errors."""

    shown: list[dict[str, Any]] = field(default_factory=list)
    errors: list[KtxError] = field(default_factory=list)

    def add(self, captured: Captured) -> None:
        self.shown.append(captured.record.to_json())
        self.errors += [captured.error] if captured.error is not None else []

    def add_error(self, record: MemoryRecord, error: KtxError) -> None:
        """Add a text whose capture could not begin, so that none of it is stored."""
        failed = {"run_id": None, "label": record.label, "status": "failed"}
        self.shown.append({**failed, "reason": error.message, "error": error.to_json()})
        self.errors.append(error)

    def error(self, wanted: int) -> KtxError | None:
        """Return the command's error: a text's own error if nothing was captured, otherwise a partial failure."""
        if not self.errors:
            return None
        if len(self.errors) == wanted and len({each.code for each in self.errors}) == 1:
            return self.errors[0]
        done = wanted - len(self.errors) - (wanted - len(self.shown))
        messages = listing(dict.fromkeys(each.message for each in self.errors))
        message = f"{done} of {plural(wanted, 'text')} captured: {messages}"
        return PartialError(message, hint=self.errors[0].hint, details={"codes": [each.code for each in self.errors]})


def texts_of(
    texts: Sequence[str] | None, files: Sequence[str] | None, words: Sequence[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (text, name) of all input: the words as a single text, then the texts, then the files."""
    if words:
        joined = " ".join(words)
        yield (text_of(STDIN, too_large=_TOO_LARGE), _STDIN_NAME) if joined == STDIN else (joined, "")
    for text in texts or ():
        yield text, ""
    for file in files or ():
        name = _STDIN_NAME if file == STDIN else PurePath(file).name
        yield text_of(file, too_large=_TOO_LARGE), name


def requests_of(texts: Iterable[tuple[str, str]]) -> list[CaptureRequest]:
    """Return requests to capture texts for all users."""
    from ktx_cli.jobs.capture.records import CaptureRequest

    return [CaptureRequest(text, name) for text, name in texts]


def run_captures(
    session: Session,
    requests: Sequence[CaptureRequest],
    options: CaptureOptions,
    *,
    dry_run: bool = False,
    fail_fast: bool = False,
) -> Result:
    """Capture texts one after another, each in its own run and commit, and return the results."""
    from ktx_cli.jobs.capture.capture import capture
    from ktx_cli.jobs.capture.records import MemoryRecord

    records = [MemoryRecord.of(request) for request in requests]
    if dry_run:
        return _estimated(session, records, options)
    items = _Items()
    for record in records:
        try:
            captured = capture(record, options)
            items.add(captured)
            session.warn(*captured.warnings)
        except KtxError as error:
            if len(records) == 1:
                raise
            items.add_error(record, error)
        if items.errors and (fail_fast or items.errors[-1].code in _FOR_ALL):
            break
    data = {"items": items.shown, "left": len(records) - len(items.shown)}
    return Result(data, blocks_of(items.shown), items.error(len(records)), next_steps=_next(items.shown))


def result_of(session: Session, captured: Captured) -> Result:
    """Return the result of a single capture."""
    session.warn(*captured.warnings)
    shown = captured.record.to_json()
    return Result({"items": [shown], "left": 0}, blocks_of([shown]), captured.error, next_steps=_next([shown]))


def options_of(
    session: Session, *, wait: float | None, max_usd: float | None = None, max_tokens: int | None = None
) -> CaptureOptions:
    """Return the capture options of a command line."""
    from ktx_cli.jobs.capture.capture import CaptureOptions

    folder = session.require_own_project()
    return CaptureOptions(folder, os.environ, wait or 0.0, max_usd, max_tokens, session.emitter())


def blocks_of(items: Sequence[dict[str, Any]]) -> list[Block]:
    """Return captures as a table with one row each."""
    columns = ("capture", "text", "status", "commit", "result")
    return [Table(columns, tuple(map(_row, items)))]


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    reverted = " (reverted)" if item.get("reverted") else ""
    commit = str(item.get("commit") or "")[:10]
    return (
        str(item.get("run_id") or "none"),
        str(item.get("label")),
        f"{item.get('status')}{reverted}",
        commit + (f" on {item['branch']}" if item.get("branch") else ""),
        str(item.get("reason") or listing(item.get("artifacts") or ())),
    )


def _next(items: Sequence[dict[str, Any]]) -> list[str]:
    """Return the commands for reviewing the captures on branches."""
    branches = [str(item["branch"]) for item in items if item.get("branch")]
    return [Command("diff", f"HEAD...{branch}", program="git") for branch in branches]


def _estimated(session: Session, records: Sequence[MemoryRecord], options: CaptureOptions) -> Result:
    from ktx_cli.jobs.capture.capture import estimate

    found = []
    for record in records:
        forecast, warnings = estimate(record, options)
        session.warn(*warnings)
        found.append(forecast)
    rows = tuple(
        (
            each.record.label,
            each.reason
            or f"an agent loop of at most {plural(each.steps, 'step')}, starting with about {each.tokens:,} tokens",
        )
        for each in found
    )
    items = [each.to_json() for each in found]
    return Result({"items": items, "left": len(items), "dry_run": True}, [Table(("text", "planned work"), rows)])
