"""What a loop that looks at the whole run sees of it: the units of work, what they wrote, what lost its raw file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ktx_cli.context.tools.records import Action


@dataclass(frozen=True, slots=True)
class StagedUnit:
    """A unit of work as it ended. `status`: `done` or `failed`."""

    key: str
    label: str
    status: str
    files: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """The units of a run in their order, and deleted raw file -> the artifacts that came of it (`wiki:refunds`).

    `pins`: artifact names people have fixed: contested key -> the artifact that keeps it.
    """

    units: Sequence[StagedUnit] = ()
    evictions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)

    def unit(self, key: str) -> StagedUnit | None:
        """Return the unit of a key."""
        return next((each for each in self.units if each.key == key), None)
