"""Keeps what a look at the rows learned: profiles, value lists and what was found, in the state database alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ktx_cli.connectors.port import Connector, Table, TableRef
from ktx_cli.context.scan.failures import Failures, Stage
from ktx_cli.context.scan.profiling.dictionary import Dictionary, DictionaryLimits, build_dictionary
from ktx_cli.context.scan.profiling.model import FAILED, NOT_READ, SampledTable
from ktx_cli.context.scan.profiling.profiler import OUT_OF_TIME, Profiled
from ktx_cli.context.scan.profiling.store import (
    StoredLook,
    bare,
    comes_back_equal,
    load_lists,
    load_look,
    load_profiles,
    load_turns,
    save_values,
    without_private,
    without_values,
)
from ktx_cli.core.clock import isoformat, monotonic, now
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Emit, StepFinished, StepStarted
from ktx_cli.core.text import listing, plural
from ktx_cli.jobs.ingest.reusing import EarlierLook, found_from_json
from ktx_cli.project.config.scan import Privacy
from ktx_cli.project.state import translated


@dataclass(frozen=True, slots=True)
class Candidate:
    """A look that may stand for the next one. `holds`: whether its proof is what it was before the rows were read."""

    look: StoredLook
    holds: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class ValueKeeper:
    """Lists the values of columns of few values and stores them with the profiles; `privacy` says which may be.

    Every method raises `StorageError` where the state database does not work.
    """

    database: sqlite3.Connection
    state: Path
    connection: str
    privacy: Privacy
    seconds: float
    emit: Emit

    def __call__(
        self,
        connector: Connector,
        tables: Sequence[Table],
        profiled: Profiled,
        candidate: Candidate | None = None,
        failures: Failures | None = None,
    ) -> list[ResultWarning]:
        """Store them, and return what to say of columns whose list could not be read.

        The candidate is kept where all was read, within the time and from the same data. A table whose lists fail
        unexpectedly keeps those it has, and is noted in `failures`; None: the error is raised.
        """
        self.emit(StepStarted("values", self.connection))
        started = monotonic()
        failed = failures or Failures(strict=True)
        dictionary = build_dictionary(
            connector,
            tables,
            profiled.tables,
            privacy=self.privacy,
            limits=DictionaryLimits(),
            deadline=started + self.seconds,
            failures=failed,
        )
        without = {each.table for each in failed.noted if each.stage is Stage.VALUES}
        without |= {each.profile.ref for each in profiled.tables if each.profile.problem == FAILED}
        dictionary = self._with_earlier(dictionary, without)
        in_time = monotonic() < started + self.seconds
        whole = in_time and not without and not dictionary.problems and self._comes_back(profiled.tables)
        look = candidate.look if candidate is not None and whole and candidate.holds() else None
        self._save(profiled, dictionary, look)
        summary = f"{plural(len(dictionary.columns), 'list')}, {len(dictionary.withheld)} withheld"
        self.emit(StepFinished("values", summary, monotonic() - started, self.connection))
        return self._unread(dictionary)

    def _with_earlier(self, dictionary: Dictionary, without: Collection[TableRef | None]) -> Dictionary:
        """Return the lists with those that are stored of the tables `without` new ones."""
        if not without:
            return dictionary
        with translated(self.state):
            stored = load_lists(self.database, self.connection)
        kept = tuple(each for each in stored if each.ref in without)
        return replace(dictionary, columns=(*dictionary.columns, *kept))

    def turns(self) -> Mapping[TableRef, str]:
        """Return table -> when it was profiled last."""
        with translated(self.state):
            return load_turns(self.database, self.connection)

    def earlier(self, proof: str) -> EarlierLook | None:
        """Return what the last look found, None where it was one at other data or with other settings."""
        with translated(self.state):
            stored = load_look(self.database, self.connection)
            if stored is None or stored.proof != proof:
                return None
            profiles = load_profiles(self.database, self.connection)
        told = profiles if self.privacy == "off" else tuple(map(bare, profiles))
        return EarlierLook(stored.hints, found_from_json(stored.found), told)

    def _save(self, profiled: Profiled, dictionary: Dictionary, look: StoredLook | None) -> None:
        turns, moment = dict(self.turns()), isoformat(now())
        # What the time did not reach keeps its turn, so that it comes before what was reached now.
        reached = (each.profile for each in profiled.tables if each.profile.problem not in (OUT_OF_TIME, NOT_READ))
        turns.update((profile.ref, moment) for profile in reached)
        with translated(self.state):
            save_values(
                self.database,
                self.connection,
                profiled.tables,
                dictionary,
                privacy=self.privacy,
                turns=turns,
                look=look,
            )

    def _comes_back(self, sampled: Sequence[SampledTable]) -> bool:
        """Whether the profiles as a model may see them can be read back as they are."""
        told = without_private if self.privacy == "off" else without_values
        return all(comes_back_equal(told(each)) for each in sampled)

    def _unread(self, dictionary: Dictionary) -> list[ResultWarning]:
        if not dictionary.problems:
            return []
        unread = listing(f"{problem.ref}: {problem.message}" for problem in dictionary.problems)
        message = f"connection `{self.connection}`: some lists of values could not be read: {unread}"
        return [ResultWarning("values_not_listed", message, connection=self.connection)]
