"""The ports of a scan beyond the structure: who looks at the rows, and who describes what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ktx_cli.connectors.port import Connector, Table, TableRef
from ktx_cli.context.scan.describe.facts import Described, Join, KnownTexts, TableFacts, gather_facts
from ktx_cli.context.scan.failures import StageFailure
from ktx_cli.context.scan.knowledge import Knowledge
from ktx_cli.context.scan.profiling.model import TableProfile
from ktx_cli.core.errors import ResultWarning


@dataclass(frozen=True, slots=True)
class Findings:
    """What a look at the rows found: keys and edges; `unseen`: tables that could not be looked at.

    `told`: the profiles as a model may be told them. `failures`: the stages that failed, whose part is as it was.
    """

    knowledge: Knowledge
    unseen: frozenset[TableRef] = frozenset()
    warnings: tuple[ResultWarning, ...] = ()
    profiles: tuple[TableProfile, ...] = ()
    told: tuple[TableProfile, ...] = ()
    failures: tuple[StageFailure, ...] = ()


class Look(Protocol):
    """Looks at the rows of tables."""

    def __call__(self, connector: Connector, tables: Sequence[Table], record: Knowledge) -> Findings:
        """Return what was found; `record`: what earlier scans did. Raises `SourceError` when the source is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to describe. `recorded`: texts of earlier scans; `texts`: people's, read when they are needed."""

    tables: Sequence[Table]
    knowledge: Knowledge
    profiles: Sequence[TableProfile]
    recorded: Mapping[TableRef, Described]
    texts: Callable[[], Mapping[TableRef, KnownTexts]]

    def facts(self, texts: Mapping[TableRef, KnownTexts] | None = None) -> list[TableFacts]:
        """Return the facts of every table, its accepted joins among them."""
        accepted = (
            Join(edge.child, edge.child_columns, edge.parent, edge.parent_columns) for edge in self.knowledge.accepted()
        )
        profiles = {profile.ref: profile for profile in self.profiles}
        return gather_facts(self.tables, profiles=profiles, accepted=accepted, texts=texts)


class Describe(Protocol):
    """Describes tables and columns."""

    def __call__(self, seen: Seen) -> Sequence[Described]:
        """Return the texts there are now, of earlier answers too; a table without one keeps its old text."""
        ...
