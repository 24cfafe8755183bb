"""What proposes and describes for one connection, and what became of it: a part of its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import listing, plural

if TYPE_CHECKING:
    from ktx_cli.connectors.port import Table
    from ktx_cli.context.scan.describe.estimating import Estimate
    from ktx_cli.context.scan.describe.facts import Described
    from ktx_cli.context.scan.knowledge import Knowledge
    from ktx_cli.context.scan.looks import Seen
    from ktx_cli.context.scan.profiling.model import TableProfile
    from ktx_cli.context.scan.proposed import GivenHints


@dataclass(slots=True)
class Enriched:
    """`by`: `llm` or `deterministic`. `described`: tables that have texts, `asked` those the model was asked about now.

    `failed`: table -> why it has no new text; the next run asks again. `proposed`: joins the model proposed, None where
    it was not asked; `unproposed`: why it could not be asked about some. `to_ask`: in a dry run. `stopped`: the error
    after which no more was asked.
    """

    by: str
    described: int = 0
    asked: int = 0
    failed: dict[str, str] = field(default_factory=dict)
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
        hint = (self.stopped.hint if self.stopped else None) or f"ktx scan {connection} --depth enriched"
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
            "failed": self.failed,
            "proposed": self.proposed,
            "to_ask": None if ask is None else {"tables": ask.tables, "calls": ask.calls, "tokens": ask.tokens},
            "stopped": None if self.stopped is None else self.stopped.to_json(),
        }


class Enrichment(Protocol):
    """Proposes and describes for one connection; `report` says what became of it."""

    report: Enriched

    def propose(self, tables: Sequence[Table], told: Sequence[TableProfile], record: Knowledge) -> GivenHints:
        """Return the joins somebody thinks likely."""
        ...

    def describe(self, seen: Seen) -> Sequence[Described]:
        """See `context.scan.looks.Describe`."""
        ...
