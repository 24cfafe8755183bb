"""What `ktx agents install` and `uninstall` did, or would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.core.errors import PartialError, ResultWarning
from ktx_cli.core.text import listing
from ktx_cli.jobs.agents.diffs import Diff
from ktx_cli.jobs.agents.targets import Scope, Target


@dataclass(frozen=True, slots=True)
class Left:
    """Something that was not touched, because it is not as ktx wrote it."""

    path: str
    reason: str
    hint: str

    def to_json(self) -> dict[str, str]:
        """Return it as it stands in the answer."""
        return {"path": self.path, "reason": self.reason, "hint": self.hint}


@dataclass(slots=True)
class Outcome:
    """One client in one scope.

    `action`: added, updated, unchanged, kept, removed, left, absent or none (the client has no file). `entry`: what
    stands in the file, or has to be pasted. `path`: the file, None where there is none.
    """

    target: Target
    scope: Scope
    action: str = "none"
    name: str | None = None
    path: Path | None = None
    entry: dict[str, Any] | None = None
    left: list[Left] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the answer."""
        return {
            "target": self.target.value,
            "scope": self.scope.value,
            "action": self.action,
            "name": self.name,
            "path": None if self.path is None else str(self.path),
            "entry": self.entry,
            "left": [each.to_json() for each in self.left],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a command did. `diffs`: the files that changed, or would."""

    outcomes: Sequence[Outcome]
    diffs: Sequence[Diff]
    dry_run: bool
    warnings: Sequence[ResultWarning] = ()

    @property
    def error(self) -> PartialError | None:
        """What was left alone, None where nothing was."""
        left = [each for outcome in self.outcomes for each in outcome.left]
        if not left:
            return None
        told = listing((f"{each.path} ({each.reason})" for each in left), 3)
        return PartialError(
            f"left alone: {told}", hint=left[0].hint, details={"left": [each.to_json() for each in left]}
        )

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "dry_run": self.dry_run,
            "clients": [each.to_json() for each in self.outcomes],
            "files": [each.to_json() for each in self.diffs],
        }
