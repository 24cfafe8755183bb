"""What an import or export gives: texts of files, and what became of everything the input says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ktx_cli.context.semantic.model import Place


class Kind(StrEnum):
    """What became of a part of the input."""

    KEPT = "kept"
    APPROXIMATED = "approximated"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Fidelity:
    """What became of one part of the input.

    `what` names it, `why` says what differs or why it is gone (empty where it is kept as it is), `place` is where it
    stands in the input, `target` what it became, such as `orders.revenue`; None where it became nothing.
    """

    kind: Kind
    what: str
    why: str
    place: Place
    target: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the item as it stands in an envelope."""
        return {
            "kind": self.kind.value,
            "what": self.what,
            "why": self.why,
            "path": self.place.path,
            "line": self.place.line,
            "target": self.target,
        }


@dataclass(frozen=True, slots=True)
class Imported:
    """`files`: path below `semantic-layer/<connection>/` -> text. `report`: by place in the input."""

    files: Mapping[str, str]
    report: tuple[Fidelity, ...]


@dataclass(slots=True)
class Report:
    """Collects the items."""

    items: list[Fidelity] = field(default_factory=list)

    def kept(self, what: str, place: Place, target: str) -> None:
        """Note what means the same as before."""
        self.items.append(Fidelity(Kind.KEPT, what, "", place, target))

    def approximated(self, what: str, why: str, place: Place, target: str) -> None:
        """Note what means nearly the same, and the difference."""
        self.items.append(Fidelity(Kind.APPROXIMATED, what, why, place, target))

    def dropped(self, what: str, why: str, place: Place) -> None:
        """Note what is gone, and why."""
        self.items.append(Fidelity(Kind.DROPPED, what, why, place))

    def sorted(self) -> tuple[Fidelity, ...]:
        """Return the items by path and line, each once; what is not kept as it is does not count as kept too."""
        changed = {(each.what, each.place) for each in self.items if each.kind is not Kind.KEPT}
        items = (each for each in self.items if each.kind is not Kind.KEPT or (each.what, each.place) not in changed)
        unique = dict.fromkeys(items)
        return tuple(sorted(unique, key=lambda each: (each.place.path, each.place.line, each.what, each.why)))
