"""The port of a describer: its input, and the report of what became of the descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ktx_cli.core import Command, KtxError, ResultWarning, listing, plural
from ktx_cli.scan.descriptions.facts import Described, Join, KnownTexts, TableFacts, gather_facts
from ktx_cli.scan.profile.counts import TableProfile
from ktx_cli.scan.relationships.hints import GivenHints
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.warehouses import Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.descriptions.model import Estimate


@dataclass(frozen=True, slots=True)
class DescriptionInput:
    """What there is to describe. `profiles`: as a model may see them; `recorded`: texts of earlier scans.

    `texts`: those of people and other tools, read when they are needed.
    """

    tables: Sequence[Table]
    relationships: RelationshipRecord
    profiles: Sequence[TableProfile]
    recorded: Mapping[TableRef, Described]
    texts: Callable[[], Mapping[TableRef, KnownTexts]]

    def facts(self, texts: Mapping[TableRef, KnownTexts] | None = None) -> list[TableFacts]:
        """Return the facts of every table, its accepted joins among them."""
        accepted = (
            Join(edge.child, edge.child_columns, edge.parent, edge.parent_columns)
            for edge in self.relationships.accepted()
        )
        profiles = {profile.ref: profile for profile in self.profiles}
        return gather_facts(self.tables, profiles=profiles, accepted=accepted, texts=texts)


@dataclass(frozen=True, slots=True)
class DescriptionReport:
    """`by`: `llm` or `deterministic`. `described`: tables that have texts, `asked` those the model was asked about now.

    `failed`: table -> why it has no new text; the next run asks again. `proposed`: joins the model proposed, None where
    it was not asked; `unproposed`: why it could not be asked about some. `to_ask`: in a dry run. `stopped`: the error
    after which no more was asked.
    """

    by: str
    described: int = 0
    asked: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    proposed: int | None = None
    unproposed: tuple[str, ...] = ()
    to_ask: Estimate | None = None
    stopped: KtxError | None = None

    @property
    def summary(self) -> str:
        """A few words for a person."""
        ask = self.to_ask
        if ask is not None and ask.calls:
            tables = f"{plural(ask.tables, 'table')} to describe"
            return f"the model would be asked: {tables}, {plural(ask.calls, 'call')}, about {ask.tokens:,} tokens"
        asked = f", {self.asked:,} asked about" if self.by == "llm" else ""
        return f"{self.described:,} described{asked}" + (f", {len(self.failed):,} left" if self.failed else "")

    def left_out(self) -> list[str]:
        """Return what the next run has to do again."""
        tables = f"descriptions of {listing(self.failed)}" if self.failed else ""
        joins = "proposals of joins" if self.unproposed else ""
        return [each for each in (tables, joins) if each]

    def warnings(self, connection: str) -> list[ResultWarning]:
        """Name what failed, and why."""
        found = []
        hint = (self.stopped.hint if self.stopped else None) or Command("scan", connection, "--depth", "enriched")
        if self.failed:
            message = (
                f"connection `{connection}`: no new description of {plural(len(self.failed), 'table')}: "
                f"{listing(f'{table} ({why})' for table, why in self.failed.items())}"
            )
            found.append(
                ResultWarning("not_described", message, hint=hint, connection=connection, tables=list(self.failed))
            )
        if self.unproposed:
            message = f"connection `{connection}`: not all joins could be asked for: {listing(self.unproposed)}"
            found.append(ResultWarning("not_proposed", message, hint=hint, connection=connection))
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the connection's `descriptions` in the report."""
        ask = self.to_ask
        return {
            "by": self.by,
            "described": self.described,
            "asked": self.asked,
            "failed": dict(self.failed),
            "proposed": self.proposed,
            "to_ask": None if ask is None else {"tables": ask.tables, "calls": ask.calls, "tokens": ask.tokens},
            "stopped": None if self.stopped is None else self.stopped.to_json(),
        }


class Describer(Protocol):
    """Proposes joins and describes tables for one connection. `report`: the one that each step adds to."""

    @property
    def report(self) -> DescriptionReport:
        """The report before anything was done."""
        ...

    def propose(
        self,
        tables: Sequence[Table],
        profiles: Sequence[TableProfile],
        record: RelationshipRecord,
        report: DescriptionReport,
    ) -> tuple[GivenHints, DescriptionReport]:
        """Return the joins that are thought likely, those of the record among them where no newer ones are known."""
        ...

    def describe(
        self, wanted: DescriptionInput, report: DescriptionReport
    ) -> tuple[Sequence[Described], DescriptionReport]:
        """Return the texts there are now, of earlier answers too; a table without one keeps its old text."""
        ...
