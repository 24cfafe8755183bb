"""Keeps what a look at the rows learned of their values: profiles and value lists, in the state database alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktx_cli.connectors.port import Connector, Table
from ktx_cli.context.scan.profiling.dictionary import DictionaryLimits, build_dictionary
from ktx_cli.context.scan.profiling.profiler import Profiled
from ktx_cli.context.scan.profiling.store import save_values
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Emit, StepFinished, StepStarted
from ktx_cli.core.text import listing, plural
from ktx_cli.project.config.scan import Privacy
from ktx_cli.project.state import translated


@dataclass(frozen=True, slots=True)
class ValueKeeper:
    """Lists the values of columns of few values and stores them with the profiles; `privacy` says which may be."""

    database: sqlite3.Connection
    state: Path
    connection: str
    privacy: Privacy
    seconds: float
    emit: Emit

    def __call__(self, connector: Connector, tables: Sequence[Table], profiled: Profiled) -> list[ResultWarning]:
        """Store them, and return what to say of columns whose list could not be read."""
        self.emit(StepStarted("values", self.connection))
        started = monotonic()
        dictionary = build_dictionary(
            connector,
            tables,
            profiled.tables,
            privacy=self.privacy,
            limits=DictionaryLimits(),
            deadline=started + self.seconds,
        )
        with translated(self.state):
            save_values(self.database, self.connection, profiled.tables, dictionary, privacy=self.privacy)
        summary = f"{plural(len(dictionary.columns), 'list')}, {len(dictionary.withheld)} withheld"
        self.emit(StepFinished("values", summary, monotonic() - started, self.connection))
        if not dictionary.problems:
            return []
        unread = listing(f"{problem.ref}: {problem.message}" for problem in dictionary.problems)
        message = f"connection `{self.connection}`: some lists of values could not be read: {unread}"
        return [ResultWarning("values_not_listed", message, connection=self.connection)]
