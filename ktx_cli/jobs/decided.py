"""What a person decided about found joins and what became of it; the same facts for people and programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.context.scan.decisions import Decision
from ktx_cli.context.scan.review import ReviewedEdge, Standing
from ktx_cli.core.errors import PartialError, ResultWarning
from ktx_cli.core.text import listing, plural, shell_words
from ktx_cli.project.repository import held_hint


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision as it was typed: the name of an edge, and of its connection where that is known."""

    edge: str
    decision: Decision
    connection: str | None = None


@dataclass(slots=True)
class Decided:
    """A decision and what became of it: `done`, `unchanged` (it held already) or `held` (a file with edits)."""

    edge: ReviewedEdge
    decision: Decision
    result: str = "done"
    paths: frozenset[str] = frozenset()

    @property
    def warning(self) -> ResultWarning | None:
        """What to say where there is nothing to decide, because the join the other way round stands."""
        opposite, connection = self.edge.opposite, self.edge.connection
        if opposite is None or not opposite.stands:
            return None
        declared = opposite.standing is Standing.DECLARED
        chosen = ("--status", Standing.DECLARED.value) if declared else ("--reject", opposite.name)
        message = f"`{self.edge.name}`: nothing to do: the join the other way round stays"
        hint = shell_words("ktx", "scan", "relationships", connection, *chosen)
        return ResultWarning("opposite_stands", message, hint=hint, connection=connection, edge=self.edge.name)

    def to_json(self) -> dict[str, Any]:
        """Return the decision as it stands in the answer of a command."""
        return {
            "connection": self.edge.connection,
            "edge": self.edge.name,
            "decision": self.decision.value,
            "before": self.edge.standing.value,
            "result": self.result,
        }


@dataclass(slots=True)
class DecisionReport:
    """What a run decided. `commit` None: nothing was committed. `held`: path and why it was left alone."""

    run_id: str
    project_dir: Path
    decided: list[Decided] = field(default_factory=list)
    commit: str | None = None
    committed: tuple[str, ...] = ()
    held: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    recovered: tuple[str, ...] = ()
    ended: str | None = None

    @property
    def status(self) -> str:
        """`done`, `unchanged`, `partial`, `failed` or `interrupted`."""
        if self.ended is not None:
            return self.ended
        if self.held:
            return "partial"
        return "done" if any(each.result == "done" for each in self.decided) else "unchanged"

    @property
    def committed_line(self) -> str:
        """One line of what was committed."""
        files = plural(len(self.committed), "file")
        return f"{files} in {self.commit[:10]}" if self.commit else "nothing to commit"

    def error(self) -> PartialError | None:
        """Return the error that names the files which were left alone."""
        if not self.held:
            return None
        left = [f"{path} ({reason})" for path, reason in self.held]
        return PartialError(
            f"saved some decisions; skipped: {listing(left)}",
            hint=f"{held_hint(self.held, self.project_dir)}; then run the same command again",
            details={"left_out": left, "held": [each.edge.name for each in self.decided if each.result == "held"]},
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as it stands in the envelope."""
        return {
            "run_id": self.run_id,
            "status": self.status,
            "decisions": [each.to_json() for each in self.decided],
            "commit": self.commit,
            "committed": list(self.committed),
            "held": [{"path": path, "reason": reason} for path, reason in self.held],
            "ignored": list(self.ignored),
            "recovered": list(self.recovered),
        }
