"""The names the model is shown, one line each and not too long, and the way back from its answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

from ktx_cli.core.text import one_line

Named = TypeVar("Named", bound=Hashable)

LONGEST_LABEL: Final = 120
"""Characters of a name that are shown; longer names are cut, and numbered where that makes two of them equal."""


class Labels(Generic[Named]):
    """Shown names of different things. `names`: thing -> its name, in the order that decides who keeps a shared one."""

    def __init__(self, names: Mapping[Named, str]) -> None:
        self._shown: dict[Named, str] = {}
        self._things: dict[str, Named] = {}
        for thing, name in names.items():
            label = self._free(one_line(name, LONGEST_LABEL) or "?")
            self._shown[thing] = label
            self._things[label] = thing
        self._folded: dict[str, list[Named]] = {}
        for label, thing in self._things.items():
            self._folded.setdefault(label.casefold(), []).append(thing)

    def _free(self, label: str) -> str:
        found, number = label, 2
        while found in self._things:
            found, number = f"{label}~{number}", number + 1
        return found

    def shown(self, thing: Named) -> str:
        """Return the name the model is shown for a thing."""
        return self._shown[thing]

    def thing(self, label: str) -> Named | None:
        """Return what an answer's name stands for, also in other letter case where that names one thing alone."""
        if label in self._things:
            return self._things[label]
        alike = self._folded.get(label.strip().casefold(), [])
        return alike[0] if len(alike) == 1 else None
