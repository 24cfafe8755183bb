"""How a work unit ended, and what it would change."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

from ktx_cli.context.sources.model import WorkUnit
from ktx_cli.context.tools.records import Action
from ktx_cli.project.merge import Conflict, TextMerge
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace

REPORTED: Final = ("fallbacks", "conflicts", "evictions", "resolutions")
"""The records of a unit that its part of the report has."""


class UnitStatus(StrEnum):
    """`left`: not begun, or cut off; it stays new. `quarantined`: it ended well, but does not fit what others wrote."""

    DONE = "done"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file as the unit found it and as it would be; None where there is none."""

    base: bytes | None
    content: bytes | None


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    """The end of a unit. `session`: what its tools noted (actions, records), as JSON. `replayed`: from an earlier run.

    `budget_used`: it was stopped by its budget of steps, not by itself. `kept_as`: the key it is stored under.
    """

    connection: str
    kind: str
    unit: WorkUnit
    status: UnitStatus
    reason: str = ""
    changes: Mapping[str, FileChange] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 0
    tool_calls: int = 0
    budget_used: bool = False
    replayed: bool = False
    kept_as: str = ""

    @property
    def actions(self) -> list[Mapping[str, Any]]:
        """What it wrote, as its tools noted it."""
        return list(self.session.get("actions", ()))

    @property
    def did_something(self) -> bool:
        """Whether it wrote, confirmed or noted anything."""
        return bool(self.actions) or any(self.session.get("records", {}).values())

    def produced(self) -> dict[str, tuple[str, ...]]:
        """Return artifact -> the raw files it comes of: those its action names, else all the unit worked through."""
        written = (each for each in actions_of(self) if each.kind != "removed")
        said = {artifact: tuple(paths) for artifact, paths in self.session.get("merged", {}).items()}
        made = {each.identity: each.raw_paths or self.unit.files for each in written}
        return {each: tuple(sorted({*said.get(each, ()), *made.get(each, ())})) for each in sorted({*said, *made})}

    def failed(self, status: UnitStatus, reason: str) -> UnitOutcome:
        """Return the outcome of a unit that does not land."""
        return replace(self, status=status, reason=reason, changes={})

    def kept(self) -> dict[str, Any]:
        """Return what is stored of it between runs."""
        return {
            "changes": {path: [_packed(change.base), _packed(change.content)] for path, change in self.changes.items()},
            "session": self.session,
            "steps": self.steps,
            "tool_calls": self.tool_calls,
            "budget_used": self.budget_used,
        }

    @classmethod
    def of_kept(cls, connection: str, kind: str, unit: WorkUnit, kept: Mapping[str, Any]) -> Self:
        """Return the outcome an earlier run stored."""
        changes = {path: FileChange(*map(_unpacked, both)) for path, both in kept["changes"].items()}
        return cls(
            connection,
            kind,
            unit,
            UnitStatus.DONE,
            changes=changes,
            session=kept["session"],
            steps=kept["steps"],
            tool_calls=kept["tool_calls"],
            budget_used=kept["budget_used"],
            replayed=True,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the unit's part of the report."""
        return {
            "unit": self.unit.key,
            "label": self.unit.label,
            "status": self.status.value,
            "reason": self.reason,
            "files": list(self.unit.files),
            "steps": self.steps,
            "tool_calls": self.tool_calls,
            "budget_used": self.budget_used,
            "replayed": self.replayed,
            "actions": self.actions,
            "records": {name: found for name in REPORTED if (found := self.session.get("records", {}).get(name))},
        }


def actions_of(outcome: UnitOutcome) -> tuple[Action, ...]:
    """Return what a unit wrote, as its tools noted it."""
    return tuple(Action(**{**each, "raw_paths": tuple(each["raw_paths"])}) for each in outcome.actions)


def wrote(outcome: UnitOutcome) -> tuple[Action, ...]:
    """Return its actions without those that found everything said already."""
    return tuple(each for each in actions_of(outcome) if each.kind != "confirmed")


def changes_of(workspace: Workspace, base: Tree) -> dict[str, FileChange]:
    """Return what an overlay changes of the one it was made from."""
    return {path: FileChange(base.read(path), content) for path, content in workspace.changes().items()}


def absorb(workspace: Workspace, outcome: UnitOutcome, text_merge: TextMerge) -> tuple[Conflict, ...]:
    """Merge what a unit changed into an overlay: all of it, or with conflicts nothing."""
    child = Workspace(_AsFound(outcome.changes, workspace.child()))
    for path, change in outcome.changes.items():
        if change.content is None:
            child.delete(path)
        else:
            child.write(path, change.content)
    return workspace.absorb(child, text_merge=text_merge)


class _AsFound:
    """The tree a unit began with, as far as it matters: the files it changed as it found them, the rest as now."""

    def __init__(self, changes: Mapping[str, FileChange], now: Tree) -> None:
        self._changes, self._now = changes, now

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None when there is no such file."""
        return self._changes[path].base if path in self._changes else self._now.read(path)

    def paths(self, prefix: str) -> list[str]:
        """Return the paths of all files that begin with `prefix`, sorted."""
        found = {path for path in self._now.paths(prefix) if path not in self._changes}
        found |= {p for p, change in self._changes.items() if change.base is not None and p.startswith(prefix)}
        return sorted(found)


def _packed(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode("ascii")


def _unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
