"""The check that the query history of a database may be read, by the code that reads it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from ktx_cli.connectors.opening import open_database
from ktx_cli.connectors.registry import dialect_of
from ktx_cli.context.sources.query_history.model import History
from ktx_cli.context.sources.query_history.readers import Place, read_history
from ktx_cli.core.clock import now
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import plural
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.jobs.readiness.running import Work, side_by_side
from ktx_cli.project.config import Database, KtxConfig

CHECK = "history"
SECONDS = 50.0
AGAIN = f"ktx doctor --only {CHECK}"
UNREADABLE = "query_history"
"""The code of a warning that setup gives."""

WINDOW_DAYS = 1
"""Of days of history that are read here, whatever a run reads: some databases take money for each."""


def check_history(context: CheckContext) -> list[Finding]:
    """Every query history that a run would read can be read."""
    wanted = {
        name: entry
        for name, entry in context.loaded.config.databases().items()
        if entry.context and entry.context.query_history.enabled
    }
    if not wanted:
        return [Finding(CHECK, Level.SKIP, "no connection reads its query history")]
    pieces = [
        Work(f"{CHECK}:{name}", functools.partial(_look, context, name, entry), SECONDS, AGAIN)
        for name, entry in wanted.items()
    ]
    return [each for found in side_by_side(pieces) for each in found]


def history_warnings(
    config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
) -> list[ResultWarning]:
    """Return what keeps the query history of a connection from being read; nothing where it is not wanted."""
    entry = config.databases().get(connection)
    if entry is None or not (entry.context and entry.context.query_history.enabled):
        return []
    try:
        found: Sequence[KtxError | ResultWarning] = _read(connection, entry, project_dir, environ).warnings
    except KtxError as error:
        found = [error]
    return [ResultWarning(UNREADABLE, each.message, hint=each.hint) for each in found]


def _look(context: CheckContext, connection: str, entry: Database) -> list[Finding]:
    check = f"{CHECK}:{connection}"
    history = _read(connection, entry, context.project_dir, context.environ)
    findings = [Finding(check, Level.WARN, warning.message, warning.hint) for warning in history.warnings]
    if history.unread:
        message = f"the text of {plural(history.unread, 'statement')} is not shown to this role"
        findings.append(Finding(check, Level.WARN, message))
    return findings or [Finding(check, Level.OK, f"{history.origin} can be read")]


def _read(connection: str, entry: Database, root: Path, environ: Mapping[str, str]) -> History:
    """Read as a run does, of fewer days."""
    place = Place(
        connection,
        dialect_of(entry.driver) or entry.driver,
        root,
        lambda: open_database(connection, entry, project_dir=root, environ=environ)[0],
        getattr(entry, "location", None),
    )
    return read_history(place, entry.context.query_history.model_copy(update={"window_days": WINDOW_DAYS}), now())
